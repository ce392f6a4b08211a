"""Partial models: what is shared, what stays, and what crosses the wire."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys, trees
from fedtier.errors import FedtierError, FedtierWarning
from fedtier.methods import fedbn, fedper, fedrep, lg_fedavg, projected_sgd
from fedtier.problem import Model, cnn, from_equinox, mlp, softmax, supervised
from fedtier.problem.models.leaves import join, split

from .points import CLIENTS, A, B, Played, end, mean_move, moves, personal_of, replies, same

C = 0.2
LOCAL = projected_sgd(f"inverse({C})")
BODY, HEAD = np.asarray([1.0, -2.0]), np.asarray([0.5])
X = {"base": BODY, "head": HEAD}


def loss(x, rows):
    """a/2 |(base, head) - b|^2 + a/2 <base, 1> head: the two parts of the model hang together."""
    whole = jnp.concatenate([x["base"], x["head"]])
    squares = 0.5 * jnp.sum((whole[None] - rows.inputs) ** 2, -1)
    return jnp.mean(rows.labels * (squares + 0.5 * jnp.sum(x["base"]) * x["head"][0]))


PROBLEM = supervised(loss)


def slopes(i, base, head):
    return A[i] * (base - B[i, :2] + 0.5 * head), A[i] * (head - B[i, 2:] + 0.5 * base.sum())


def together(i, base, head, steps):
    for t in range(steps):
        at_base, at_head = slopes(i, base, head)
        base, head = base - C / (t + 1) * at_base, head - C / (t + 1) * at_head
    return base, head


def head_alone(i, base, head, steps):
    for t in range(steps):
        head = head - C / (t + 1) * slopes(i, base, head)[1]
    return head


def in_turns(i, base, head, steps, k=2):
    first = steps * k // (k + 1)
    head = head_alone(i, base, head, first)
    for t in range(steps - first):
        base = base - C / (t + 1) * slopes(i, base, head)[0]
    return base, head


@pytest.mark.known_answer("fedper")
@pytest.mark.known_answer("fedrep")
@pytest.mark.parametrize(("factory", "turn"), [(fedper, together), (lambda p, **o: fedrep(p, kept_steps=2, **o), in_turns)])
@pytest.mark.slow
def test_the_base_is_averaged_and_every_client_keeps_its_head(factory, turn):
    found = Played(factory(PROBLEM, local=LOCAL), x=X)
    base, heads = BODY, np.tile(HEAD, (CLIENTS, 1))
    for round in replies(found.plan):
        ends = {i: turn(i, base, heads[i], h) for i, h in round}
        for i, (_, head) in ends.items():
            heads[i] = head
        base = base + mean_move(round, found.weights, {i: y - base for i, (y, _) in ends.items()}, "data")
    same(found.x["base"], base)
    same(found.x["head"], HEAD)
    same(found.clients.v["head"], heads)
    assert found.clients.v["base"] is None and np.abs(base - BODY).max() > 0.1 and np.ptp(heads) > 0.1
    for new in (False, True):
        personal = found.personal(1, 3, new)
        same(personal["head"], head_alone(1, base, HEAD if new else heads[1], 3))
        same(personal["base"], base)


@pytest.mark.known_answer("lg_fedavg")
def test_lg_fedavg_is_the_mirror_image_the_head_is_sent_and_the_base_stays():
    clients, sent = moves(lg_fedavg(PROBLEM, local=LOCAL), X, 4)
    for i in range(CLIENTS):
        base, head = together(i, BODY, HEAD, 4)
        same(clients.v["base"][i], base)
        same(sent["head"][i], head - HEAD)
    assert clients.v["head"] is None and sent["base"] is None


def test_messages_hold_the_shared_leaves_alone():
    model = mlp(3, 2, hidden=4)
    x = model.init(keys.root(0))
    for factory, shared in ((fedper, ["layers.0.weight", "layers.0.bias"]), (lg_fedavg, ["layers.1.weight", "layers.1.bias"])):
        method = factory(PROBLEM)
        assert trees.names(method.broadcast(method.server_init(x), None).x) == shared
        kept = trees.names(method.client_init(x, None).v)
        assert sorted(kept + shared) == sorted(trees.names(x))


class Normed(eqx.Module):
    """A net whose normalisation is not called so, as in torchvision's `downsample.1`."""

    layers: tuple
    bn1: jax.Array

    def __init__(self, key):
        self.layers = (eqx.nn.Linear(3, 4, key=key), eqx.nn.LayerNorm(4), eqx.nn.Linear(4, 2, key=key))
        self.bn1 = jnp.ones(4)

    def __call__(self, inputs):
        return self.layers[2](self.bn1 * self.layers[1](self.layers[0](inputs)))


