import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled
from fedtier.errors import FedtierError, FedtierWarning
from fedtier.methods import fedavg, fedprox, local_only, scaffold, server_only, zo_hfl
from fedtier.methods.estimators import make as make_estimator
from fedtier.methods.smoothing import sphere
from fedtier.methods.solvers import lower_level
from fedtier.problem import ball, cross_entropy, everywhere, softmax, supervised
from fedtier.problem.closed_forms import two_level_quadratic

from . import reference
from .federations import bumpy_plan, digits, quadratic


def play(method, federation, plan, x, rounds, seed=0):
    engine = compiled(method, capacity=rounds)
    state = engine.init(x, federation)
    state, _ = engine.advance(state, federation, plan, keys.root(seed), 0, rounds)
    return state


def x_of(state):
    return getattr(state.server, "descent", state.server).x


def estimate(plus, minus, v, eta, n):
    """The paper's estimate through the estimator that zo_hfl uses by default."""
    sphere_estimator = make_estimator("sphere", supervised(cross_entropy(softmax(4, 2))))
    return sphere_estimator.estimate((plus - minus) / (2 * eta), v, None, None)


@pytest.mark.parametrize("coupled", [True, False])
def test_twenty_rounds_equal_a_plain_numpy_implementation_with_both_uplinks(coupled):
    with jax.enable_x64(True):
        federation, plan = digits(radius=0.3, dtype=np.float64), bumpy_plan(20)
        model = softmax(64, 10, bias=False)
        problem = supervised(cross_entropy(model), penalty=2.0, proximity=0.5, Y=ball())
        x = model.init(None)._replace(weight=jnp.zeros((10, 64), jnp.float64))
        wanted = reference.zo_hfl(
            federation, plan, np.zeros((10, 64)), keys.root(0), penalty=2.0, proximity=0.5, smoothing=0.1, gamma=0.01,
            client_c=0.1, batch=8, server_batch=16, coupled=coupled,
        )  # fmt: skip
        for uplink in ("values", "models"):
            method = zo_hfl(problem, batch=8, server_batch=16, coupled=coupled, uplink=uplink)
            found = np.asarray(x_of(play(method, federation, plan, x, 20)).weight)
            assert np.abs(wanted).max() > 0.01
            assert np.linalg.norm(found - wanted) <= 1e-5 * np.linalg.norm(wanted)


def exact_solver_problem(federation, closed, penalty, proximity):
    """The two-level quadratic with the closed form in place of the solve."""
    problem = two_level_quadratic(penalty=penalty, proximity=proximity)
    return problem, lambda x, i: closed.solution(x)[i]


def test_the_two_point_estimate_on_a_quadratic_is_exactly_n_times_the_slope_along_v():
    with jax.enable_x64(True):
        federation, closed = quadratic(penalty=3.0, proximity=0.7, dtype=np.float64)
        problem, y = exact_solver_problem(federation, closed, 3.0, 0.7)
        x = jnp.asarray(np.random.default_rng(5).standard_normal(6))
        v, eta = sphere(jax.random.key(3), x), 0.37  # any eta: a quadratic has no third derivative
        assert float(jnp.linalg.norm(v)) == pytest.approx(1.0, abs=1e-12)
        for i in range(4):
            spec = jax.tree.map(lambda a, i=i: a[i], federation.spec)
            plus, minus = (problem.f2(x + s * eta * v, y(x + s * eta * v, i), spec) for s in (1, -1))
            g = estimate(plus[None], minus[None], v[None], eta, 6)
            slope = closed.implicit_gradient(np.asarray(x))[i] @ np.asarray(v)
            np.testing.assert_allclose(g, 6 * slope * np.asarray(v), rtol=1e-9)


def test_its_mean_over_directions_is_the_gradient_of_the_smoothed_function():
    with jax.enable_x64(True):
        _, closed = quadratic(dtype=np.float64)
        x = jnp.asarray(np.random.default_rng(6).standard_normal(6))
        gradient = closed.implicit_gradient(x)[0]

        def one(key):
            v = sphere(key, x)
            plus, minus = closed.implicit(x + 0.1 * v)[0], closed.implicit(x - 0.1 * v)[0]
            return estimate(plus[None], minus[None], v[None], 0.1, 6)

        draws = jax.vmap(one)(jax.random.split(jax.random.key(0), 40_000))
        error = np.abs(np.asarray(draws.mean(0) - gradient))
        deviation = np.asarray(draws.std(0)) / np.sqrt(40_000)
        assert (error < 4.5 * deviation).all()
        assert np.linalg.norm(deviation) < 0.05 * np.linalg.norm(gradient)  # the test could fail


