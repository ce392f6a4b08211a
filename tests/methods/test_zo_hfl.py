import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedtier import keys
from fedtier.engines import compiled
from fedtier.errors import FedtierError, FedtierWarning
from fedtier.federation import blocks
from fedtier.methods import METHODS, estimators, fedavg, fedprox, local_only, make, scaffold, server_only, zo_hfl
from fedtier.methods.descent import by_round, descent
from fedtier.methods.method import Opening, Round, Turn
from fedtier.methods.parts import check_parts
from fedtier.methods.personal import fine_tune, global_model, lower_level
from fedtier.methods.solvers import projected_sgd
from fedtier.methods.two_levels.smoothing import gram_schmidt, sphere
from fedtier.problem import ball, box, cross_entropy, everywhere, softmax, supervised
from fedtier.problem.closed_forms import two_level_quadratic
from fedtier.protocol.foreign import adopt

from ..small_runs import first_slow, mostly_slow
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
    return estimators.sphere().estimate((plus - minus) / (2 * eta), v, keys.root(0), None)


@pytest.mark.parametrize(("coupled", "directions", "rounds"), [(True, 1, 20), *first_slow([(False, 1, 20), (False, 4, 5)])])
@pytest.mark.checked
def test_the_rounds_equal_a_plain_numpy_implementation_with_both_uplinks(coupled, directions, rounds):
    """The ball holds a third of the solutions: were it all of them, f2 would be constant and nobody's estimate would count."""
    with jax.enable_x64(True):
        federation, plan = digits(radius=0.6, dtype=np.float64), bumpy_plan(rounds)
        model = softmax(64, 10, bias=False)
        problem = supervised(cross_entropy(model), penalty=2.0, proximity=0.5, Y=ball())
        x = model.init(None)._replace(weight=jnp.zeros((10, 64), jnp.float64))
        wanted, alone = (
            reference.zo_hfl(
                federation, plan, np.zeros((10, 64)), keys.root(0), penalty=penalty, proximity=0.5, smoothing=0.1, gamma=0.01,
                client_c=0.1, batch=8, server_batch=16, coupled=coupled, directions=directions,
            )
            for penalty in (2.0, 0.0)
        )  # fmt: skip
        assert np.linalg.norm(wanted - alone) > 0.3 * np.linalg.norm(wanted)
        for uplink in ("values", "models"):
            options = {"batch": 8, "server_batch": 16, "coupled": coupled, "uplink": uplink, "directions": directions}
            found = np.asarray(x_of(play(make("zo_hfl", problem, options), federation, plan, x, rounds)).weight)
            assert np.linalg.norm(found - wanted) <= 1e-5 * np.linalg.norm(wanted)


@pytest.mark.slow
def test_what_is_recommended_equals_a_plain_numpy_implementation():
    """Guided, bounded steps, the latest estimate of every client, fading, spread, Adam, averaging: by parts, by flat keys."""
    with jax.enable_x64(True):
        federation, plan = digits(radius=0.3, dtype=np.float64), bumpy_plan(8)
        model = softmax(64, 10, bias=False)
        problem = supervised(cross_entropy(model), penalty=30.0, proximity=10.0, Y=ball())
        x = model.init(None)._replace(weight=jnp.zeros((10, 64), jnp.float64))
        last, average = reference.guided(
            federation, plan, np.zeros((10, 64)), keys.root(0), penalty=30.0, proximity=10.0, smoothing=0.1, server_c=0.003,
            server_steps=5, averaging=3, client_c=0.1, batch=8, server_batch=16, spread=0.6,
        )  # fmt: skip
        by_parts = zo_hfl(
            problem,
            estimator=estimators.guided(smoothing=0.1),
            local=projected_sgd("inverse(0.1)", batch=8, bounded=True),
            server=descent(by_round(optax.scale_by_adam(), "inverse_sqrt(0.003)"), steps=5, batch=16, averaging=3),
            personal=fine_tune("inverse(0.1)", batch=8),
            remembered=10,
            fading=True,
            spread=0.6,
        )
        keys_of_a_configuration = {
            "estimator": "auto", "remembered": 10, "fading": True, "spread": 0.6, "bounded": True, "server_step": "adam",
            "server_lr": "inverse_sqrt(0.003)", "server_steps": 5, "server_batch": 16, "averaging": 3,
            "fine_tune": "inverse(0.1)", "batch": 8,
        }  # fmt: skip
        for method in (by_parts, make("zo_hfl", problem, keys_of_a_configuration)):
            state = play(method, federation, plan, x, 8)
            for found, wanted in ((x_of(state), last), (method.global_model(state.server), average)):
                assert np.linalg.norm(np.asarray(found.weight) - wanted) <= 1e-5 * np.linalg.norm(wanted)


