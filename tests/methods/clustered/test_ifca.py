"""IFCA against arithmetic: clients whose rows are one point each choose the nearest model and move it towards that point."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.errors import FedtierError
from fedtier.methods import cfl, ifca, make
from fedtier.methods.method import turn_of
from fedtier.problem import supervised

from ..federations import bumpy_plan
from .worlds import averaged, distance, end, everyone, play, points, replies

LEFT, RIGHT = np.asarray([-4.0, 0.0, 1.0]), np.asarray([4.0, 1.0, 0.0])
NEAR = np.random.default_rng(2).standard_normal((5, 3)) * 0.3
B = np.stack([LEFT, RIGHT, LEFT, RIGHT, RIGHT]) + NEAR
ROWS = [10, 20, 30, 15, 25]
START = np.asarray([0.5, -0.2, 0.3])
FEDERATION = points(B, ROWS)
WEIGHTS = np.asarray(ROWS) / np.mean(ROWS)


MODELS = np.asarray([[0.5, -0.2, 0.3], [0.9, 2.0, 2.0], [-1.0, -0.4, 0.1]])
GROUPS = [0, 2], [1, 3, 4]  # left, right
OPTIMA = sorted(np.average(B[who], axis=0, weights=np.asarray(ROWS)[who]).tolist() for who in GROUPS)
THREE, PATIENT = {"clusters": 3}, {"clusters": 3, "patience": 1}


def reference(plan, models, patience=0):
    """(models, how often each was chosen) after every round, in plain NumPy."""
    x, chosen, idle = models.copy(), np.zeros(len(models), int), np.zeros(len(models), int)
    for round in replies(plan):
        pick = {i: int(np.argmin(np.sum((x - B[i]) ** 2, axis=1))) for i, _ in round}
        ends = {i: end(x[pick[i]], B[i], h) for i, h in round}
        fit = {i: 0.5 * np.sum((x[pick[i]] - B[i]) ** 2) for i, h in round if h}
        before = x.copy()
        for j in range(len(x)):
            mine = [i for i, _ in round if pick[i] == j]
            if mine:
                x[j] = before[j] + sum(WEIGHTS[i] * (ends[i] - before[j]) for i in mine) / sum(WEIGHTS[i] for i in mine)
            votes = sum(i in mine for i in fit)
            chosen[j] += votes
            idle[j] = 0 if votes else idle[j] + len(fit)
        if patience and fit and idle.max() >= patience * len(x):
            dead, worst = int(np.argmax(idle)), max(fit, key=lambda i: fit[i])
            x[dead], idle[dead] = ends[worst], 0
        yield x.copy(), chosen.copy()


@pytest.mark.known_answer("ifca")
@pytest.mark.parametrize("options", [THREE, PATIENT])
@pytest.mark.slow
def test_ifca_moves_each_model_to_the_mean_of_those_who_chose_it(options):
    plan = bumpy_plan(10, clients=5)
    _, seen = play("ifca", options, FEDERATION, plan, START, MODELS)
    wanted = list(reference(plan, MODELS, options.get("patience", 0)))
    for server, (x, chosen) in zip(seen, wanted, strict=True):
        np.testing.assert_allclose(server.x, x, rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(server.chosen, chosen)
    assert (wanted[-1][1] > 0).sum() > 1


@pytest.mark.known_answer("ifca")
@pytest.mark.slow
def test_ifca_with_one_cluster_is_fedavg():
    plan = bumpy_plan(8, clients=5)
    _, seen = play("ifca", {"clusters": 1}, FEDERATION, plan, START)
    np.testing.assert_allclose([server.x[0] for server in seen], [*averaged(plan, START, B, WEIGHTS)], rtol=1e-10)


@pytest.mark.slow
def test_equal_models_tie_and_all_clients_train_the_first():
    _, seen = play("ifca", THREE, FEDERATION, everyone(5, 1), START, np.tile(START, (3, 1)))
    np.testing.assert_array_equal(seen[0].x[1:], np.tile(START, (2, 1)))
    assert seen[0].chosen.tolist() == [5, 0, 0] and np.abs(seen[0].x[0] - START).max() > 0.1


@pytest.mark.known_answer("ifca")
def test_two_groups_come_to_their_own_optima():
    """The fixed point of a group with equal steps is the mean of its points by rows; the third model is too far from all."""
    far = np.full(3, 100.0)
    _, seen = play("ifca", THREE, FEDERATION, everyone(5, 80), START, np.stack([RIGHT / 2, LEFT / 2, far]))
    np.testing.assert_allclose(sorted(seen[-1].x[:2].tolist()), OPTIMA, atol=1e-6)
    np.testing.assert_array_equal(seen[-1].x[2], far)


@pytest.mark.slow
def test_with_patience_a_model_that_nobody_chooses_restarts_where_it_fits_worst():
    """Two starts so far away that nobody chooses them: one model serves all, but with patience the two groups part."""
    far = np.stack([START, np.full(3, 100.0), np.full(3, -200.0)])
    _, stuck = play("ifca", THREE, FEDERATION, everyone(5, 40), START, far)
    assert stuck[-1].chosen.tolist() == [200, 0, 0]
    _, seen = play("ifca", PATIENT, FEDERATION, everyone(5, 80), START, far)
    nearest = [min(np.abs(B[i] - x).max() for x in seen[-1].x) for i in range(5)]
    assert max(nearest) < 1.0 < min(np.abs(B[i] - stuck[-1].x[0]).max() for i in range(5))


@pytest.mark.slow
def test_models_start_apart_by_their_own_draws_and_the_first_where_it_is():
    method = make("ifca", supervised(distance), {"clusters": 3, "start_spread": 0.5, "start_seed": 7})
    x = {"a": jnp.ones(2000), "b": jnp.zeros((2, 1000))}
    first = method.server_init(x)
    again, other = (make("ifca", supervised(distance), {"start_spread": 0.5, "start_seed": s}).server_init(x) for s in (7, 8))
    np.testing.assert_array_equal(first.x["a"][0], 1.0)
    drawn = np.stack(
        [(np.asarray(leaf[j]).ravel() - base) / 0.5 for leaf, base in ((first.x["a"], 1), (first.x["b"], 0)) for j in (1, 2)]
    )
    np.testing.assert_allclose(np.corrcoef(drawn), np.eye(4), atol=5 / np.sqrt(2000))
    np.testing.assert_allclose(drawn.std(axis=1), 1.0, atol=5 / np.sqrt(4000))
    np.testing.assert_array_equal(again.x["a"], first.x["a"][:2])
    assert np.abs(other.x["a"][1] - first.x["a"][1]).max() > 0.1


@pytest.mark.slow
def test_the_personal_model_is_that_of_the_clients_choice_and_the_global_one_that_of_most_replies():
    with jax.enable_x64(True):
        method, seen = play("ifca", THREE, FEDERATION, everyone(5, 20), START, MODELS)
        server = seen[-1]
        assert len({np.argmin(np.sum((server.x - b) ** 2, axis=1)) for b in B}) > 1
        for i in range(5):
            view = FEDERATION.view(jax.tree.map(lambda a, i=i: a[i], FEDERATION.train))
            turn, spec = turn_of(20, i, 2, keys.root(0)), jax.tree.map(lambda a, i=i: a[i], FEDERATION.spec)
            y = method.personal_model(method.briefed((), server, turn), method.global_model(server), view, spec, turn)
            np.testing.assert_allclose(y, server.x[np.argmin(np.sum((server.x - B[i]) ** 2, axis=1))], rtol=1e-12)
        np.testing.assert_array_equal(method.global_model(server), server.x[np.argmax(server.chosen)])


@pytest.mark.slow
def test_all_models_are_in_the_download():
    for clusters in (1, 3):
        method = make("ifca", supervised(distance), {"clusters": clusters})
        assert method.broadcast(method.server_init(jnp.zeros(4)), None).x.shape == (clusters, 4)


@pytest.mark.parametrize(
    "bad", [{"clusters": 0}, {"start_spread": -1.0}, {"start_seed": -1}, {"patience": -1}, {"weighting": "rows"}]
)
def test_ifca_refuses_bad_options(bad):
    with pytest.raises(FedtierError, match=next(iter(bad))):
        ifca(supervised(distance), **bad)


@pytest.mark.parametrize(
    "bad", [{"clusters": 0}, {"members": 0}, {"split_mean": -1.0}, {"split_longest": -1.0}, {"split_after": -1}]
)
def test_cfl_refuses_bad_options(bad):
    with pytest.raises(FedtierError, match=next(iter(bad))):
        cfl(supervised(distance), **bad)
