"""All cores of a machine, all devices, all hosts: rows of work dealt out over them, without the user doing anything.

A CPU counts as one device per core, each computing alone: a local step is too small to share among cores, a cohort is
not. Rows are dealt so that each device has about the same number of local steps, and put back in their order before
anything is summed: results do not depend on how many devices there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int, PyTree

from .. import trees

SPLIT, WHOLE = PartitionSpec("parts"), PartitionSpec()


def use_all_cores() -> None:
    """Makes JAX see one CPU device per core. Leaves alone whoever has said how many there shall be
    (JAX_NUM_CPU_DEVICES, jax_num_cpu_devices, XLA_FLAGS) and a JAX that is already running."""
    asked = jax.config.jax_num_cpu_devices >= 0 or "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if asked or cores < 2:
        return
    try:
        jax.config.update("jax_num_cpu_devices", cores)
    except RuntimeError:  # the user's program has computed something already: it stays as it is
        return


def everywhere(tree: PyTree, devices: Sequence[Any]) -> PyTree:
    """The same arrays on each device. The cores of a CPU share one copy in memory, so this costs nothing there."""
    if len(devices) < 2:
        return tree
    target = NamedSharding(Mesh(np.asarray(devices), ("parts",)), WHOLE)

    def leaf(a: Any) -> Any:
        if isinstance(a, jax.core.Tracer) or getattr(a, "sharding", None) == target:
            return a
        if _is_key(a):
            return jax.device_put(a, target)
        return jax.device_put(np.asarray(a), target)

    return trees.map(leaf, tree)


def balance(rows: int, devices: int) -> float:
    """The share of the time that a device has something to do."""
    return rows / (devices * -(-rows // devices))


def dealt(
    function: Callable[[PyTree, PyTree], PyTree],
    shared: PyTree,
    members: PyTree,
    work: Int[Array, "S"],
    idle: Callable[[PyTree, Any], PyTree],
    devices: Sequence[Any],
) -> PyTree:
    """function(shared, members), each device taking a part of the rows of `members`; `work` says how much a row is.

    Rows that fill the last part up are copies that `idle(members, which)` tells to do nothing.
    """
    rows, many = work.shape[0], len(devices)
    if many < 2:
        return function(shared, members)
    mesh = Mesh(np.asarray(devices), ("parts",))
    each_part = -(-rows // many)
    seat = jnp.arange(each_part * many)
    hand = jnp.argsort(-work)[jnp.minimum(seat, rows - 1)]  # the longest first ...
    hand, filler = (a.reshape(each_part, many).T.reshape(-1) for a in (hand, seat >= rows))  # ... one to each in turn
    split = jax.shard_map(function, mesh=mesh, in_specs=(WHOLE, SPLIT), out_specs=SPLIT, check_vma=False)
    out = split(shared, idle(trees.take(members, hand), filler))
    out = jax.lax.with_sharding_constraint(out, NamedSharding(mesh, WHOLE))
    back = jnp.argsort(jnp.where(filler, rows, hand))[:rows]
    return trees.take(out, back)


def _is_key(a: Any) -> bool:
    return hasattr(a, "dtype") and jnp.issubdtype(a.dtype, jax.dtypes.prng_key)