@pytest.mark.slow
def test_momentum_and_weight_decay_at_client_and_server_equal_a_plain_numpy_implementation():
    with jax.enable_x64(True):
        federation, plan = digits(radius=0.3, dtype=np.float64), bumpy_plan(8)
        model = softmax(64, 10, bias=False)
        problem = supervised(cross_entropy(model), penalty=30.0, proximity=10.0, Y=ball())
        start = 0.1 * np.random.default_rng(0).standard_normal((10, 64))
        given = {"momentum": 0.6, "weight_decay": 0.4, "server_weight_decay": 2.0}
        last, average = reference.guided(
            federation, plan, start, keys.root(0), penalty=30.0, proximity=10.0, smoothing=0.1, server_c=0.003,
            server_steps=5, averaging=3, client_c=0.1, batch=8, server_batch=16, momentum=0.6, decay=0.4, server_decay=2.0,
        )  # fmt: skip
        keys_of_a_configuration = {
            "estimator": "auto", "remembered": 10, "fading": True, "bounded": True, "server_step": "adam",
            "server_lr": "inverse_sqrt(0.003)", "server_steps": 5, "server_batch": 16, "averaging": 3, "batch": 8,
        }  # fmt: skip
        method = make("zo_hfl", problem, keys_of_a_configuration | given)
        state = play(method, federation, plan, model.init(None)._replace(weight=jnp.asarray(start)), 8)
        for found, wanted in ((x_of(state), last), (method.global_model(state.server), average)):
            assert np.linalg.norm(np.asarray(found.weight) - wanted) <= 1e-9 * np.linalg.norm(wanted)


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_error_of_algorithm_2_falls_like_one_over_h():
    federation, closed = quadratic(noise=1.0)
    problem = two_level_quadratic(penalty=1.0, proximity=1.0)
    solve = projected_sgd("inverse(1.0, 2.0)", batch=1).lower_level(problem)
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


