"""What each estimator is unbiased for, on quadratics where the hypergradient is known, and where a constraint is active."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled
from fedtier.engines.battery import check_method
from fedtier.federation import make_plan
from fedtier.methods import ClientSide, make, zo_hfl
from fedtier.methods.descent import descent
from fedtier.methods.solvers import projected_sgd
from fedtier.methods.two_levels.estimators import exact, first_order, guided, orthogonal, sphere
from fedtier.methods.two_levels.smoothing import gram_schmidt, orthonormal
from fedtier.problem import ball
from fedtier.problem.closed_forms import orthant_example, two_level_quadratic

from .federations import bumpy_plan, digits, one_client_spec, quadratic

N, ETA = 6, 0.1


@pytest.fixture(scope="module")
def setting():
    """Client 1 of the two-level quadratic at a fixed x: its closed form, problem, spec, view and gradient."""
    with jax.enable_x64(True):
        federation, closed = quadratic(noise=0.0, penalty=3.0, proximity=0.7, dtype=np.float64)
        problem = two_level_quadratic(penalty=3.0, proximity=0.7)
        x = jnp.asarray(np.random.default_rng(5).standard_normal(N))
        spec = jax.tree.map(lambda a: a[1], federation.spec)
        view = federation.view(jax.tree.map(lambda a: a[1], federation.train))
        site = ClientSide(problem, x, jnp.asarray(closed.solution(x)[1]), view, spec, keys.root(0))
        yield closed, site, np.asarray(closed.implicit_gradient(x)[1])


def at_probes(function, x, v):
    """[2, K, ...] of x + eta v_k and x - eta v_k."""
    return jnp.stack([jax.vmap(lambda d, sign=sign: function(x + sign * ETA * d))(v) for sign in (1, -1)])


def draws(estimator, closed, site, memory, count):
    """Estimates with exact solves; as in zo_hfl, y is the mean of the solutions at the probes."""

    def one(key):
        v = estimator.propose(key, site.x, memory)
        values = at_probes(lambda point: closed.implicit(point)[1], site.x, v)
        ys = at_probes(lambda point: closed.solution(point)[1], site.x, v)
        return estimator.estimate((values[0] - values[1]) / (2 * ETA), v, key, site._replace(y=jnp.mean(ys, axis=(0, 1))))

    return np.asarray(jax.vmap(one)(jax.random.split(jax.random.key(1), count)))


def is_mean(found, wanted):
    deviation = found.std(axis=0) / np.sqrt(len(found))
    return bool((np.abs(found.mean(axis=0) - wanted) <= 4.5 * deviation + 1e-9).all())


@pytest.mark.parametrize(
    "estimator",
    [
        guided(mix=0.3), *(pytest.param(estimator, marks=pytest.mark.slow) for estimator in (
            sphere(), sphere(directions=3), orthogonal(directions=3), sphere(control=True),
            orthogonal(directions=2, control=True), guided(directions=2), guided(directions=3, control=True),
        )),
    ],
    ids=lambda e: f"{e.name}, K = {e.directions}",
)  # fmt: skip
@pytest.mark.slow
@pytest.mark.checked
def test_where_f_is_quadratic_its_mean_is_the_gradient_of_the_smoothed_function(setting, estimator):
    closed, site, gradient = setting
    with jax.enable_x64(True):
        memory = jnp.asarray(np.random.default_rng(2).standard_normal((max(estimator.guides, 1), N)))
        found = draws(estimator, closed, site, memory, 20_000)
        assert is_mean(found, gradient)
        assert not is_mean(found, 0.8 * gradient)  # the test could fail


@pytest.mark.slow
def test_orthogonal_directions_as_many_as_dimensions_give_the_gradient_itself(setting):
    closed, site, gradient = setting
    with jax.enable_x64(True):
        found = draws(orthogonal(directions=N), closed, site, (), 5)
        np.testing.assert_allclose(found, np.tile(gradient, (5, 1)), rtol=1e-9)


@pytest.mark.slow
def test_orthogonal_directions_have_less_variance_than_independent_ones(setting):
    closed, site, _ = setting
    with jax.enable_x64(True):
        spread = {make: draws(make(directions=4), closed, site, (), 4000).var(axis=0).sum() for make in (sphere, orthogonal)}
        assert spread[orthogonal] < 0.6 * spread[sphere]


@pytest.mark.slow
def test_control_leaves_only_the_unknown_part_to_chance(setting):
    """Known part: lambda w (x - y). Unknown part: -lambda w J (x - y), with J = mu/(q + mu) < 1."""
    closed, site, gradient = setting
    with jax.enable_x64(True):
        plain, controlled = (draws(sphere(control=c), closed, site, (), 4000).var(axis=0).sum() for c in (False, True))
        known = 3.0 * float(site.spec.weight) * np.asarray(site.x - site.y)
        ratio = np.sum((gradient - known) ** 2) / np.sum(gradient**2)  # the variance is (n - 1) |.|^2 for both
        assert controlled / plain == pytest.approx(ratio, rel=0.15)


@pytest.mark.slow
def test_guided_is_the_projection_of_the_gradient_on_the_last_displacement(setting):
    closed, site, gradient = setting
    with jax.enable_x64(True):
        d = np.asarray(site.x - site.y)
        found = draws(guided(), closed, site, jnp.asarray(d)[None], 3)
        np.testing.assert_allclose(found, np.tile(gradient @ d / (d @ d) * d, (3, 1)), rtol=1e-9)
        cosine = found[0] @ gradient / np.linalg.norm(found[0]) / np.linalg.norm(gradient)
        assert cosine > 0.9  # a random direction has |cosine| about 1/sqrt(n)


@pytest.mark.slow
def test_with_the_servers_gradient_and_displacements_as_guides_it_is_the_projection_on_their_span(setting):
    closed, site, gradient = setting
    with jax.enable_x64(True):
        guides = np.random.default_rng(3).standard_normal((2, N))  # what the server sent, and a displacement
        chosen = guided(directions=3, guide="server")
        assert chosen.served and chosen.guides == 1
        basis, _ = np.linalg.qr(guides.T)
        found = draws(chosen, closed, site, jnp.asarray(guides), 20_000)
        np.testing.assert_allclose(found @ basis, np.tile(gradient @ basis, (len(found), 1)), rtol=1e-6)
        assert is_mean(found, gradient)  # the third direction is random and orthogonal: nothing is lost


@pytest.mark.slow
def test_guided_starts_with_a_random_direction_until_it_has_a_displacement(setting):
    _, site, _ = setting
    with jax.enable_x64(True):
        v = guided().propose(keys.root(3), site.x, jnp.zeros((1, N)))
        assert float(jnp.linalg.norm(v[0])) == pytest.approx(1.0)


@pytest.mark.slow
def test_exact_is_the_closed_form_hypergradient(setting):
    _, site, gradient = setting
    with jax.enable_x64(True):
        found = exact().estimate(jnp.zeros(0), (), keys.root(0), site)
        np.testing.assert_allclose(found, gradient, rtol=1e-4, atol=1e-4)  # conjugate gradients stop at 1e-5


def test_first_order_misses_the_term_through_y(setting):
    """Its bias is lambda w J (x - y), J = mu/(q + mu): known exactly, and not small."""
    closed, site, gradient = setting
    with jax.enable_x64(True):
        found = np.asarray(first_order().estimate(jnp.zeros(0), (), keys.root(0), site))
        jacobian = 0.7 / (closed.curvature[1] + 0.7)
        bias = 3.0 * float(site.spec.weight) * jacobian * np.asarray(site.x - site.y)
        np.testing.assert_allclose(found - gradient, bias, rtol=1e-6)
        assert np.linalg.norm(bias) > 0.2 * np.linalg.norm(gradient)


@pytest.mark.slow
def test_where_a_constraint_is_active_the_values_see_it_and_the_exact_formula_does_not():
    """y(x) = max(x, 0), f = 1/2 |x + 1 - y|^2: at x < 0 the gradient is x + 1, at x > 0 it is 0."""
    problem = orthant_example()
    x = jnp.asarray([-0.5, -2.0, 1.5, 0.7])
    truth = np.where(x < 0, x + 1, 0.0)
    spec = jnp.zeros(())

    def value(point):
        return problem.f2(point, jnp.maximum(point, 0.0), spec)

    estimator = orthogonal(directions=4)
    v = estimator.propose(keys.root(0), x, ())
    s = jax.vmap(lambda d: (value(x + 0.05 * d) - value(x - 0.05 * d)) / 0.1)(v)
    np.testing.assert_allclose(estimator.estimate(s, v, keys.root(0), None), truth, atol=1e-4)

    federation, _ = quadratic()
    view = federation.view(jax.tree.map(lambda a: a[0], federation.train))
    site = ClientSide(problem, x, jnp.maximum(x, 0.0), view, spec, keys.root(0))
    wrong = np.asarray(exact().estimate(jnp.zeros(0), (), keys.root(0), site))
    assert np.abs(wrong - truth)[:2].max() > 0.4  # it thinks y follows x below 0 too


def test_zo_hfl_solves_the_kinked_example_to_its_optimum():
    """f is 0 at x = -1 and 1/2 for x >= 0, where it is flat: start below 0."""
    federation, _ = quadratic(clients=4, n=2)
    plan = make_plan(np.random.default_rng(0), clients=4, rounds=600, steps=np.full(600, 20))
    method = zo_hfl(orthant_example(), server=descent(0.05), local=projected_sgd(0.25, batch=1))
    engine = compiled(method, capacity=600)
    state, _ = engine.advance(engine.init(jnp.asarray([-0.3, -2.5]), federation), federation, plan, keys.root(0), 0, 600)
    np.testing.assert_allclose(state.server.descent.x, [-1.0, -1.0], atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [guided(), first_order(), exact()], ids=lambda e: e.name)
def test_every_estimator_runs_inside_the_ball_and_moves_the_model(estimator):
    federation, plan = digits(radius=0.3), bumpy_plan(4)
    from fedtier.problem import cross_entropy, softmax, supervised

    model = softmax(64, 10, bias=False)
    problem = supervised(cross_entropy(model), penalty=1.0, proximity=0.5, Y=ball())
    server = descent("inverse_sqrt(0.01)", averaging=2, trust=1.0)
    method = zo_hfl(problem, estimator=estimator, remembered=6, server=server)
    engine = compiled(method, capacity=4)
    state, info = engine.advance(engine.init(model.init(None), federation), federation, plan, keys.root(0), 0, 4)
    assert np.isfinite(np.asarray(state.server.descent.x.weight)).all()
    assert float(info.estimate[-1]) > 0


@pytest.mark.parametrize(
    "options",
    [
        {
            "estimator": "guided", "guide": "server", "remembered": 3, "fading": True, "bounded": True, "averaging": 2,
            "trust": 1.0, "control": True, "server_step": "adam",
        },
        pytest.param(
            {
                "estimator": "orthogonal", "directions": 2, "uplink": "models", "coupled": False, "start": "warm",
                "server_steps": 2,
            },
            marks=pytest.mark.checked,
        ),
    ],
)  # fmt: skip
@pytest.mark.slow
@pytest.mark.checked
def test_the_options_pass_the_battery(options):
    check_method(lambda problem: make("zo_hfl", problem, options))


@pytest.mark.slow
def test_the_latest_replies_of_all_clients_are_averaged():
    """With H the same in every round and x held still, the mean of all latest estimates is the full-participation mean."""
    federation, closed = quadratic(noise=0.0, clients=4)
    problem = two_level_quadratic(penalty=1.0, proximity=1.0)
    local = projected_sgd(0.5, batch=4)
    method = zo_hfl(problem, estimator=first_order(), remembered=4, server=descent(1e-12), local=local)
    plan = make_plan(np.random.default_rng(0), clients=4, rounds=4, steps=np.full(4, 60), participation=0.25)
    plan = plan._replace(ids=np.asarray([[2], [0], [3], [1]], np.int32))
    engine = compiled(method, capacity=4)
    x = jnp.ones(6)
    state, _ = engine.advance(engine.init(x, federation), federation, plan, keys.root(0), 0, 4)
    wanted = np.mean(closed.weight[:, None] * (1.0 - closed.solution(np.ones(6))), axis=0)
    assert sorted(state.server.memory.client.tolist()) == [0, 1, 2, 3]
    np.testing.assert_allclose(state.server.memory.estimates.g.mean(axis=0), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_gram_schmidt_and_random_directions_are_orthonormal_to_float32():
    v = orthonormal(keys.root(0), {"a": jnp.zeros((30, 20)), "b": jnp.zeros(7)}, 5)
    flat = np.concatenate([np.asarray(v["a"]).reshape(5, -1), np.asarray(v["b"])], axis=1)
    np.testing.assert_allclose(flat @ flat.T, np.eye(5), atol=1e-5)
    nearly = jnp.stack([jnp.ones(50), jnp.ones(50) + 1e-3 * jnp.arange(50)])
    w = np.asarray(gram_schmidt(nearly, 2))
    np.testing.assert_allclose(w @ w.T, np.eye(2), atol=1e-5)


class TestTheServersHelp:
    federation, closed = quadratic(noise=0.0)
    view = federation.view(federation.server)

    def step(self, g, rounds=1, **options):
        moves, loss = descent(0.1, batch=1, **options), lambda x, rows: 0.5 * jnp.sum(x**2)
        server = moves.init(jnp.full(6, 2.0))
        path = []
        for r in range(rounds):
            server = moves.step(loss, server, lambda x: g, self.view, jnp.asarray(r), keys.root(r))
            path.append(np.asarray(server.x))
        return np.asarray(server.x), np.asarray(moves.model(server)), path

    def test_several_steps_hold_the_estimate_fixed(self):
        x, g = np.full(6, 2.0), 0.3
        for _ in range(3):
            x = x - 0.1 * (x + g)
        np.testing.assert_allclose(self.step(jnp.full(6, g), steps=3)[0], x, rtol=1e-6)

    @pytest.mark.slow
    def test_trust_shortens_the_pull_to_the_length_of_f1s_gradient(self):
        found = self.step(jnp.full(6, -50.0), trust=1.0)[0]
        np.testing.assert_allclose(found, np.full(6, 2.0), rtol=1e-6)  # pull and gradient cancel exactly
        np.testing.assert_allclose(self.step(jnp.full(6, 0.1), trust=1.0)[0], 2.0 - 0.1 * 2.1, rtol=1e-6)

    def test_averaging_weighs_late_models_more(self):
        _, model, path = self.step(jnp.zeros(6), rounds=5, averaging=2)
        weights = np.asarray([1.0])  # share_r = 3/(r + 3): the first model replaces the start
        for r in range(1, 5):
            weights = np.append(weights * (1 - 3 / (r + 3)), 3 / (r + 3))
        np.testing.assert_allclose(model, weights @ np.stack(path), rtol=1e-6)
        assert weights[-1] > 2 * weights[0]


class TestWhereABallIsActive:
    """Two dimensions, a client whose ball holds y(x) at some probes and not at others: f has a kink between them.

    What each mean is, by sums over the circle in plain NumPy; sphere's is compared with f_eta itself."""

    eta, limit = 0.1, 1.02
    curvature, centre, proximity, penalty = np.array([0.6, 1.7]), np.array([1.0, -0.5]), 0.7, 3.0
    x = np.array([0.3, 0.4])
    guide, other = np.array([0.8, 0.6]), np.array([-0.6, 0.8])

    def solution(self, x):
        """argmin of 1/2 (y - b)^T q (y - b) + mu/2 |y - x|^2 over the ball, by bisection for the multiplier; x [..., 2]."""
        free = (self.curvature * self.centre + self.proximity * self.x) / (self.curvature + self.proximity)
        radius = self.limit * np.linalg.norm(free - self.x)
        low, high = np.zeros(x.shape[:-1]), np.full(x.shape[:-1], 1e6)

        def y(multiplier):
            pull = self.proximity + multiplier[..., None]
            return (self.curvature * self.centre + pull * x) / (self.curvature + pull)

        for _ in range(60):
            middle = 0.5 * (low + high)
            outside = np.linalg.norm(y(middle) - x, axis=-1) > radius
            low, high = np.where(outside, middle, low), np.where(outside, high, middle)
        inside = np.linalg.norm(y(0.0 * low) - x, axis=-1, keepdims=True) <= radius
        return np.where(inside, y(0.0 * low), y(low))

    def f(self, x):
        return 0.5 * self.penalty * np.sum((x - self.solution(x)) ** 2, axis=-1)

    def slopes(self, v):
        return (self.f(self.x + self.eta * v) - self.f(self.x - self.eta * v)) / (2 * self.eta)

    def middles(self, v):
        """The mean of y+ and y- for each direction, which is what zo_hfl takes for y."""
        return 0.5 * (self.solution(self.x + self.eta * v) + self.solution(self.x - self.eta * v))

    def circle(self, count=4000):
        angle = 2 * np.pi * (np.arange(count) + 0.5) / count
        return np.stack([np.cos(angle), np.sin(angle)], axis=-1)

    def mean_over_the_circle(self, estimator):
        """Of `estimate` with one direction, without a draw."""
        v = self.circle()

        def one(slope, direction, y):
            site = ClientSide(two_level_quadratic(penalty=self.penalty), jnp.asarray(self.x), y, None, one_client_spec(), None)
            return estimator.estimate(slope[None], direction[None], keys.root(0), site)

        return np.asarray(jax.vmap(one)(*(jnp.asarray(a) for a in (self.slopes(v), v, self.middles(v))))).mean(axis=0)

    def smoothed_gradient(self):
        """grad f_eta by differences of the mean of f over the disc."""
        radii = np.sqrt((np.arange(200) + 0.5) / 200)  # equal areas
        disc = radii[:, None, None] * self.circle(400)
        step = 0.02

        def smoothed(x):
            return self.f(x + self.eta * disc).mean()

        axes = np.eye(2) * step
        return np.array([(smoothed(self.x + e) - smoothed(self.x - e)) / (2 * step) for e in axes])

    def test_the_constraint_holds_at_some_probes_and_not_at_others(self):
        v = self.circle(40)
        lengths = np.linalg.norm(self.x + self.eta * v - self.solution(self.x + self.eta * v), axis=-1)
        held = np.isclose(lengths, lengths.max(), rtol=1e-6)
        assert held.any() and not held.all()

    @pytest.mark.slow
    def test_sphere_has_the_gradient_of_the_smoothed_function_as_its_mean(self):
        with jax.enable_x64(True):
            np.testing.assert_allclose(self.mean_over_the_circle(sphere()), self.smoothed_gradient(), rtol=5e-3)

    def test_control_is_off_by_what_its_documentation_says(self):
        with jax.enable_x64(True):
            plain, found = (self.mean_over_the_circle(sphere(control=c)) for c in (False, True))
            v = self.circle()
            d = self.penalty * (self.x - self.middles(v))
            bias = (d - 2 * np.sum(v * d, axis=-1, keepdims=True) * v).mean(axis=0)  # E (I - n v v^T) d(v)
            np.testing.assert_allclose(found - plain, bias, rtol=1e-9)
            assert np.linalg.norm(bias) > 0.02 * np.linalg.norm(plain)

    @pytest.mark.slow
    @pytest.mark.parametrize("estimator", [guided(directions=2), guided(mix=0.3)], ids=["K = 2", "mix"])
    def test_guided_has_the_central_differences_along_its_directions_as_its_mean(self, estimator):
        """In two dimensions the only direction orthogonal to the guide is the other one, up to its sign."""
        with jax.enable_x64(True):
            found = self.draws(estimator)
            wanted = sum(self.slopes(v) * v for v in (self.guide, self.other))
            plain = self.mean_over_the_circle(sphere())
            if estimator.directions == 2:
                np.testing.assert_allclose(found, np.tile(wanted, (len(found), 1)), rtol=1e-6)
            assert is_mean(found, wanted) and not is_mean(found, plain)
            assert np.linalg.norm(wanted - plain) > 0.02 * np.linalg.norm(plain)

    def draws(self, estimator, count=4000):
        """Estimates with exact values of f, which has two directions in all: they are looked up."""
        table = {v: float(self.slopes(np.array(v))) for v in (tuple(self.guide), tuple(self.other))}

        def slope(v):
            along = jnp.abs(v @ jnp.asarray(self.guide)) > 0.5
            value = jnp.where(along, table[tuple(self.guide)], table[tuple(self.other)])
            return value * jnp.sign(v @ jnp.where(along, jnp.asarray(self.guide), jnp.asarray(self.other)))

        def one(key):
            v = estimator.propose(key, jnp.asarray(self.x), jnp.asarray(self.guide)[None])
            return estimator.estimate(jax.vmap(slope)(v), v, key, None)

        return np.asarray(jax.vmap(one)(jax.random.split(jax.random.key(1), count)))


@pytest.mark.slow
def test_where_f_is_smooth_guided_is_off_by_the_square_of_eta():
    """f(x) = sum of x^3/3: the gradient is x^2, and its mean over a wider range grows with eta^2."""
    with jax.enable_x64(True):
        x, guide = jnp.asarray([0.5, -1.0]), jnp.asarray([[0.8, 0.6]])
        errors = []
        for eta in (0.2, 0.1, 0.05):
            estimator = guided(smoothing=eta, directions=2)
            v = estimator.propose(keys.root(0), x, guide)
            s = jax.vmap(lambda d, eta=eta: (jnp.sum((x + eta * d) ** 3) - jnp.sum((x - eta * d) ** 3)) / (6 * eta))(v)
            errors.append(float(jnp.linalg.norm(estimator.estimate(s, v, keys.root(0), None) - x**2)))
        np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 4.0, rtol=1e-6)