def test_the_error_of_algorithm_2_falls_like_one_over_h():
    federation, closed = quadratic(noise=1.0)
    problem = two_level_quadratic(penalty=1.0, proximity=1.0)
    solve = lower_level(problem, client_lr="inverse(1.0, 2.0)", batch=1)
    x = jnp.ones(6)
    view = federation.view(jax.tree.map(lambda a: a[0], federation.train))
    spec = jax.tree.map(lambda a: a[0], federation.spec)
    target = closed.solution(np.ones(6))[0]
    runs = jax.jit(jax.vmap(lambda key, steps: solve(x, x, view, spec, steps, key), in_axes=(0, None)))
    hs = np.asarray([25, 100, 400, 1600])
    draws = jax.random.split(jax.random.key(0), 300)
    errors = [float(np.mean(np.sum((np.asarray(runs(draws, h)) - target) ** 2, axis=1))) for h in hs]
    slope = np.polyfit(np.log(hs), np.log(errors), 1)[0]
    assert -1.2 < slope < -0.8


def test_it_reaches_the_closed_form_optimum_of_the_two_level_quadratic():
    federation, closed = quadratic(noise=0.05, penalty=2.0, proximity=1.0)
    problem = two_level_quadratic(penalty=2.0, proximity=1.0)
    plan = bumpy_free_plan(4000, 4)
    method = zo_hfl(problem, directions=3, server_lr="power(0.2, 0.8)", client_lr="inverse(2.0, 4.0)", batch=8, server_batch=64)
    start, optimum = jnp.asarray(closed.a, jnp.float32), closed.optimum()  # from where the server alone would stay
    x = x_of(play(method, federation, plan, start, 4000))
    assert np.linalg.norm(x - optimum) < 0.05 * np.linalg.norm(start - optimum)


def bumpy_free_plan(rounds, clients, steps=30):
    from fedtier.federation import make_plan

    return make_plan(np.random.default_rng(0), clients=clients, rounds=rounds, steps=np.full(rounds, steps))


def models(*states):
    return [np.asarray(x_of(state).weight) for state in states]


class TestReductions:
    federation, plan = digits(), bumpy_plan(6)
    model = softmax(64, 10, bias=False)
    problem = supervised(cross_entropy(model), penalty=1.0, proximity=0.2)

    def play(self, method, federation=None, plan=None):
        return play(method, federation or self.federation, plan or self.plan, self.model.init(None), 6)

    def test_fedprox_at_0_is_fedavg(self):
        a, b = models(self.play(fedprox(self.problem, proximity=0.0)), self.play(fedavg(self.problem)))
        assert np.array_equal(a, b) and np.abs(a).max() > 0

    def test_fedprox_stays_closer_the_larger_its_proximity(self):
        a, b = models(self.play(fedprox(self.problem, proximity=5.0)), self.play(fedavg(self.problem)))
        assert np.linalg.norm(a) < np.linalg.norm(b)

    def test_an_infinite_ball_is_no_constraint(self):
        ball_problem = self.problem._replace(Y=ball())
        free_problem = self.problem._replace(Y=everywhere())
        a, b = models(self.play(zo_hfl(ball_problem)), self.play(zo_hfl(free_problem)))
        assert np.array_equal(a, b)

    def test_server_only_is_zo_hfl_at_penalty_0(self):
        nothing = supervised(cross_entropy(self.model), penalty=0.0, proximity=0.2)
        a, b = models(self.play(zo_hfl(nothing)), self.play(server_only(self.problem)))
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)

    def test_scaffold_with_one_client_is_sgd(self):
        alone = digits(clients=1)
        plan = bumpy_free_plan(6, 1, steps=5)
        a, b = models(self.play(scaffold(self.problem), alone, plan), self.play(fedavg(self.problem), alone, plan))
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)

    def test_more_directions_average_their_estimates(self):
        method = zo_hfl(self.problem, directions=4)
        assert np.isfinite(models(self.play(method))[0]).all()


