"""ZooPFL where a minibatch is no chance: f1(q, s) = 1/2 |(q, s) - b_i|^2 + 0.3 q_0 s, whose slopes along z are exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled
from fedtier.errors import FedtierError
from fedtier.keys import Tag
from fedtier.methods import make, turn_of
from fedtier.problem import remapped, supervised

from ..reference import at
from ..test_known_answers import CLIENTS, ROUNDS, START, N, averaged, bumpy_plan, points_apart, replies, same
from ..test_known_answers import C as STEP

P, RATE, MU = 2, 0.4, 0.1
PLAN = bumpy_plan(ROUNDS, clients=CLIENTS)


def pair_loss(x, rows):
    q, s = x
    fit = 0.5 * jnp.mean(jnp.sum((q[None] - rows.inputs[:, :2]) ** 2, -1) + (s - rows.inputs[:, 2]) ** 2)
    return fit + 0.3 * q[0] * s


def played(loss, x, **options):
    """(method, state, federation, b) after the rounds."""
    with jax.enable_x64(True):
        federation, _, b = points_apart()
        method = make("zoopfl", supervised(loss), {"client_lr": f"inverse({STEP})", "smoothing": MU} | options)
        engine = compiled(method, capacity=ROUNDS)
        state = engine.init(jax.tree.map(jnp.asarray, x), federation)
        state, _ = engine.advance(state, federation, PLAN, keys.root(0), 0, ROUNDS)
        return method, state, federation, b


@pytest.mark.known_answer("zoopfl")
@pytest.mark.slow
def test_zoopfl_moves_the_remapping_by_values_and_each_head_by_gradients():
    method, state, federation, b = played(pair_loss, (START[:2], START[2]), perturbations=P, remap_rate=RATE)
    weights, x, s = np.asarray(federation.spec.weight), START[:2], np.full(CLIENTS, START[2])
    for r, round in enumerate(replies(PLAN)):
        moves, total = np.zeros(2), 0.0
        for i, h in round:
            q = x
            for t in range(h):
                with jax.enable_x64(True):
                    key = at(keys.root(0), r, i + 1, Tag.DIRECTION, t)
                    z = np.stack([np.asarray(jax.random.normal(at(key, p, 0), (2,), np.float64)) for p in range(P)])
                slope = q - b[i, :2] + [0.3 * s[i], 0.0]
                size = STEP / (t + 1)
                q, s[i] = q - size * RATE * z.T @ (z @ slope) / P, s[i] - size * (s[i] - b[i, 2] + 0.3 * q[0])
            moves, total = moves + weights[i] * (q - x), total + weights[i]
        x = x + moves / max(total, 1e-9)
    found = method.global_model(state.server)
    np.testing.assert_allclose(found[0], x, rtol=1e-10)
    np.testing.assert_allclose(state.clients.y[1], s, rtol=1e-10)
    assert float(found[1]) == START[2] and np.abs(x - START[:2]).max() > 0.1
    the_personal_model_is_the_remapping_of_all_with_ones_own_head(method, state, federation, b)


def the_personal_model_is_the_remapping_of_all_with_ones_own_head(method, state, federation, b):
    """After three more steps of the head alone."""
    with jax.enable_x64(True):
        window, spec, client = jax.tree.map(lambda a: a[1], (federation.train, federation.spec, state.clients))
        x, turn = method.global_model(state.server), turn_of(ROUNDS, 1, 3, keys.root(0))
        q, s = method.personal_model(client, x, federation.view(window), spec, turn)
    wanted = float(client.y[1])
    for t in range(3):
        wanted -= STEP / (t + 1) * (wanted - b[1, 2] + 0.3 * float(x[0][0]))
    np.testing.assert_array_equal(q, x[0])
    np.testing.assert_allclose(float(s), wanted, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.known_answer("zoopfl")
def test_zoopfl_with_nothing_behind_the_box_and_n_orthogonal_directions_is_fedavg():
    loss = lambda x, rows: 0.5 * jnp.mean(jnp.sum((x[None] - rows.inputs) ** 2, -1))  # noqa: E731
    method, state, federation, b = played(loss, START, perturbations=N, probes="orthogonal")
    same(np.asarray(method.global_model(state.server)), averaged(PLAN, np.asarray(federation.spec.weight), b))


def test_nothing_is_differentiated_through_the_black_box_of_a_remapped_model():
    basis = np.asarray([[1.0, 0.0], [1.0, 2.0], [0.0, 1.0]])
    model = remapped(lambda u: jnp.sin(u[:, :2]), basis, outputs=2, classes=3)
    rng = np.random.default_rng(0)
    inputs, q, weight, bias = (rng.standard_normal(shape) for shape in ((4, 3), 2, (3, 2), 3))
    x = model.init(None)
    x = x._replace(shift=jnp.asarray(q, jnp.float32), head=x.head._replace(weight=jnp.asarray(weight), bias=jnp.asarray(bias)))
    wanted = np.sin((inputs + basis @ q)[:, :2]) @ weight.T + bias
    np.testing.assert_allclose(model.apply(x, jnp.asarray(inputs)), wanted, rtol=1e-5)
    slope = jax.grad(lambda x: jnp.sum(model.apply(x, jnp.asarray(inputs)) ** 2))(x)
    assert not np.any(slope.shift) and np.all(slope.head.weight != 0)
    with pytest.raises(FedtierError, match="basis"):
        remapped(lambda u: u, np.ones(3), outputs=3, classes=2)


@pytest.mark.parametrize(
    ("key", "value"), [("perturbations", 0), ("smoothing", 0.0), ("remap_rate", 0.0), ("probes", "all"), ("weighting", "rows")]
)
def test_what_makes_no_sense_is_refused(key, value):
    with pytest.raises(FedtierError, match=key):
        make("zoopfl", supervised(pair_loss), {key: value})