@pytest.mark.slow
def test_it_reaches_the_closed_form_optimum_of_the_two_level_quadratic():
    federation, closed = quadratic(noise=0.05, penalty=2.0, proximity=1.0)
    problem = two_level_quadratic(penalty=2.0, proximity=1.0)
    plan = bumpy_free_plan(4000, 4)
    method = zo_hfl(
        problem,
        estimator=estimators.sphere(directions=3),
        local=projected_sgd("inverse(2.0, 4.0)", batch=8),
        server=descent("power(0.2, 0.8)", batch=64),
    )
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

    @pytest.mark.slow
    def test_fedprox_at_0_is_fedavg(self):
        a, b = models(self.play(fedprox(self.problem, proximity=0.0)), self.play(fedavg(self.problem)))
        assert np.array_equal(a, b) and np.abs(a).max() > 0

    @pytest.mark.slow
    def test_fedprox_stays_closer_the_larger_its_proximity(self):
        a, b = models(self.play(fedprox(self.problem, proximity=5.0)), self.play(fedavg(self.problem)))
        assert np.linalg.norm(a) < np.linalg.norm(b)

    @pytest.mark.slow
    def test_an_infinite_ball_is_no_constraint(self):
        ball_problem = self.problem._replace(Y=ball())
        free_problem = self.problem._replace(Y=everywhere())
        a, b = models(self.play(zo_hfl(ball_problem)), self.play(zo_hfl(free_problem)))
        assert np.array_equal(a, b)

    @pytest.mark.slow
    def test_server_only_is_zo_hfl_at_penalty_0(self):
        nothing = supervised(cross_entropy(self.model), penalty=0.0, proximity=0.2)
        a, b = models(self.play(zo_hfl(nothing)), self.play(server_only(self.problem)))
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)

    @pytest.mark.slow
    def test_scaffold_with_one_client_is_sgd(self):
        alone = digits(clients=1)
        plan = bumpy_free_plan(6, 1, steps=5)
        a, b = models(self.play(scaffold(self.problem), alone, plan), self.play(fedavg(self.problem), alone, plan))
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_scaffolds_server_control_stays_the_mean_of_the_clients_under_partial_participation():
    federation, plan = digits(), bumpy_plan(8)
    model = softmax(64, 10, bias=False)
    problem = supervised(cross_entropy(model))
    state = play(scaffold(problem), federation, plan, model.init(None), 8)
    mean = np.asarray(state.clients.c.weight).mean(axis=0)
    np.testing.assert_allclose(np.asarray(state.server.c.weight), mean, atol=1e-6)
    assert np.abs(mean).max() > 1e-3


@pytest.mark.slow
def test_scaffolds_control_is_the_mean_gradient_along_the_path_with_decaying_steps():
    federation = digits(clients=3)
    model = softmax(64, 10, bias=False)
    problem = supervised(cross_entropy(model))
    plan = bumpy_free_plan(1, 3, steps=4)
    method = scaffold(problem, local=projected_sgd("inverse(0.1)", batch=8))
    state = play(method, federation, plan, model.init(None), 1)
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


@pytest.mark.slow
def test_a_straggler_leaves_scaffolds_controls_alone():
    federation = digits(clients=3)
    model = softmax(64, 10, bias=False)
    plan = bumpy_free_plan(2, 3, steps=0)
    state = play(scaffold(supervised(cross_entropy(model))), federation, plan, model.init(None), 2)
    assert not np.asarray(state.clients.c.weight).any() and not np.asarray(state.server.c.weight).any()


@pytest.mark.slow
def test_a_client_whose_steps_have_size_0_leaves_scaffolds_controls_alone_and_stops_nobody():
    federation, model = digits(clients=3), softmax(64, 10)
    still = federation._replace(spec=federation.spec._replace(step_scale=jnp.asarray([1.0, 0.0, 1.0])))
    plan = bumpy_free_plan(3, 3, steps=4)
    state = play(scaffold(supervised(cross_entropy(model))), still, plan, model.init(None), 3)
    controls = np.asarray(state.clients.c.weight)
    assert not controls[1].any() and np.abs(controls[[0, 2]]).max(axis=(1, 2)).min() > 1e-3
    np.testing.assert_allclose(np.asarray(state.server.c.weight), controls.mean(axis=0), atol=1e-6)
    assert np.isfinite(np.asarray(state.server.x.weight)).all()


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
        ({"start": "cold"}, "start"), ({"estimator": "guided", "uplink": "values"}, "uplink"),
        ({"remembered": -1}, "remembered"), ({"spread": 0.3}, "spread"), ({"remembered": 3, "spread": 1.5}, "spread"),
        ({"remembered": 10**20}, "remembered"), ({"shared_directions": True, "spread": 0.3}, "spread"),
        ({"estimator": "guidde"}, "estimator"), ({"mix": 0.1}, "mix"),
        ({"estimator": "guided", "mix": 0.1, "directions": 2}, "mix"), ({"estimator": "exact", "control": True}, "control"),
        ({"averaging": -1}, "averaging"), ({"trust": -1.0}, "trust"), ({"server_lr": "inverse_sqr(0.1)"}, "server_lr"),
        ({"batch": 0}, "batch"), ({"server_steps": 0}, "server_steps"), ({"server_batch": 0}, "server_batch"),
        ({"fine_tune": -0.1}, "fine_tune"), ({"server_step": optax.sgd(0.5)}, "server_step"), ({"guide": "server"}, "guide"),
        ({"estimator": "exact", "directions": 4}, "directions"), ({"estimator": "first_order", "directions": 4}, "directions"),
        ({"estimator": "exact", "smoothing": 0.2}, "smoothing"), ({"batch": "8"}, "batch"), ({"bacth": 8}, "bacth"),
    ],
)  # fmt: skip
def test_impossible_keys_are_refused_by_name(options, name):
    with pytest.raises(FedtierError) as caught:
        make("zo_hfl", supervised(cross_entropy(softmax(4, 2))), options)
    assert caught.value.name == name