def test_scaffolds_server_control_stays_the_mean_of_the_clients_under_partial_participation():
    federation, plan = digits(), bumpy_plan(8)
    model = softmax(64, 10, bias=False)
    problem = supervised(cross_entropy(model))
    state = play(scaffold(problem), federation, plan, model.init(None), 8)
    mean = np.asarray(state.clients.c.weight).mean(axis=0)
    np.testing.assert_allclose(np.asarray(state.server.c.weight), mean, atol=1e-6)
    assert np.abs(mean).max() > 1e-3


def test_scaffolds_control_is_the_mean_gradient_along_the_path_with_decaying_steps():
    federation = digits(clients=3)
    model = softmax(64, 10, bias=False)
    problem = supervised(cross_entropy(model))
    plan = bumpy_free_plan(1, 3, steps=4)
    state = play(scaffold(problem, batch=8), federation, plan, model.init(None), 1)
    for i in range(3):  # c = c_i = 0 in round 0, so c_i+ is the step-weighted mean of the gradients
        y, total, path = np.zeros((10, 64)), 0.0, np.zeros((10, 64))
        draws = keys.at(keys.root(0), 0, i + 1, keys.Tag.SOLVE)
        for t in range(4):
            inputs, labels = reference.rows(
                federation, federation.train.start[i], federation.train.size[i], keys.at(draws, t), 8
            )
            g = reference.softmax_gradient(y, inputs.astype(np.float64), labels)
            step = 0.1 / (t + 1)
            y, total, path = y - step * g, total + step, path + step * g
        np.testing.assert_allclose(np.asarray(state.clients.c.weight)[i], path / total, rtol=2e-4, atol=1e-6)


def test_a_straggler_leaves_scaffolds_controls_alone():
    federation = digits(clients=3)
    model = softmax(64, 10, bias=False)
    plan = bumpy_free_plan(2, 3, steps=0)
    state = play(scaffold(supervised(cross_entropy(model))), federation, plan, model.init(None), 2)
    assert not np.asarray(state.clients.c.weight).any() and not np.asarray(state.server.c.weight).any()


def test_local_only_trains_each_client_from_where_it_stopped():
    federation, plan = digits(), bumpy_plan(6)
    model = softmax(64, 10, bias=False)
    state = play(local_only(supervised(cross_entropy(model))), federation, plan, model.init(None), 6)
    trained = {int(i) for r in range(6) for i, h, a in zip(plan.ids[r], plan.steps[r], plan.arrived[r], strict=True) if a and h}
    moved = np.abs(np.asarray(state.clients.y.weight)).max(axis=(1, 2)) > 0
    assert set(np.flatnonzero(moved)) == trained


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"smoothing": -1.0}, "smoothing"), ({"server_lr": -0.1}, "server_lr"), ({"client_lr": "inverse(0)"}, "client_lr"),
        ({"uplink": "value"}, "uplink"), ({"directions": 0}, "directions"), ({"server_step": "adma"}, "server_step"),
        ({"start": "cold"}, "start"), ({"estimator": "guided", "uplink": "values"}, "uplink"), ({"cohort": "latest"}, "cohort"),
        ({"estimator": "guidde"}, "estimator"), ({"mix": 0.1}, "mix"),
        ({"estimator": "guided", "mix": 0.1, "directions": 2}, "mix"), ({"estimator": "exact", "control": True}, "control"),
        ({"averaging": -1}, "averaging"), ({"trust": -1.0}, "trust"), ({"server_lr": "inverse_sqr(0.1)"}, "server_lr"),
        ({"batch": 0}, "batch"),
    ],
)  # fmt: skip
def test_impossible_options_are_refused_by_name(options, name):
    with pytest.raises(FedtierError, match=name):
        zo_hfl(supervised(cross_entropy(softmax(4, 2))), **options)


def test_a_smoothing_that_float32_cannot_resolve_is_warned_about():
    with pytest.warns(FedtierWarning, match="rounds"):
        zo_hfl(supervised(cross_entropy(softmax(4, 2))), smoothing=1e-3)
