"""How fast solutions move with x: the bounds hold on sampled problems, some are attained, and half of them is refuted."""

from math import inf, sqrt

import numpy as np
import pytest

from fedtier.problem.sets import ConstraintSet
from fedtier.theory import constants, lipschitz
from fedtier.theory.numbers import bound, exact


def number(value):
    return exact(value, "by hand")


def steepest(solution, rng, *, n, pairs, spread=3.0, step=1e-4):
    """The fastest movement of `solution` seen over nearby pairs."""
    best = 0.0
    for _ in range(pairs):
        x, d = spread * rng.normal(size=n), rng.normal(size=n)
        d *= step / np.linalg.norm(d)
        best = max(best, float(np.linalg.norm(solution(x + d) - solution(x)) / step))
    return best


def solve(gradient, project, n, steps=4000, lr=0.05):
    z = np.zeros(n)
    for _ in range(steps):
        z = project(z - lr * gradient(z))
    return z


def test_of_a_set_that_does_not_say_how_it_depends_on_x_the_movement_is_unknown():
    foreign = ConstraintSet("ball", lambda y, x, spec: y, lambda y, x, spec, tolerance=0.0: True)  # the name says nothing
    found = [
        lipschitz.motion(foreign.dependence, number(1), number(2), number(1)),
        lipschitz.proximal_motion(foreign.dependence, 1.0, number(2)),
    ]
    assert {number.label for moves in found for number in moves} == {"absent"}
    assert "not known" in found[0].y.note


def test_the_general_constants_for_a_set_that_stays_and_for_one_that_moves():
    # mu_h = 2, L_h = 6, L_x = 1: y is 1/2-Lipschitz on a fixed set; z is (1 + 6)/2 and y 1 + 7/2 on a moving one.
    still = lipschitz.motion("fixed", number(2), number(6), number(1))
    moving = lipschitz.motion("translated", number(2), number(6), number(1))
    assert (still.y.value, still.difference.value) == (0.5, 1.5)
    assert (moving.y.value, moving.difference.value) == (4.5, 3.5)


def test_the_unconstrained_quadratic_attains_the_constants_exactly():
    # y = (q b + mu x)/(q + mu) with q = (1, 3), mu = 1: slopes 1/2 and 1/4; x - y has slopes 1/2 and 3/4.
    moves = lipschitz.proximal_motion("everywhere", 1.0, number(3.0), 1.0)
    assert moves.y.value == pytest.approx(1 / 2)
    assert moves.difference.value == pytest.approx(3 / 4)


@pytest.mark.slow
def test_on_a_moving_ball_the_root_bound_holds_and_half_of_it_is_refuted():
    # loss = L/2 <u, y>^2 with L = 16, mu = 1: the bound is sqrt(16)/2 = 2; the worst angle has |Pu|^2 = mu/L on the sphere.
    L, mu, radius = 16.0, 1.0, 1.0
    u = np.array([1.0, 0.0])
    rng = np.random.default_rng(0)

    def z_of(x):
        def gradient(z):
            return L * u * (u @ (x + z)) + mu * z

        # Exact: stationary point of the round problem, else the multiplier by bisection.
        def at(multiplier):
            return np.linalg.solve(L * np.outer(u, u) + (mu + multiplier) * np.eye(2), -L * u * (u @ x))

        z = at(0.0)
        if np.linalg.norm(z) <= radius:
            return z
        low, high = 0.0, 1e6
        for _ in range(100):
            mid = (low + high) / 2
            low, high = (mid, high) if np.linalg.norm(at(mid)) > radius else (low, mid)
        z = at(high)
        assert np.linalg.norm(gradient(z) + high * z) < 1e-6
        return z

    moves = lipschitz.proximal_motion("translated", mu, number(L))
    assert moves.difference.value == 2.0
    assert steepest(z_of, rng, n=2, pairs=100) <= 2.0

    # Along the bound's worst case: an ellipse of curvature in the plane, the sphere met at the angle where |Pu|^2 = mu/L.
    s = sqrt(mu / L)
    normal, tangent = np.array([sqrt(1 - s**2), s]), np.array([-s, sqrt(1 - s**2)])
    slope = L * abs(tangent @ u) / (L * (tangent @ u) ** 2 + mu)
    assert normal @ tangent == pytest.approx(0.0)
    assert slope == pytest.approx(2.0)  # the linearised equation on the sphere with multiplier 0 attains the bound
    assert slope > 0.5 * moves.difference.value


