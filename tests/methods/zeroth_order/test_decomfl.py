"""DeComFL where a minibatch is no chance: f1(y) = 1/2 |y - b_i|^2, so that a slope along z is exactly <y - b_i, z>."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled
from fedtier.errors import FedtierError
from fedtier.federation import make_plan
from fedtier.keys import Tag
from fedtier.methods import Opening, make, turn_of
from fedtier.problem import supervised

from ..reference import at
from ..test_known_answers import CLIENTS, ROUNDS, START, bumpy_plan, points_apart, replies, same

C, K, P, N = 0.1, 2, 2, 3
SMALL = {"client_lr": f"inverse({C})", "updates": K, "perturbations": P}
PLAN = bumpy_plan(ROUNDS, clients=CLIENTS)


def problem():
    return supervised(lambda x, rows: 0.5 * jnp.mean(jnp.sum((x[None] - rows.inputs) ** 2, -1)))


@functools.cache
def played(**options):
    """(state, x after each round, b) of the method with these keys."""
    with jax.enable_x64(True):
        federation, _, b = points_apart()
        method = make("decomfl", problem(), SMALL | options)
        engine = compiled(method, capacity=1)
        state, xs = engine.init(jnp.asarray(START), federation), [START]
        for r in range(ROUNDS):
            state, _ = engine.advance(state, federation, PLAN, keys.root(0), r, 1)
            xs.append(np.asarray(method.global_model(state.server)))
        return state, xs, b


def normal(r, k, p):
    with jax.enable_x64(True):
        seed = at(keys.root(0), r, 0, Tag.DIRECTION)
        return np.asarray(jax.random.normal(at(seed, k, p, 0), (N,), np.float64))


@pytest.mark.known_answer("decomfl")
@pytest.mark.slow
def test_decomfl_is_the_published_algorithm_with_clients_that_stop_early_and_replies_that_are_lost():
    _, xs, b = played()
    x = START
    for r, round in enumerate(replies(PLAN)):
        z, scalars = np.asarray([[normal(r, k, p) for p in range(P)] for k in range(K)]), []
        for i, h in round:
            y, c = x, np.zeros((K, P))
            for k in range(min(h, K)):
                c[k] = [
                    (0.5 * np.sum((y + 0.01 * d - b[i]) ** 2) - 0.5 * np.sum((y - 0.01 * d - b[i]) ** 2)) / 0.02 for d in z[k]
                ]
                y = y - C / (k + 1) / P * c[k] @ z[k]
            scalars.append(c)
        mean = np.mean(scalars, axis=0) if scalars else np.zeros((K, P))
        x = x - sum(C / (k + 1) / P * mean[k] @ z[k] for k in range(K))
        np.testing.assert_allclose(xs[r + 1], x, rtol=1e-10, atol=1e-12)
    same(xs[-1], x)


@pytest.mark.slow
def test_momentum_goes_on_from_round_to_round_and_a_client_starts_from_it():
    """Everyone replies with K steps: x and m by the authors' code, torch's SGD with momentum at both ends."""
    rho, everyone = 0.5, make_plan(np.random.default_rng(0), clients=CLIENTS, rounds=3, steps=np.full(3, K))
    with jax.enable_x64(True):
        federation, _, b = points_apart()
        method = make("decomfl", problem(), SMALL | {"momentum": rho, "client_lr": C})
        engine = compiled(method, capacity=3)
        state, _ = engine.advance(engine.init(jnp.asarray(START), federation), federation, everyone, keys.root(0), 0, 3)
        found = np.asarray(method.global_model(state.server))
    x, m = START, np.zeros(N)
    for r in range(3):
        z, c = np.asarray([[normal(r, k, p) for p in range(P)] for k in range(K)]), np.zeros((CLIENTS, K, P))
        for i in range(CLIENTS):
            y, own = x, m
            for k in range(K):
                c[i, k] = z[k] @ (y - b[i])
                own = rho * own + c[i, k] @ z[k] / P
                y = y - C * own
        for k in range(K):
            m = rho * m + c.mean(axis=0)[k] @ z[k] / P
            x = x - C * m
    np.testing.assert_allclose(found, x, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.known_answer("decomfl")
def test_decomfl_with_n_orthogonal_directions_and_one_local_step_is_gradient_descent():
    _, xs, b = played(updates=1, perturbations=N, probes="orthogonal")
    x = START
    for round in replies(PLAN):
        if round:
            x = x - C * np.mean([(x - b[i]) * (h > 0) for i, h in round], axis=0)
    same(xs[-1], x)


@pytest.mark.slow
def test_a_model_that_is_rebuilt_from_seeds_and_scalars_is_the_one_that_is_sent_to_the_bit():
    state, xs, _ = played(replay=ROUNDS)
    np.testing.assert_array_equal(xs, played()[1])
    late = 0
    for i in range(CLIENTS):
        turns = [r for r in range(ROUNDS) if ((PLAN.ids[r] == i) & PLAN.arrived[r] & (PLAN.steps[r] > 0)).any()]
        np.testing.assert_array_equal(state.clients.x[i], xs[turns[-1]] if turns else START)
        assert int(state.clients.round[i]) == (turns[-1] if turns else 0)
        late += sum(b - a > 1 for a, b in zip([0, *turns], turns, strict=False))
    assert late >= 3  # clients that missed rounds and came back


@pytest.mark.slow
def test_a_client_that_is_too_far_behind_loses_its_replies_and_is_counted():
    state, _, _ = played(replay=1)
    wanted, last = np.zeros(CLIENTS, int), np.zeros(CLIENTS, int)
    for r, round in enumerate(replies(PLAN)):
        for i, h in round:
            if h and r - last[i] > 1:
                wanted[i] += 1
            elif h:
                last[i] = r
    assert wanted.sum() > 3
    np.testing.assert_array_equal(state.replies.not_finite, wanted)


def test_neither_way_is_a_model_sent():
    method, (federation, _, _) = make("decomfl", problem(), SMALL | {"replay": 4}), points_apart()
    window, spec = jax.tree.map(lambda a: a[0], (federation.train, federation.spec))
    view = federation.view(window)._replace(arrays=federation.arrays._replace(inputs=jnp.zeros((120, 50))))

    def messages(x):
        opening, turn = Opening(jnp.asarray(0), CLIENTS, view, keys.root(0)), turn_of(0, 0, 2, keys.root(0))
        shared = method.broadcast(method.server_init(x), opening)
        return shared, method.local(method.client_init(x, spec), shared, (), view, spec, turn)[1]

    shared, up = (sum(leaf.size for leaf in jax.tree.leaves(tree)) for tree in jax.eval_shape(messages, jnp.zeros(50)))
    assert up == K * P
    assert shared == 2 + 4 * (2 + K * P)


@pytest.mark.parametrize(
    ("key", "value"), [("updates", 0), ("perturbations", 0), ("smoothing", 0.0), ("probes", "gauss"), ("replay", -1)]
)
def test_what_makes_no_sense_is_refused(key, value):
    with pytest.raises(FedtierError, match=key):
        make("decomfl", problem(), {key: value})
