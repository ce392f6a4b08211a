"""All cores of a machine, all devices, all hosts: rows of work dealt out over them, without the user doing anything.

A CPU counts as one device per core (`compilation.use_all_cores`), each computing alone: a local step is too small to
share among cores, a cohort is not. Every device runs the same program on the same arguments (`on_all`); where the
program has rows of work, a device does its part and learns the rest from the others (`dealt`), in the rows' own order
before anything is summed: results do not depend on how many devices there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Sized

import jax
import jax.numpy as jnp
import numpy as np
from jax import Device
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Int, PyTree

from .. import trees
from ..errors import FedtierError, require, whole
from ..federation import Total, in_turn

AXIS, WHOLE = "parts", PartitionSpec()
COPIES = 2**32


def join_hosts(address: str, rank: int, of: int) -> None:
    """Makes this process number `rank` of `of` that compute as one; number 0 listens at `address`, HOST:PORT.

    All run the same command with the same configuration, data and versions. Call it before anything is computed.
    """
    whole("of", of, 2, "a single process has nobody to join")
    require(0 <= rank < of, "rank", rank, f"must be from 0 to {of - 1}", "each process has its own")
    fits = re.fullmatch(r".+:\d{1,5}", address) is not None
    require(fits, "address", address, "must be HOST:PORT of process 0", "for example 10.0.0.1:4040")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(address, num_processes=of, process_id=rank)
    except Exception as error:
        raise FedtierError(
            "address", address, f"cannot be joined: {error}", "start all processes within five minutes"
        ) from None


def as_many_as_hold(state: PyTree) -> tuple[Device, ...]:
    """The devices to use when each holds `state` twice, before and after a call: all, or on a CPU, whose cores share one
    memory, as many as have room for these copies in COPIES bytes."""
    devices = tuple(jax.devices())
    if jax.default_backend() != "cpu" or jax.process_count() > 1:
        return devices
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    return devices[: max(1, COPIES // max(1, 2 * size))]


def everywhere(tree: PyTree, devices: Sequence[Device]) -> PyTree:
    """The same arrays on each device. The cores of a CPU share one copy in memory, so this costs nothing there."""
    if len(devices) < 2:
        return tree
    target = NamedSharding(_mesh(devices), WHOLE)
    here = [device for device in devices if device.process_index == jax.process_index()]

    leaves, form = jax.tree.flatten(tree)
    away = [k for k, a in enumerate(leaves) if getattr(a, "sharding", None) != target]
    sources = [a if _is_key(a) else np.asarray(a) for a in (leaves[k] for k in away)]  # an array would be copied
    parts = zip(*(jax.device_put(sources, device) for device in here), strict=True)  # all in one call: 0.1 ms each else
    for k, copies in zip(away, parts, strict=True):
        leaves[k] = jax.make_array_from_single_device_arrays(leaves[k].shape, target, list(copies))
    return jax.tree.unflatten(form, leaves)


def on_all(devices: Sequence[Device], program: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """`program` run by each device, all with the same arguments and the same result."""
    if len(devices) < 2:
        return program
    return jax.shard_map(program, mesh=_mesh(devices), in_specs=WHOLE, out_specs=WHOLE, check_vma=False)


def dealt(
    function: Callable[[PyTree], PyTree],
    members: PyTree,
    devices: Sequence[Device],
    *,
    work: Int[Array, "S"] | None = None,
    idle: Callable[[PyTree, Bool[Array, "S"]], PyTree] = lambda members, which: members,
) -> PyTree:
    """function(members) inside `on_all(devices, ...)`, row by row on different devices; `work` says how much a row is.

    Rows that fill the last part up are copies of the first, which `idle(members, which)` may tell to do nothing.
    """
    rows, many = jax.tree.leaves(members)[0].shape[0], len(devices)
    if many < 2:
        return function(members)
    deep = -(-rows // many)
    place = jnp.arange(rows) if work is None else rank(work)  # the longest first, one to each device in turn
    seat = place % many * deep + place // many
    hand = jnp.zeros(deep * many, jnp.int32).at[seat].set(jnp.arange(rows, dtype=jnp.int32)).reshape(many, deep)
    filler = jnp.ones(deep * many, bool).at[seat].set(False).reshape(many, deep)
    me = jax.lax.axis_index(AXIS)
    out = function(idle(trees.take(members, hand[me]), filler[me]))
    return trees.map(lambda a: jax.lax.all_gather(a, AXIS, tiled=True)[seat], out)


def total_over(devices: Sequence[Device]) -> Total:
    """Sums inside `on_all(devices, ...)`: each device has every n-th term, all learn the others', and each adds them up in
    their own order."""
    many = len(devices)
    if many < 2:
        return in_turn

    def total(each: Callable[[Int[Array, ""]], PyTree], count: Int[Array, ""] | int, most: int, zero: PyTree) -> PyTree:
        me = jax.lax.axis_index(AXIS)

        def put(j: Int[Array, ""], terms: PyTree) -> PyTree:
            k = me + j * many
            return trees.map(lambda all, one: all.at[k].set(one), terms, each(k))

        blank = trees.map(lambda a: jnp.zeros((most, *a.shape), a.dtype), zero)
        mine = jax.lax.fori_loop(0, (count - me + many - 1) // many, put, blank)
        terms = jax.lax.psum(mine, AXIS)  # one device's term and zeros
        return in_turn(lambda k: trees.take(terms, k), count, most, zero)

    return total


def balance(rows: int, devices: Sized) -> float:
    """The share of the time that a device has something to do when rows are dealt."""
    many = max(1, len(devices))
    return rows / (many * -(-rows // many))


def rank(work: Int[Array, "S"]) -> Int[Array, "S"]:
    """The place of each row when the largest come first. By counting: to compile a sort takes a fifth of a second."""
    number = jnp.arange(work.shape[0])
    before = (work[None] > work[:, None]) | ((work[None] == work[:, None]) & (number[None] < number[:, None]))
    return jnp.sum(before, axis=1)


def _mesh(devices: Sequence[Device]) -> Mesh:
    return Mesh(np.asarray(devices), (AXIS,))


def _is_key(a: object) -> bool:
    return isinstance(a, jax.Array) and jnp.issubdtype(a.dtype, jax.dtypes.prng_key)