NORMED = from_equinox("normed", Normed)


@pytest.mark.parametrize(
    ("model", "kept", "wanted"),
    [
        (mlp(3, 2, hidden=4, depth=2), "head", ["layers.2.weight", "layers.2.bias"]),
        (mlp(3, 2, hidden=4, bias=False), "head", ["layers.1.weight"]),
        (cnn(2, (1, 4, 4), (2,)), "head", ["weight", "bias"]),
        (cnn(2, (1, 4, 4), (2,)), "body", ["kernels.0", "biases.0"]),
        (softmax(3, 2), "head", ["weight", "bias"]),
        (NORMED, "norm", ["layers.1.weight", "layers.1.bias", "bn1"]),
        (NORMED, "head", ["layers.2.weight", "layers.2.bias"]),
        ({"a": {"head": jnp.ones(2)}, "z": jnp.ones((2, 2))}, "head", ["a.head"]),
        (mlp(3, 2, hidden=4), "layers.?.bias", ["layers.0.bias", "layers.1.bias"]),
    ],
)
def test_which_leaves_stay_follows_from_their_names_and_places(model, kept, wanted):
    x = model.init(keys.root(0)) if isinstance(model, Model) else model
    shared, own = split(x, kept)
    assert trees.names(own) == wanted
    assert eqx.tree_equal(join(shared, own), x)


@pytest.mark.slow
@pytest.mark.known_answer("fedbn")
def test_fedbn_without_a_normalisation_layer_is_fedavg_and_says_so():
    with pytest.warns(FedtierWarning, match="fedbn keeps no leaf of this model .* it is fedavg"):
        _, sent = moves(fedbn(PROBLEM, local=LOCAL), X, 4)
    ends = [together(i, BODY, HEAD, 4) for i in range(CLIENTS)]
    same(sent["base"], [base - BODY for base, _ in ends])
    same(sent["head"], [head - HEAD for _, head in ends])
    with pytest.warns(FedtierWarning, match="keeps no leaf"):  # and so is FedRep, whatever its turns
        _, turns = moves(fedrep(PROBLEM, kept="norm", kept_steps=0, local=LOCAL), X, 4)
    same(turns["base"], sent["base"])
    same(personal_of(fedbn(PROBLEM, local=LOCAL), X, 1, 4)["base"], BODY)


@pytest.mark.known_answer("fedbn")
def test_fedbn_averages_all_but_the_normalisation_layers():
    data = {"norm": HEAD, "weight": BODY}
    tied = supervised(lambda x, rows: loss({"base": x["weight"], "head": x["norm"]}, rows))
    clients, sent = moves(fedbn(tied, local=LOCAL), data, 4)
    ends = [together(i, BODY, HEAD, 4) for i in range(CLIENTS)]
    same(sent["weight"], [base - BODY for base, _ in ends])
    same(clients.v["norm"], [head for _, head in ends])
    assert sent["norm"] is None


@pytest.mark.slow
@pytest.mark.known_answer("fedper")
def test_fedper_on_a_model_that_is_nothing_but_a_head_is_local_only_and_says_so():
    points = supervised(lambda x, rows: 0.5 * jnp.mean(rows.labels * jnp.sum((x[None] - rows.inputs) ** 2, -1)))
    start = np.ones(3)
    with pytest.warns(FedtierWarning, match="fedper keeps every leaf of this model .* it is local_only"):
        found = Played(fedper(points, local=LOCAL), x=start)
    alone = np.tile(start, (CLIENTS, 1))
    for round in replies(found.plan):
        for i, h in round:
            alone[i] = end(i, alone[i], h, C)
    same(found.clients.v, alone)
    same(found.personal(1, 3), end(1, alone[1], 3, C))


def test_a_pattern_that_fits_no_leaf_is_refused_with_their_names():
    with pytest.raises(FedtierError, match=r"fits no leaf of this model\n  hint: its leaves: weight, bias"):
        fedper(PROBLEM, kept="hed").server_init(softmax(3, 2).init(None))


def test_the_head_of_a_dict_without_one_is_refused():
    with pytest.raises(FedtierError, match=r"ordered by the alphabet\n  hint: a pattern of their names: fc.weight"):
        fedper(PROBLEM).server_init({"layer.weight": jnp.ones((2, 2)), "fc.weight": jnp.ones((2, 2))})


@pytest.mark.parametrize(("key", "value"), [("kept", ""), ("kept", 3), ("kept_steps", -1), ("weighting", "rows")])
def test_options_that_cannot_be_are_refused_by_name(key, value):
    with pytest.raises(FedtierError, match=key):
        fedrep(PROBLEM, **{key: value})