def test_a_smoothing_that_float32_cannot_resolve_is_warned_about():
    with pytest.warns(FedtierWarning, match="rounds"):
        estimators.sphere(smoothing=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "solves"),
    first_slow(
        [
            ({}, 2),
            ({"directions": 4}, 8),
            ({"estimator": "exact"}, 2),
            ({"estimator": "first_order"}, 2),
            ({"estimator": "auto"}, 2),
        ]
    ),
)
@pytest.mark.checked
def test_the_solves_of_a_round_are_counted_as_they_are_made(options, solves):
    class Counter:
        steps = 0

        def solve(self, x, steps, seed):
            self.steps += steps
            return x

    counter = Counter()
    problem = adopt(supervised(cross_entropy(softmax(64, 10))), counter)
    method = make("zo_hfl", problem, options)
    one_turn(method, softmax(64, 10).init(None))(jnp.asarray(3))
    assert counter.steps == 3 * solves == 3 * method.solves


@pytest.mark.slow
@pytest.mark.parametrize(("directions", "together"), [(1, 1), (3, 1), (3, 3)])
def test_solves_that_do_not_fit_the_caches_together_are_the_same_one_after_another(directions, together, monkeypatch):
    """Softmax regression makes no wider array of a row than the row itself, 64 numbers: there is room for `together` solves."""
    asked, mapped = [], jax.lax.map

    def spied(function, members, *, batch_size=None):
        asked.append((jax.tree.leaves(members)[-1].shape[0], batch_size or 1))
        return mapped(function, members, batch_size=batch_size)

    with jax.enable_x64(True):
        federation, plan = digits(dtype=np.float64), bumpy_plan(2)
        problem = supervised(cross_entropy(softmax(64, 10)), penalty=3.0, proximity=1.0)
        method = make("zo_hfl", problem, {"estimator": "orthogonal", "directions": directions, "batch": 8})
        x = softmax(64, 10).init(None)
        whole = play(method, federation, plan, x, 2)
        monkeypatch.setattr(blocks, "ROOM", together * 8 * 64 * 8)
        monkeypatch.setattr(jax.lax, "map", spied)
        apart = play(method, federation, plan, x, 2)
    assert (2 * directions, together) in asked
    for one, other in zip(jax.tree.leaves(apart), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(np.asarray(one, float), np.asarray(other, float), rtol=1e-9, atol=1e-12)


def test_many_directions_are_no_longer_to_compile_than_few():
    def program(count):
        v = {"a": jnp.ones((count, 5)), "b": jnp.ones((count, 2, 3))}
        return len(jax.jit(lambda v: gram_schmidt(v, count)).lower(v).as_text().splitlines())

    assert program(11) == program(2)


def one_turn(method, x):
    """steps -> (client 0 before, after its turn, info of a round in which it alone replied)."""
    federation = digits(clients=3)
    view = federation.view(jax.tree.map(lambda a: a[0], federation.train))
    spec = jax.tree.map(lambda a: a[0], federation.spec)
    opening = Opening(jnp.asarray(0), 3, federation.view(federation.server), keys.root(2))
    round = Round(jnp.asarray(0), jnp.zeros(1, jnp.int32), jnp.ones(1, bool), *opening[1:])

    def play(steps):
        turn = Turn(jnp.asarray(0), jnp.asarray(0), steps, keys.root(1))
        server, client = method.server_init(x), method.client_init(x, spec)
        shared, own = method.broadcast(server, opening), method.address(server, turn)
        after, up = method.local(client, shared, own, view, spec, turn)
        owns, ups, specs = (jax.tree.map(lambda a: a[None], tree) for tree in (own, up, spec))
        return client, after, method.aggregate(server, owns, ups, specs, round)[1]

    return play


@pytest.mark.parametrize(
    "options",
    mostly_slow([
        {}, {"uplink": "models", "start": "warm"}, {"control": True}, {"estimator": "orthogonal", "directions": 2},
        {"estimator": "guided", "guide": "server"}, {"estimator": "guided", "directions": 2, "remembered": 2},
        {"estimator": "exact", "remembered": 2, "fading": True, "bounded": True},
    ], {}),
    ids=str,
)  # fmt: skip
@pytest.mark.slow
def test_a_client_without_steps_says_nothing_where_a_box_is_active(options):
    """x lies outside the box, so y is not x even after 0 steps and f2(x, y) is not 0."""
    model = softmax(64, 10)
    problem = supervised(cross_entropy(model), penalty=1.0, proximity=0.5, Y=box(-0.05, 0.05))
    x = jax.tree.map(lambda a: a + jnp.linspace(-0.2, 0.2, a.size).reshape(a.shape), model.init(None))
    turn = jax.jit(one_turn(make("zo_hfl", problem, options), x))
    before, after, info = turn(jnp.asarray(0))
    assert float(info.estimate) == 0.0
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True))
    assert float(turn(jnp.asarray(2))[2].estimate) > 1e-3  # with steps it has something to say


