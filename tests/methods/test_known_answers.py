"""Every method against an answer that is known in closed form.

All rows of a client are one point b_i and all rows of the server one point a, so that a minibatch is no matter of chance:
grad f1(y) = y - b_i. H steps of sizes s_t on (y - b_i) + mu (y - x) then end at

    end(y, b_i) = z + (1 - (1 + mu) s_0) ... (1 - (1 + mu) s_{H-1}) (y - z),      z = (b_i + mu x)/(1 + mu)

and a round is arithmetic. The plan has unequal steps, stragglers and lost replies. The tests that document a method carry the
mark known_answer; the documentation's table of methods shows them.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled
from fedtier.federation import build, partition
from fedtier.methods import make
from fedtier.problem import Rows, supervised

from .federations import bumpy_plan

CLIENTS, N, ROUNDS, C, MU = 5, 3, 8, 0.4, 0.7
START = np.asarray([1.0, -2.0, 0.5])


def points_apart():
    """(federation, a, b): everyone's rows are one point each; b has one row per client."""
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal(N), rng.standard_normal((CLIENTS, N))
    owner = rng.choice(CLIENTS, 120, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    blank = Rows(np.zeros((120, N)), np.zeros(120, np.int32))
    federation = build(blank, partition.natural(owner), clients=CLIENTS, rng=rng, test_share=0.0)
    inputs, index = np.zeros((120, N)), np.asarray(federation.index)
    inputs[index[: int(federation.server.size)]] = a
    for i, (first, size) in enumerate(zip(federation.train.start, federation.train.size, strict=True)):
        inputs[index[int(first) : int(first) + int(size)]] = b[i]
    return federation._replace(arrays=Rows(jnp.asarray(inputs), jnp.asarray(blank.labels))), a, b


def play(name, options, penalty=1.0):
    """(global model, state of the clients, plan, weights, a, b) after the rounds of method `name`."""
    with jax.enable_x64(True):
        federation, a, b = points_apart()
        plan = bumpy_plan(ROUNDS, clients=CLIENTS)
        problem = supervised(
            lambda x, rows: 0.5 * jnp.mean(jnp.sum((x[None] - rows.inputs) ** 2, -1)), penalty=penalty, proximity=MU
        )
        method = make(name, problem, options)
        engine = compiled(method, capacity=ROUNDS)
        state = engine.init(jnp.asarray(START), federation)
        state, _ = engine.advance(state, federation, plan, keys.root(0), 0, ROUNDS)
        x = method.global_model(state.server)
        return x if x is None else np.asarray(x), state.clients, plan, np.asarray(federation.spec.weight), a, b


def replies(plan):
    """Of each round: (client, steps) of the replies that arrived."""
    for ids, steps, arrived in zip(plan.ids, plan.steps, plan.arrived, strict=True):
        yield [(int(i), int(h)) for i, h, ok in zip(ids, steps, arrived, strict=True) if ok]


def end(y, x, b, steps, mu=0.0):
    target = (b + mu * x) / (1.0 + mu)
    left = np.prod([1.0 - (1.0 + mu) * C / (t + 1.0) for t in range(steps)])
    return target + left * (y - target)


def averaged(plan, weights, b, mu=0.0, share=lambda steps: steps):
    """FedAvg's model: the average of the clients' ends, by their rows."""
    x = START
    for round in replies(plan):
        if round:
            moves = sum(weights[i] * (end(x, x, b[i], share(h), mu) - x) for i, h in round)
            x = x + moves / sum(weights[i] for i, _ in round)
    return x


def same(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    assert np.abs(wanted - START).max() > 0.1


@pytest.mark.known_answer("fedavg")
def test_fedavg_is_the_average_of_where_the_clients_end():
    x, _, plan, weights, _, b = play("fedavg", {"client_lr": f"inverse({C})"})
    same(x, averaged(plan, weights, b))


@pytest.mark.known_answer("fedprox")
@pytest.mark.slow
def test_fedprox_is_the_average_of_where_the_clients_end_with_the_pull_towards_x():
    x, _, plan, weights, _, b = play("fedprox", {"client_lr": f"inverse({C})", "proximity": MU})
    same(x, averaged(plan, weights, b, MU))


@pytest.mark.known_answer("scaffold")
def test_scaffold_corrects_every_step_by_the_difference_of_the_controls():
    x, clients, plan, _, _, b = play("scaffold", {"client_lr": f"inverse({C})"})
    wanted, server, own = START, np.zeros(N), np.zeros((CLIENTS, N))
    for round in replies(plan):
        ends = {i: end(wanted, wanted, b[i] - server + own[i], h) for i, h in round}
        paths = {i: sum(C / (t + 1.0) for t in range(h)) for i, h in round}
        change = {i: (wanted - ends[i]) / paths[i] - server if h else np.zeros(N) for i, h in round}
        wanted = wanted + sum(y - wanted for y in ends.values()) / max(1, len(round))
        server = server + sum(change.values()) / CLIENTS
        for i, delta in change.items():
            own[i] = own[i] + delta
    same(x, wanted)
    np.testing.assert_allclose(np.asarray(clients.c), own, rtol=1e-9, atol=1e-12)


@pytest.mark.known_answer("ditto")
@pytest.mark.slow
def test_ditto_trains_the_global_model_with_half_of_the_steps_and_its_own_model_with_the_rest():
    x, clients, plan, weights, _, b = play("ditto", {"client_lr": f"inverse({C})", "proximity": MU})
    same(x, averaged(plan, weights, b, share=lambda h: (h + 1) // 2))
    wanted, own = START, np.tile(START, (CLIENTS, 1))
    for round in replies(plan):
        for i, h in round:
            own[i] = end(own[i], wanted, b[i], h // 2, MU)
        if round:
            moves = sum(weights[i] * (end(wanted, wanted, b[i], (h + 1) // 2) - wanted) for i, h in round)
            wanted = wanted + moves / sum(weights[i] for i, _ in round)
    np.testing.assert_allclose(np.asarray(clients.v), own, rtol=1e-9, atol=1e-12)


@pytest.mark.known_answer("local_only")
@pytest.mark.slow
def test_local_only_ends_where_each_client_ends_alone():
    _, clients, plan, _, _, b = play("local_only", {"client_lr": f"inverse({C})"})
    own = np.tile(START, (CLIENTS, 1))
    for round in replies(plan):
        for i, h in round:
            own[i] = end(own[i], own[i], b[i], h)
    same(np.asarray(clients.y), own)


@pytest.mark.known_answer("server_only")
def test_server_only_is_gradient_descent_on_the_servers_rows():
    x, _, _, _, a, _ = play("server_only", {"server_lr": "inverse_sqrt(0.2)"})
    wanted = START
    for r in range(ROUNDS):
        wanted = wanted - 0.2 / np.sqrt(r + 1.0) * (wanted - a)
    same(x, wanted)


@pytest.mark.slow
@pytest.mark.known_answer("zo_hfl")
def test_zo_hfl_with_as_many_orthogonal_directions_as_dimensions_is_gradient_descent_on_both_levels():
    options = {"estimator": "orthogonal", "directions": N, "server_lr": "inverse_sqrt(0.2)", "client_lr": f"inverse({C})"}
    x, _, plan, weights, a, b = play("zo_hfl", options, penalty=2.0)
    wanted = START
    for r, round in enumerate(replies(plan)):
        pull = np.zeros(N)
        for i, h in round:  # x - y_i(x) = s (x - b_i), so that f2 = weight s^2 |x - b_i|^2 at penalty 2
            s = (1.0 - np.prod([1.0 - (1.0 + MU) * C / (t + 1.0) for t in range(h)])) / (1.0 + MU)
            pull += 2.0 * weights[i] * s**2 * (wanted - b[i]) / len(round)
        wanted = wanted - 0.2 / np.sqrt(r + 1.0) * (wanted - a + pull)
    same(x, wanted)
