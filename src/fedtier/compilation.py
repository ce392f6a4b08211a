"""How fedtier's programs are compiled, and what a process may tell JAX before its first one.

Importing fedtier changes nothing in JAX. The command line calls `configure_jax`; a program of yours may, too.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

import jax
from jax.stages import Lowered, Wrapped
from jaxtyping import PyTree

from .errors import FedtierError
from .storage.files import Lock

P = ParamSpec("P")
T = TypeVar("T")
GPU_PRODUCTS = "BF16_BF16_F32_X3"
UNHURRIED = (  # a core may be minutes behind another; XLA ends the process after one
    "xla_cpu_collective_call_warn_stuck_timeout_seconds", "xla_cpu_collective_call_terminate_timeout_seconds",
)  # fmt: skip
LONG = 7 * 24 * 3600  # seconds
LOCKS, PATIENCE = 256, 300.0  # of programs that are being compiled; seconds, should a process hang that compiles


def configure_jax() -> None:
    """One CPU device per core, and compiled programs that are kept between processes. Call it before anything is computed."""
    use_all_cores()
    use_compilation_cache()


def use_all_cores() -> None:
    """Makes JAX see one CPU device per core, so that a cohort uses them all; results do not depend on it.

    Changes nothing where the number is set already (JAX_NUM_CPU_DEVICES, jax_num_cpu_devices, XLA_FLAGS), nor in a JAX
    that has computed something. GPUs are not concerned. Cores wait for each other, however long one takes.
    """
    _let_cores_wait()
    in_flags = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if in_flags or jax.config.values["jax_num_cpu_devices"] >= 0 or cores < 2:
        return
    try:
        jax.config.update("jax_num_cpu_devices", cores)
    except RuntimeError:  # something has been computed already: it stays as it is
        return


def _let_cores_wait() -> None:
    """Says so in XLA_FLAGS, which XLA reads once, before it computes; what stands there already is left alone."""
    said = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = " ".join([said, *(f"--{name}={LONG}" for name in UNHURRIED if name not in said)]).strip()


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk, so that the second start of anything is quick. FEDTIER_CACHE moves the folder, an
    empty value turns it off."""
    import pooch

    folder = os.environ.get("FEDTIER_CACHE", str(Path(pooch.os_cache("fedtier")) / "xla"))
    if folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


def jitted(function: Callable[..., PyTree], static_argnums: tuple[int, ...] = ()) -> Callable[..., PyTree]:
    """jax.jit as every engine uses it: on a CPU each product stays on one core, because sums differ in the last digit
    otherwise. Call it late, where a program is first needed: it asks JAX for its devices."""
    options = {"xla_cpu_multi_thread_eigen": False} if jax.default_backend() == "cpu" else {}
    return _in_turn(jax.jit(precise(function), compiler_options=options, static_argnums=static_argnums), static_argnums)


def _in_turn(program: Wrapped, static_argnums: tuple[int, ...]) -> Callable[..., PyTree]:
    """`program`, which several processes that share the kept programs compile but once: the first does, the others wait for
    it and find it there. Started together they would all compile it, each slower for the others."""
    known: set[Hashable] = set()

    def called(*args: PyTree) -> PyTree:
        folder = jax.config.values["jax_compilation_cache_dir"]
        if folder and (signature := _signature(args, static_argnums)) not in known:
            _compile(program.lower(*args), Path(folder))
            known.add(signature)
        return program(*args)

    return functools.wraps(program)(called)


def _signature(args: tuple[PyTree, ...], static_argnums: tuple[int, ...]) -> Hashable:
    """What tells one program of a function from another: the shapes and kinds of what it is given."""
    traced = [arg for place, arg in enumerate(args) if place not in static_argnums]
    leaves, structure = jax.tree.flatten(traced)
    kinds = tuple((getattr(leaf, "shape", ()), getattr(leaf, "dtype", type(leaf))) for leaf in leaves)
    return structure, kinds, tuple(args[place] for place in static_argnums)


def _compile(lowered: Lowered, folder: Path) -> None:
    """Compiles while nobody else compiles the same, or after PATIENCE. Locks are few, so that now and then a process waits for
    another program."""
    place = int.from_bytes(hashlib.sha256(lowered.as_text().encode()).digest()) % LOCKS
    lock, until = Lock(folder / f"compiling-{place}"), time.monotonic() + PATIENCE
    with suppress(OSError, FedtierError):  # a folder that cannot be written to keeps no program to wait for
        folder.mkdir(parents=True, exist_ok=True)
        while lock.take() is not None and time.monotonic() < until:
            time.sleep(0.05)
    try:
        lowered.compile()
    finally:
        lock.free()


def precise(function: Callable[P, T]) -> Callable[P, T]:
    """`function` with float32 products of five digits on a GPU.

    A GPU rounds the factors to three digits (TF32) by default; as three products of bfloat16 they keep five for little
    more time (docs/speed.md). A user's own jax_default_matmul_precision is respected.
    """

    @functools.wraps(function)
    def traced(*args: P.args, **kwargs: P.kwargs) -> T:
        said = jax.config.values["jax_default_matmul_precision"] is not None or jax.config.values["jax_enable_x64"]
        if said or jax.default_backend() == "cpu":
            return function(*args, **kwargs)
        with jax.default_matmul_precision(GPU_PRODUCTS):
            return function(*args, **kwargs)

    return traced
