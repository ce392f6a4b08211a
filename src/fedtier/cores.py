"""One CPU device per core, so that a cohort uses them all: said to JAX before it starts, which is why `trees` and `keys`
import this module for its effect. GPUs are not concerned."""

from __future__ import annotations

import os

import jax


def use_all_cores() -> None:
    """Makes JAX see one CPU device per core. Leaves alone whoever has said how many there shall be
    (JAX_NUM_CPU_DEVICES, jax_num_cpu_devices, XLA_FLAGS) and a JAX that is already running."""
    in_flags = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if in_flags or jax.config.values["jax_num_cpu_devices"] >= 0 or cores < 2:
        return
    try:
        jax.config.update("jax_num_cpu_devices", cores)
    except RuntimeError:  # something has been computed already: it stays as it is
        return


use_all_cores()