def test_a_loss_that_meets_the_sphere_at_the_worst_angle_nearly_attains_the_root_bound():
    # Linear part chosen so that z = -radius normal solves the problem at x = 0 with multiplier just above 0.
    L, mu, radius = 16.0, 1.0, 1.0
    s = sqrt(mu / L)
    u = np.array([1.0, 0.0])
    normal, tangent = np.array([sqrt(1 - s**2), s]), np.array([-s, sqrt(1 - s**2)])
    z0, multiplier = -radius * normal, 1e-3
    linear = -(L * u * (u @ z0) + (mu + multiplier) * z0)

    def z_of(x):
        def project(z):
            return z / max(1.0, float(np.linalg.norm(z)) / radius)

        return solve(lambda z: L * u * (u @ (x + z)) + linear + mu * z, project, 2)

    d = 1e-3 * u
    ratio = np.linalg.norm(z_of(d) - z_of(np.zeros(2))) / 1e-3
    other = np.linalg.norm(z_of(-d) - z_of(np.zeros(2))) / 1e-3
    assert np.allclose(z_of(np.zeros(2)), z0, atol=1e-6)
    assert 1.0 < max(ratio, other) <= 2.0 + 1e-3  # half of the constant, 1.0, is refuted
    assert abs(tangent @ z0) < 1e-12


@pytest.mark.parametrize("dependence", ["everywhere", "fixed", "translated", "mixed"])
@pytest.mark.slow
def test_no_random_quadratic_moves_faster_than_its_constant(dependence):
    rng = np.random.default_rng(1)
    for _ in range(3):
        root = rng.normal(size=(3, 3))
        Q, b, mu = root @ root.T, rng.normal(size=3), 0.4
        L = float(np.linalg.eigvalsh(Q)[-1])
        moves = lipschitz.proximal_motion(dependence, mu, bound(L, "by hand"))

        def y_of(x, Q=Q, b=b, L=L, mu=mu):
            def project(y):
                if dependence == "fixed":
                    return np.maximum(y, 0)
                if dependence == "translated":
                    d = y - x
                    return x + d / max(1.0, np.linalg.norm(d) / 0.5)
                if dependence == "mixed":  # a ball of radius 1/2 on two coordinates, y >= 0 on the third
                    d = (y - x)[:2]
                    return np.append(x[:2] + d / max(1.0, np.linalg.norm(d) / 0.5), max(y[2], 0.0))
                return y

            y = project(x)
            for _ in range(400):
                y = project(y - 1 / (L + mu) * (Q @ (y - b) + mu * (y - x)))
            return y

        fastest = steepest(lambda x, y_of=y_of: x - y_of(x), rng, n=3, pairs=15, step=1e-3)
        assert fastest <= moves.difference.value * (1 + 1e-4)
        assert steepest(y_of, rng, n=3, pairs=15, step=1e-3) <= moves.y.value * (1 + 1e-4)


def test_half_of_the_implicit_constant_is_refuted_and_the_constant_is_not():
    # Huber coupling, penalty 1, width 1, on y = x/2 (q = mu = 1, b = 0): f(x) = huber(x/2), slope at most 1 * 1/2, attained.
    coupling = constants.huber_coupling(1.0, 1.0, 1.0)
    client = constants.quadratic_client(
        "everywhere", np.ones(1), 1.0, coupling, variance=np.zeros(1), batch=1, start=number(1.0)
    )
    assert client.L0_imp.value == pytest.approx(0.5)

    x = np.linspace(-6, 6, 2001)
    d = np.abs(x / 2)
    f = np.where(d <= 1, d**2 / 2, d - 0.5)
    steepest_seen = np.max(np.abs(np.diff(f)) / np.diff(x))
    assert steepest_seen <= client.L0_imp.value * (1 + 1e-9)
    assert steepest_seen > 0.5 * client.L0_imp.value


def test_the_quadratic_coupling_without_a_ball_has_no_lipschitz_constant():
    free = constants.quadratic_coupling(2.0, 1.0)
    assert free.L0_y.label == "absent" and free.L0_y.value == inf
    cut = constants.quadratic_coupling(2.0, 1.5, 0.1)
    assert cut.L0_y.value == cut.L0_x.value == pytest.approx(0.3)
    assert constants.quadratic_coupling(0.0, 1.0).L0_y.value == 0.0
