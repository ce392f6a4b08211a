"""Rows dealt out over devices come back in their order; fillers do nothing; small cohorts and large give the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.compilation import GPU_PRODUCTS, precise
from fedtier.engines import compiled
from fedtier.engines.devices import COPIES, as_many_as_hold, balance, dealt, everywhere, on_all, rank
from fedtier.engines.layout import BUSY, layout_for, layout_of_plan
from fedtier.methods import fedavg, scaffold
from fedtier.problem import cross_entropy, softmax, supervised

from ..methods.federations import bumpy_plan, digits

DEVICES = tuple(jax.devices())


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8])
def test_dealt_rows_come_back_in_their_order_and_fillers_are_idle(rows):
    members = {"value": jnp.arange(rows) * 1.0, "work": jnp.asarray(np.random.default_rng(rows).integers(0, 5, rows))}

    def idle(members, which):
        return members | {"value": jnp.where(which, jnp.nan, members["value"])}  # a filler that counted would show

    def program(members):
        return dealt(lambda m: 2.0 * m["value"] + 1.0, members, DEVICES, work=members["work"], idle=idle)

    found = jax.jit(on_all(DEVICES, program))(everywhere(members, DEVICES))
    np.testing.assert_array_equal(found, 2.0 * np.arange(rows) + 1.0)


def test_a_gpu_is_asked_for_float32_products_unless_the_user_has_spoken(monkeypatch):
    a = jnp.ones((2, 2))

    def asked():
        return str(jax.make_jaxpr(precise(lambda a: a @ a))(a))

    assert "precision" not in asked()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert GPU_PRODUCTS in asked()
    with jax.default_matmul_precision("tensorfloat32"):
        assert GPU_PRODUCTS not in asked()


@pytest.mark.slow
def test_a_federation_is_put_on_the_devices_once_and_another_is_noticed():
    one, other = digits(clients=4, seed=0), digits(clients=4, seed=1)
    plan, model = bumpy_plan(clients=4, rounds=3), softmax(64, 10, bias=False)
    engine, x = compiled(fedavg(supervised(cross_entropy(model))), capacity=3), model.init(None)

    def end(federation):
        state, _ = engine.advance(engine.init(x, federation), federation, plan, keys.root(0), 0, 3)
        return np.asarray(jax.tree.leaves(state)[0])

    first, second, again = end(one), end(other), end(one)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)


def test_the_rank_is_a_stable_descending_sort():
    work = np.random.default_rng(0).integers(0, 6, 40)
    order = np.argsort(-work, kind="stable")
    np.testing.assert_array_equal(np.asarray(rank(jnp.asarray(work)))[order], np.arange(40))


def test_balance_is_the_share_of_busy_seats():
    assert balance(5, (0, 1)) == 5 / 6
    assert balance(4, (0, 1)) == 1.0
    assert balance(1, (0, 1, 2, 3)) == 0.25
    assert balance(3, ()) == 1.0


@pytest.mark.skipif(len(DEVICES) < 2, reason="needs two cores")
def test_cores_share_one_copy_of_the_data_and_are_as_many_as_hold_the_state():
    data = jnp.ones((1000, 64))
    spread = everywhere(data, DEVICES)
    assert {shard.data.unsafe_buffer_pointer() for shard in spread.addressable_shards} == {data.unsafe_buffer_pointer()}
    assert as_many_as_hold(()) == DEVICES
    assert as_many_as_hold(jax.ShapeDtypeStruct((COPIES // 16,), jnp.float32)) == DEVICES[:2]  # 4 copies of 1 GiB
    assert as_many_as_hold(jax.ShapeDtypeStruct((COPIES // 8,), jnp.float32)) == DEVICES[:1]


def test_on_a_gpu_large_models_with_unequal_steps_go_in_chunks_that_keep_it_busy(monkeypatch):
    unequal = np.tile([1, 1, 9, 1, 1, 1, 1, 1, 1, 3], (2, 4, 1))  # 2 seeds, 4 rounds, 10 clients
    enough = BUSY // 4  # for 2 clients of 2 seeds
    assert layout_of_plan(unequal, enough) == "auto"  # on a CPU
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "devices", lambda: [object()])
    assert layout_of_plan(unequal, enough) == 2
    assert layout_of_plan(unequal, enough - 1) == 5  # the next divisor that keeps it busy
    assert layout_of_plan(unequal, BUSY // 20 - 1) == "auto"  # a GPU has room for all
    assert layout_of_plan(np.full_like(unequal, 7), enough) == "auto"  # nobody waits
    assert layout_of_plan(np.concatenate([unequal, unequal[..., ::-1]]), enough // 2) == 2  # a chunk is by length, not by place
    monkeypatch.setattr(jax, "devices", lambda: [object()] * 2)
    assert layout_of_plan(unequal, enough) == "auto"  # devices share the cohort


@pytest.mark.slow
@pytest.mark.parametrize("factory", [fedavg, scaffold])
def test_a_large_cohort_of_small_models_in_chunks_equals_one_after_another(factory):
    model = softmax(64, 10, bias=False)
    method = factory(supervised(cross_entropy(model)))
    federation, plan = digits(clients=40), bumpy_plan(2, clients=40)
    assert layout_for(plan.cohort, 640) == 16 and layout_for(plan.cohort, 2049) == "auto" and layout_for(17, 640) == "map"
    ends = []
    for layout in ("auto", "map"):
        engine = compiled(method, capacity=2, layout=layout, devices=DEVICES[:1])
        state, _ = engine.advance(engine.init(model.init(None), federation), federation, plan, keys.root(0), 0, 2)
        ends.append(np.asarray(state.server.x.weight))
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-5, atol=1e-6 * np.abs(ends[1]).max())


@pytest.mark.slow
def test_the_engine_runs_inside_a_program_of_ones_own():
    model = softmax(64, 10, bias=False)
    federation, plan = digits(), bumpy_plan(2)
    engine = compiled(fedavg(supervised(cross_entropy(model))), capacity=2)
    alone = [engine.advance(engine.init(model.init(None), federation), federation, plan, keys.root(s), 0, 2)[0] for s in (0, 1)]

    def program(key):
        return engine.advance(engine.init(model.init(None), federation), federation, plan, key, 0, 2)[0]

    together = jax.jit(jax.vmap(program))(jnp.stack([keys.root(0), keys.root(1)]))
    for s in (0, 1):
        wanted = np.asarray(alone[s].server.x.weight)
        np.testing.assert_allclose(together.server.x.weight[s], wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())
