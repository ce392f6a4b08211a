"""Who is asked in which round, and for how many local steps."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..errors import require
from ..federation import Federation, Plan, asynchronous_plan, growing_steps, make_clock, make_plan
from ..methods import Method, ProjectedSgd
from ..own_code.naming import short
from .tables import Config


def plan_of(config: Config, method: Method, steps: np.ndarray | None, clients: int, seed: int) -> Plan:
    """Who is asked in which round; with a buffer, who replies to which step of the server, by the virtual clock."""
    run, rng = config.run, np.random.default_rng([seed, 1])
    spread = run.speed_spread if run.speed_spread is not None or not method.buffer else 1.0
    clock = None
    if spread is not None:
        speeds = np.random.default_rng([seed, 4])
        clock = make_clock(speeds, clients=clients, speed_spread=spread, step_seconds=run.step_seconds, latency=run.latency)
    same: dict[str, Any] = {
        "clients": clients, "rounds": run.rounds, "participation": run.participation, "tau": np.asarray(run.tau, float),
        "stragglers": run.stragglers, "dropouts": run.dropouts, "seat": bool(config.method.server_seat),
        "steps": None if steps is None else np.broadcast_to(steps, (run.rounds, *np.shape(steps))),
    }  # fmt: skip
    if clock is not None and method.buffer:
        return asynchronous_plan(rng, clock, buffer=method.buffer, **same)
    return make_plan(rng, clock=clock, order=run.order, **same)


def steps_of(config: Config, federation: Federation, clients: int) -> np.ndarray | None:
    """H, the same in every round: one number by run.local_steps, [m] by run.epochs; None: run.tau says."""
    run = config.run
    if run.epochs is None:
        return None if run.local_steps is None else np.asarray(run.local_steps)
    return np.asarray(steps_of_epochs(config, np.asarray(federation.train.size)[..., :clients]))


def steps_of_epochs(config: Config, rows: np.ndarray | Array) -> np.ndarray | Array:
    """epochs ceil(rows/batch), rounded up; `rows` may be traced."""
    options, epochs = config.method.options, config.run.epochs
    batch: int = options["local"].batch if isinstance(options.get("local"), ProjectedSgd) else options.get("batch", 0)
    rule = f"{short(config.method.name)} has no batch to count an epoch by"
    require(batch > 0, "run.epochs", epochs, rule, "set run.local_steps")
    assert epochs is not None
    exact = epochs * ((rows + batch - 1) // batch)
    return np.ceil(exact).astype(np.int32) if isinstance(rows, np.ndarray) else jnp.ceil(exact).astype(jnp.int32)


def local_steps_of(config: Config, federation: Federation, clients: int) -> np.ndarray:
    """[R + 1, m] or what broadcasts to it: what a client does in a round; by run.epochs, the mean of all seeds."""
    fixed, rounds = steps_of(config, federation, clients), config.run.rounds + 1
    if fixed is None:
        return growing_steps(np.asarray(config.run.tau, float), rounds).reshape(rounds, -1)
    return np.ceil(np.atleast_2d(fixed).mean(axis=0, keepdims=True)).astype(np.int32)