class TestTheServersOptimiser:
    """What f1 alone does with an optimiser, against its formula; f1 = 1/2 |x|^2."""

    federation, _ = quadratic(noise=0.0)
    problem = two_level_quadratic()._replace(f1=lambda x, rows: 0.5 * jnp.sum(x**2))

    def after(self, server, rounds=3):
        method = server_only(self.problem, server=server)
        plan = bumpy_free_plan(rounds, 4, steps=1)
        return np.asarray(play(method, self.federation, plan, jnp.full(6, 2.0), rounds).server.x)

    def test_a_complete_optimiser_of_optax_descends(self):
        np.testing.assert_allclose(self.after(descent(optax.sgd(0.5))), 2.0 * 0.5**3, rtol=1e-6)

    @pytest.mark.slow
    def test_a_number_is_a_constant_step_and_a_name_a_schedule_of_the_rounds(self):
        np.testing.assert_allclose(self.after(descent(0.5)), 2.0 * 0.5**3, rtol=1e-6)
        falling = (1 - 0.5) ** 2 * (1 - 0.5 / 2**0.5) ** 2  # two steps in each of two rounds
        np.testing.assert_allclose(self.after(descent("inverse_sqrt(0.5)", steps=2), 2), 2.0 * falling, rtol=1e-6)

    def test_a_schedule_inside_an_optimiser_counts_the_servers_steps(self):
        halving = optax.sgd(lambda count: 0.5 / (count + 1))
        x = 2.0
        for count in range(4):
            x *= 1 - 0.5 / (count + 1)
        np.testing.assert_allclose(self.after(descent(halving, steps=2), 2), x, rtol=1e-6)

    @pytest.mark.slow
    def test_adam_is_adam(self):
        x, adam = np.full(6, 2.0), reference.Adam(np.zeros(6))
        for _ in range(6):
            x = x - 0.1 * adam(x)
        for optimiser in (optax.adam(0.1), by_round(optax.scale_by_adam(), 0.1)):
            np.testing.assert_allclose(self.after(descent(optimiser, steps=2)), x, rtol=1e-5)

    @pytest.mark.parametrize(
        "bare", [optax.scale_by_adam(), optax.identity(), optax.trace(0.9)], ids=["adam", "sgd", "momentum"]
    )
    def test_a_bare_transformation_which_would_climb_is_refused(self, bare):
        with pytest.raises(FedtierError, match="by_round"):
            self.after(descent(bare))

    def test_an_optimiser_that_needs_more_than_the_gradient_is_refused(self):
        with pytest.raises(FedtierError, match="more than the gradient"):
            self.after(descent(optax.lbfgs()))

    def test_what_is_neither_a_step_nor_an_optimiser_is_refused(self):
        for wrong in ("adam", -1.0):
            with pytest.raises(FedtierError, match="optimiser"):
                descent(wrong)


