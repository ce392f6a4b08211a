"""Attackers send what the plan of attack says; everybody else is as before."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled
from fedtier.errors import FedtierError
from fedtier.federation import View
from fedtier.methods import make, turn_of
from fedtier.methods.attacked import SCALES, AttackSpec, attacked
from fedtier.methods.method import Method
from fedtier.problem import Rows, supervised

from .federations import bumpy_plan
from .test_known_answers import CLIENTS, ROUNDS, START, C, averaged, end, points_apart, replies

LABELS = np.asarray([0, 1, 3, 2], np.int32)
UP = {"delta": jnp.arange(1.0, 13.0), "loss": jnp.asarray(2.0), "steps": jnp.asarray(7)}


def told(client, shared, own, view, spec, turn):
    """A reply of two real leaves and a whole number; the client's state becomes the labels that it sees."""
    return view.arrays.labels, UP


METHOD = Method("told", lambda x: x, lambda *_: (), told, lambda *_: ((), ()), lambda x: x, lambda *_: ())


def turn(kind, attacks, **options):
    view = View(Rows(jnp.zeros((4, 1)), jnp.asarray(LABELS)), jnp.arange(4), jnp.asarray(0), jnp.asarray(4))
    spec = AttackSpec(jnp.ones(()), jnp.asarray(jnp.inf), jnp.ones(()), jnp.asarray(attacks))
    return attacked(METHOD, kind, **options).local((), (), (), view, spec, turn_of(3, 1, 2, keys.root(0)))


@pytest.mark.parametrize("kind", SCALES)
def test_who_does_not_attack_replies_as_before(kind):
    labels, up = turn(kind, False, classes=4)
    np.testing.assert_array_equal(labels, LABELS)
    jax.tree.map(np.testing.assert_array_equal, up, UP)


@pytest.mark.parametrize(("kind", "factor"), [("signs", -1.0), ("large", 10.0)])
def test_signs_and_large_replies_are_multiples_of_the_honest_one(kind, factor):
    for options, times in (({}, factor), ({"scale": 3.0}, 3.0 * np.sign(factor))):
        labels, up = turn(kind, True, **options)
        np.testing.assert_array_equal(labels, LABELS)
        np.testing.assert_allclose(up["delta"], times * UP["delta"])
        assert (float(up["loss"]), int(up["steps"])) == (times * 2.0, 7)


def test_a_label_flipper_sees_the_classes_in_reverse_and_replies_honestly():
    labels, up = turn("labels", True, classes=4)
    np.testing.assert_array_equal(labels, [3, 2, 0, 1])
    jax.tree.map(np.testing.assert_array_equal, up, UP)


def test_noise_is_as_long_as_the_scale_says_and_has_nothing_of_the_reply():
    """20,000 numbers: the root of their mean square is within 2 % of scale times the reply's, their mean within 2 % of 0."""
    view = View(Rows(jnp.zeros((1, 1)), jnp.zeros(1, jnp.int32)), jnp.arange(1), jnp.asarray(0), jnp.asarray(1))
    spec = AttackSpec(jnp.ones(()), jnp.asarray(jnp.inf), jnp.ones(()), jnp.asarray(True))
    plain = METHOD._replace(local=lambda client, *_: (client, jnp.full(20_000, 0.5)))
    first, again, other = (
        np.asarray(attacked(plain, "noise", scale=4.0).local((), (), (), view, spec, turn_of(r, 1, 2, keys.root(0)))[1])
        for r in (3, 3, 4)
    )
    assert abs(np.sqrt(np.mean(first**2)) / 2.0 - 1) < 0.02
    assert abs(first.mean()) < 0.04
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1


@pytest.mark.slow
def test_fedavg_with_sign_flippers_is_the_average_of_honest_and_turned_moves():
    bad = (2, 4)
    with jax.enable_x64(True):
        federation, _, b = points_apart()
        plan, weights = bumpy_plan(ROUNDS, clients=CLIENTS), np.asarray(federation.spec.weight)
        assert {*bad} <= {i for round in replies(plan) for i, steps in round if steps}
        federation = federation._replace(spec=AttackSpec(*federation.spec, jnp.isin(jnp.arange(CLIENTS), jnp.asarray(bad))))
        problem = supervised(lambda x, rows: 0.5 * jnp.mean(jnp.sum((x[None] - rows.inputs) ** 2, -1)))
        method = attacked(make("fedavg", problem, {"client_lr": f"inverse({C})"}), "signs", scale=2.0)
        engine = compiled(method, capacity=ROUNDS)
        state, _ = engine.advance(engine.init(jnp.asarray(START), federation), federation, plan, keys.root(0), 0, ROUNDS)
        found = np.asarray(method.global_model(state.server))
    x = START
    for round in replies(plan):
        if round:
            moves = sum(weights[i] * (-2.0 if i in bad else 1.0) * (end(x, x, b[i], h) - x) for i, h in round)
            x = x + moves / sum(weights[i] for i, _ in round)
    np.testing.assert_allclose(found, x, rtol=1e-9, atol=1e-12)
    assert np.abs(x - averaged(plan, weights, b)).max() > 0.1


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [("sign", {}, "kind"), ("large", {"scale": 0.0}, "scale"), ("labels", {"classes": 0}, "classes")],
)
def test_impossible_attacks_are_refused(kind, options, name):
    with pytest.raises(FedtierError, match=f"^{name} = "):
        attacked(METHOD, kind, **options)
