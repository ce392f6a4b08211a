"""Clipping and noise around a method, against their closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys, trees
from fedtier.errors import FedtierError
from fedtier.federation import View
from fedtier.methods import registry
from fedtier.methods.method import Contribution, Method, Opening, Round, Sums, Turn, counted_alike
from fedtier.methods.private_rows import RowNoise, noisy_gradient
from fedtier.methods.solvers import ProjectedSgd
from fedtier.methods.zeroth_order.directions import seed_of
from fedtier.methods.zeroth_order.scalars import Scalars
from fedtier.privacy import Adaptive, Mechanism, private
from fedtier.problem import Spec
from fedtier.schedules import constant

SPEC = Spec(jnp.ones(()), jnp.ones(()), jnp.ones(()))
CLIENTS, COORDINATES = 4, 4000
VIEW = View(jnp.zeros((1, 1)), jnp.zeros(1, jnp.int32), jnp.asarray(0), jnp.asarray(1))


def sending(length: float) -> Method:
    """Every client sends a vector of this length; the server keeps the mean that it was told."""

    def local(client, shared, own, view, spec, turn):
        return client, jnp.full(COORDINATES, length / COORDINATES**0.5)

    def conclude(server, total: Contribution, opening: Opening):
        return total.mean, ()

    return Method(
        "sender", lambda x: x, lambda server, opening: (), local, lambda *args: (args[0], ()), lambda server: server,
        lambda client, x, view, spec, turn: x, sums=Sums(lambda up, spec: counted_alike(up), conclude),
    )  # fmt: skip


def told(mechanism: Mechanism, length: float, arrived=(True,) * CLIENTS, seed: int = 0, server=None):
    """(the state after one round, the replies)."""
    method, key = private(sending(length), mechanism), keys.root(seed)
    round = Round(jnp.asarray(0), jnp.arange(CLIENTS), jnp.asarray(arrived), CLIENTS, VIEW, keys.at(key, 0, 0))
    server = method.server_init(jnp.zeros(COORDINATES)) if server is None else server
    shared = method.broadcast(server, round.opening)

    def one(client):
        turn = Turn(jnp.asarray(0), client, jnp.asarray(1), keys.at(key, 0, client + 1))
        return method.local((), shared, (), VIEW, SPEC, turn)[1]

    ups = jax.vmap(one)(jnp.arange(CLIENTS))
    return method.aggregate(server, (), ups, SPEC, round)[0], ups


def deviation(values) -> float:
    return float(np.std(np.asarray(values)))


def test_the_server_s_noise_has_the_promised_size_and_the_mean_is_that_of_clipped_replies():
    after, ups = told(Mechanism("central", 2.0, 3.0, expected=5.0), length=10.0)
    np.testing.assert_allclose(np.linalg.norm(np.asarray(ups.value), axis=1), 2.0, rtol=1e-5)
    wanted = CLIENTS * 2.0 / COORDINATES**0.5 / 5.0  # over what is expected, not over who came
    assert np.mean(np.asarray(after.inner)) == pytest.approx(wanted, abs=4 * 1.2 / COORDINATES**0.5)
    assert deviation(after.inner) == pytest.approx(3.0 * 2.0 / 5.0, rel=0.05)


def test_short_replies_are_left_alone_and_wild_ones_count_as_nothing():
    _, ups = told(Mechanism("central", 2.0, 3.0, expected=4.0), length=0.5)
    np.testing.assert_allclose(np.linalg.norm(np.asarray(ups.value), axis=1), 0.5, rtol=1e-5)
    for wild in (float("nan"), float("inf"), 1e38):
        _, ups = told(Mechanism("central", 2.0, 3.0, expected=4.0), length=wild * COORDINATES**0.5)
        assert not np.any(np.asarray(ups.value))


def test_local_noise_is_whole_in_every_reply_and_different_in_each():
    after, ups = told(Mechanism("local", 2.0, 3.0, expected=4.0), length=1.0)
    assert deviation(ups.value[0]) == pytest.approx(6.0, rel=0.05)
    assert abs(np.corrcoef(np.asarray(ups.value))[0, 1]) < 0.1
    assert deviation(after.inner) == pytest.approx(6.0 / CLIENTS**0.5, rel=0.05)


def test_distributed_noise_adds_up_to_the_sum_s_from_the_quorum_on():
    how = Mechanism("distributed", 2.0, 3.0, expected=4.0, quorum=3)
    after, ups = told(how, length=1.0, arrived=(True, True, False, True))
    assert deviation(ups.value[0]) == pytest.approx(6.0 / 3**0.5, rel=0.05)
    assert deviation(3 * after.inner) == pytest.approx(6.0, rel=0.05)
    after, _ = told(how, length=1.0, arrived=(True, True, False, False))
    assert not np.any(np.asarray(after.inner)), "a round with too little noise is not used"


@pytest.mark.slow
def test_an_adaptive_clip_follows_the_quantile_and_pays_for_the_count():
    how = Mechanism("central", 1.0, 0.05, expected=4.0, adaptive=Adaptive(0.5, rate=0.2))
    assert how.value_noise**-2 + (2 * how.bit_noise) ** -2 == pytest.approx(how.noise**-2)
    server = None
    for seed in range(60):
        server, _ = told(how, length=5.0, seed=seed, server=server)
    assert float(server.clip) == pytest.approx(5.0, rel=0.25), "from 1 to where half of the replies are longer"
    steady = told(how, length=5.0)[0]
    assert float(steady.clip) > 1.0


def test_a_method_that_does_not_sum_is_refused():
    with pytest.raises(FedtierError, match="sums of its replies alone"):
        private(registry.sketch("rfa", {}), Mechanism("central", 1.0, 1.0, 1.0))


@pytest.mark.parametrize("change", [{"clip": 0.0}, {"noise": 0.0}, {"place": "nowhere"}, {"adaptive": Adaptive(1.0)}])
def test_mechanisms_without_meaning_are_refused(change):
    with pytest.raises(FedtierError):
        Mechanism("central", 1.0, 1.0, 1.0)._replace(**change).check()


@pytest.mark.slow
def test_gradients_of_rows_are_clipped_one_by_one_and_each_row_has_its_own_coin():
    """Gradients are the rows themselves, of length 1, 2, .. 20: clipped to 3 and summed, over a minibatch of 10."""
    rows = np.arange(1.0, 21.0, dtype=np.float32)[:, None] * np.eye(20, dtype=np.float32)
    view = View(jnp.asarray(rows), jnp.arange(20), jnp.asarray(0), jnp.asarray(20))
    quiet = RowNoise(clip=3.0, by_rows=((20, 0.0), (21, 9.0)), most=25)  # the largest client has more rows than this one

    def drawn(seed, how=quiet):
        return noisy_gradient(lambda y, rows: jnp.sum(rows, axis=0), jnp.zeros(20), view, keys.at(keys.root(0), seed), 10, how)

    found = np.asarray(jax.vmap(lambda s: drawn(s))(jnp.arange(400)))
    wanted = np.minimum(np.arange(1, 21), 3.0) / 10
    assert set(np.unique(np.round(found / wanted, 4))) == {0.0, 1.0}
    np.testing.assert_allclose((found > 0).mean(axis=0), 0.5, atol=0.13)
    together = np.corrcoef((found > 0).T)
    assert np.abs(together - np.eye(20)).max() < 0.25, "coins are independent"
    noisy = np.asarray(jax.vmap(lambda s: drawn(s, quiet._replace(by_rows=((1, 9.0), (19, 2.0), (22, 0.0)))))(jnp.arange(400)))
    assert np.std(noisy - found) == pytest.approx(2.0 * 3.0 / 10, rel=0.03)
    assert trees.all_finite(noisy)


@pytest.mark.parametrize(("rows", "noise"), [(1, 5.0), (30, 5.0), (84, 5.0), (85, 3.0), (199, 3.0), (200, 1.5), (9999, 1.5)])
def test_a_client_s_noise_goes_by_its_rows_and_is_never_that_of_a_larger_one(rows, noise):
    assert float(RowNoise(1.0, ((30, 5.0), (85, 3.0), (200, 1.5)), 200).noise(rows)) == noise


@pytest.mark.slow
def test_slopes_of_rows_are_clipped_as_one_vector_and_their_sum_has_noise_in_each_direction():
    """f is linear, so that a row's slopes along z are its products with z, to the bits that a difference leaves."""
    rows = jnp.arange(1.0, 13.0).reshape(4, 3) / 6.0
    view = View(rows, jnp.arange(4), jnp.asarray(0), jnp.asarray(4))
    x, seed = jnp.zeros(3), seed_of(keys.root(1))

    def by(noise: float) -> Scalars:
        how = RowNoise(clip=2.0, by_rows=((4, noise),), most=6)
        step = ProjectedSgd(constant(0.1), 4, private=how)
        return Scalars(lambda x, rows: jnp.mean(rows @ x), step, 2, 5, 0.5, "normal")

    def measured(noise: float, count: int):
        drawn = jax.vmap(lambda k: by(noise).measured(x, seed, view, SPEC, 2, keys.at(keys.root(2), k)))
        return np.asarray(jax.jit(drawn)(jnp.arange(count)))[:, 1]  # of the second step

    z = np.stack([np.asarray(by(0.0).z(seed, 1, x)(p)) for p in range(5)])
    slopes = np.asarray(rows) @ z.T  # [rows, P]
    lengths = np.linalg.norm(slopes, axis=1, keepdims=True)
    assert 0 < np.sum(lengths > 2.0) < 4
    wanted = np.sum(slopes * np.minimum(1.0, 2.0 / lengths), axis=0) / 4
    np.testing.assert_allclose(measured(0.0, 1)[0], wanted, rtol=1e-4, atol=1e-5)
    noisy = measured(3.0, 400) - wanted
    assert noisy.std() == pytest.approx(3.0 * 2.0 / 4, rel=0.1)
    assert np.abs(np.corrcoef(noisy.T) - np.eye(5)).max() < 0.3