@pytest.mark.parametrize("name", ["estimator", "local", "server", "personal"])
def test_a_part_of_a_wrong_kind_is_refused_with_an_example(name):
    with pytest.raises(FedtierError, match=f"hint: for example {name}="):
        check_parts(**{name: "adam"})


def test_a_personal_rule_of_the_lower_level_is_refused_where_there_is_none():
    with pytest.raises(FedtierError, match="lower level"):
        fedavg(supervised(cross_entropy(softmax(4, 2))), personal=lower_level())


def test_what_others_may_ask_about_a_method():
    """(needs the server's data, solves a round, may have a seat, takes a foreign solver, personal model is y_i(x))"""
    model = softmax(4, 2)
    problem = supervised(cross_entropy(model))._replace(model=model._replace(features=model.apply))
    made = {name: make(name, problem, {}) for name in METHODS}
    asked = ("needs_server_data", "solves", "seat", "foreign", "lower_level")
    facts = {name: tuple(getattr(method, fact) for fact in asked) for name, method in made.items()}
    assert facts == {
        "zo_hfl": (True, 2, False, True, True),
        "fedavg": (False, 1, True, True, False),
        "fedprox": (False, 1, True, True, False),
        "scaffold": (False, 1, True, False, False),
        "fednova": (False, 1, True, False, False),
        "fedavgm": (False, 1, True, True, False),
        "fedadagrad": (False, 1, True, True, False),
        "fedadam": (False, 1, True, True, False),
        "fedyogi": (False, 1, True, True, False),
        "fedexp": (False, 1, True, True, False),
        "agnostic": (False, 1, True, False, False),
        "feddyn": (False, 1, True, False, False),
        "server_only": (True, 0, False, False, False),
        "local_only": (False, 1, False, False, False),
        "ditto": (False, 1, True, False, False),
        "apfl": (False, 2, True, False, False),
        "pfedme": (False, 5, True, False, False),
        "per_fedavg": (False, 4, True, False, False),
        "fedper": (False, 1, True, False, False),
        "fedrep": (False, 1, True, False, False),
        "fedbn": (False, 1, True, False, False),
        "lg_fedavg": (False, 1, True, False, False),
        "rfa": (False, 1, True, True, False),
        "trimmed_mean": (False, 1, True, True, False),
        "coordinate_median": (False, 1, True, True, False),
        "decomfl": (False, 1, True, False, False),
        "fedrzo": (False, 1, True, False, False),
        "zoopfl": (False, 1, True, False, False),
        "simfbo": (False, 1, True, False, False),
        "shrofbo": (False, 1, True, False, False),
        "ifca": (False, 1, True, False, False),
        "cfl": (False, 1, True, True, False),
        "fedmac": (False, 5, True, False, False),
        "moon": (False, 1, True, False, False),
        "knn_per": (False, 1, True, True, False),
        "mocha": (False, 1, False, False, False),
        "fedbuff": (False, 1, True, False, False),
        "fedasync": (False, 1, True, False, False),
        "codistil": (True, 1, False, False, False),
        "fedmd": (True, 2, False, False, False),
        "feddf": (True, 1, False, False, False),
    }
    assert not zo_hfl(problem, personal=fine_tune(0.1)).lower_level and not zo_hfl(problem, personal=global_model()).lower_level
