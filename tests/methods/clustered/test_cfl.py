"""CFL: who is in which cluster, and what the clusters' models come to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from fedtier import keys
from fedtier.errors import FedtierError
from fedtier.methods.clustered.linkage import bipartition, cosines
from fedtier.methods.method import turn_of

from ..federations import bumpy_plan
from .worlds import averaged, end, everyone, play, points, replies

START = np.zeros(3)
# Three groups whose members are not neighbours: two far apart in one coordinate, one of these divided again in another.
CENTRES = {"a": [6.0, 0.0, 0.0], "b": [-6.0, 4.0, 0.0], "c": [-6.0, -4.0, 0.0]}
GROUP = ["b", "a", "c", "a", "b", "c", "a"]
JITTER = 0.05 * np.random.default_rng(1).standard_normal((7, 3))
B = np.stack([CENTRES[g] for g in GROUP]) + JITTER
ROWS = [10, 20, 10, 10, 20, 20, 10]
FEDERATION = points(B, ROWS)
WEIGHTS = np.asarray(ROWS) / np.mean(ROWS)
SPLITS = {"split_mean": 1.5, "split_longest": 2.0, "split_after": 3, "clusters": 4, "members": 9}


def two_groups(deltas):
    """The second group of complete linkage on -cos, by SciPy: not that of the first row."""
    unit = deltas / np.linalg.norm(deltas, axis=1, keepdims=True)
    apart = 1.0 - unit @ unit.T  # the same order as -cos, and not negative
    np.fill_diagonal(apart, 0.0)
    label = fcluster(linkage(squareform(apart, checks=False), "complete"), 2, "maxclust")
    return label != label[0]


def reference(plan, clusters, split_mean, split_longest, split_after, members):
    """(models, cluster of each client) after every round, in plain NumPy with lists of client numbers."""
    x, group, latest = [START], {i: 0 for i in range(7)}, {}
    for r, came in enumerate(replies(plan)):
        delta = {i: end(x[group[i]], B[i], h) - x[group[i]] for i, h in came}
        fresh = {i: delta[i] for i, h in came if h > 0}
        latest |= fresh
        for c in range(len(x)) if r >= split_after else ():
            inside = sorted(i for i in latest if group[i] == c)
            if len(inside) < 2 or len(x) == clusters or not set(inside) & set(fresh):
                continue
            of = np.stack([latest[i] for i in inside])
            if np.linalg.norm(of.mean(axis=0)) < split_mean and np.linalg.norm(of, axis=1).max() > split_longest:
                for i in np.asarray(inside)[two_groups(of)]:
                    group[int(i)] = len(x)
                x = [*x, x[c]]
        for c in range(len(x)):
            mine = [i for i in delta if group[i] == c]
            if mine:
                x[c] = x[c] + sum(WEIGHTS[i] * delta[i] for i in mine) / sum(WEIGHTS[i] for i in mine)
        yield np.stack(x), [group[i] for i in range(7)]


def check(plan, options):
    _, seen = play("cfl", options, FEDERATION, plan, START)
    wanted = list(reference(plan, **options))
    for server, (x, group) in zip(seen, wanted, strict=True):
        assert server.used == len(x)
        assert server.cluster[:7].tolist() == group
        np.testing.assert_allclose(server.x[: len(x)], x, rtol=1e-10, atol=1e-12)
    return wanted


@pytest.mark.known_answer("cfl")
@pytest.mark.slow
def test_cfl_splits_twice_and_every_client_is_in_the_cluster_of_its_group():
    """The second split is of a cluster whose members have numbers of their own: the mistake of the authors' notebook."""
    wanted = check(everyone(7, 12), SPLITS)
    assert len(wanted[0][0]) == 1 and len(wanted[-1][0]) == 3
    by_group = {g: {wanted[-1][1][i] for i in range(7) if GROUP[i] == g} for g in "abc"}
    assert all(len(found) == 1 for found in by_group.values()) and len(set.union(*by_group.values())) == 3


@pytest.mark.known_answer("cfl")
def test_clusters_come_to_the_optima_of_their_groups():
    _, seen = play("cfl", SPLITS, FEDERATION, everyone(7, 60), START)
    for g in "abc":
        who = [i for i in range(7) if GROUP[i] == g]
        optimum = np.average(B[who], axis=0, weights=np.asarray(ROWS)[who])
        np.testing.assert_allclose(seen[-1].x[seen[-1].cluster[who[0]]], optimum, atol=1e-8)


@pytest.mark.slow
def test_cfl_with_partial_participation_unequal_steps_and_lost_replies():
    plan = bumpy_plan(24, clients=7)
    wanted = check(plan, SPLITS | {"split_mean": 3.0, "split_after": 5, "clusters": 2})
    assert len(wanted[-1][0]) == 2


@pytest.mark.known_answer("cfl")
@pytest.mark.slow
def test_cfl_that_may_not_split_is_fedavg():
    plan = bumpy_plan(8, clients=7)
    _, seen = play("cfl", SPLITS | {"split_after": 0, "clusters": 1}, FEDERATION, plan, START)
    wanted = [*averaged(plan, START, B, WEIGHTS)]
    np.testing.assert_allclose([server.x[0] for server in seen], wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_there_are_never_more_clusters_than_seats():
    _, seen = play("cfl", SPLITS | {"split_mean": 3.0, "split_after": 5, "clusters": 2}, FEDERATION, everyone(7, 12), START)
    assert seen[-1].used == 2 and seen[-1].cluster.max() == 1


def test_too_many_clients_for_the_memory_are_refused():
    with pytest.raises(FedtierError, match="members = 6"):
        play("cfl", SPLITS | {"members": 6}, FEDERATION, everyone(7, 1), START)


@pytest.mark.slow
def test_a_client_gets_its_clusters_model_and_a_newcomer_that_of_the_largest():
    method, seen = play("cfl", SPLITS, FEDERATION, everyone(7, 12), START)
    server, root = seen[-1], keys.root(0)
    for i in range(7):
        np.testing.assert_array_equal(method.address(server, turn_of(12, i, 2, root)).x, server.x[server.cluster[i]])
    largest = server.x[server.cluster[1]]  # a: three of the seven
    np.testing.assert_array_equal(method.global_model(server), largest)
    told = method.briefed((), server, turn_of(12, 2**30, 2, root))
    np.testing.assert_array_equal(told.offer.x, largest)
    np.testing.assert_array_equal(method.personal_model(told, None, None, None, turn_of(12, 0, 2, root)), largest)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.slow
def test_complete_linkage_is_scipys(seed):
    rng = np.random.default_rng(seed)
    deltas, members = rng.standard_normal((12, 4)), rng.random(12) < 0.7
    with jax.enable_x64(True):
        tree = {"a": jnp.asarray(deltas[:, :1]), "b": jnp.asarray(deltas[:, 1:])}
        found = np.asarray(jax.jit(bipartition)(-cosines(tree), jnp.asarray(members)))
    wanted = np.zeros(12, bool)
    wanted[np.flatnonzero(members)] = two_groups(deltas[members])
    np.testing.assert_array_equal(found, wanted)
    assert wanted.any()
