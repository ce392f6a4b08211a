"""The audit of row-level noise: a canary row in and out of a client, thousands of short solves.

The canary's gradient is a thousand times too long, in a direction of its own; all other rows have none. What is played is the
client's own solver (`ProjectedSgd` under `RowNoise`): coins, clips, noise by the number of rows. Each of its noisy gradients is
seen along the canary's direction, which is more than a server sees, as the claim has it, too. The score is that of `audit`
with q = B/N.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from .. import keys
from ..errors import share, whole
from ..federation import View
from ..methods.private_rows import RowNoise
from ..methods.solvers import ProjectedSgd
from ..problem import Spec
from ..schedules import constant
from .accountant import Cohorts
from .audit import CANARY, LOUD, Audit, lower_bound, scores

AT_ONCE = 10**6  # coins in memory


def audit_rows(
    played: RowNoise,
    batch: int,
    minibatches: Cohorts,
    noise: float,
    steps: int,
    delta: float,
    claimed: float,
    *,
    runs: int = 2000,
    confidence: float = 0.99,
    seed: int = 0,
) -> Audit:
    """Audits what is `played` with minibatches of `batch` by a client with as many rows as `minibatches` has. The adversary
    reckons with what is claimed: `noise`, and coins by the share of `minibatches`."""
    whole("runs", runs, 100)
    share("confidence", confidence, zero=False)
    rows = minibatches.clients
    seen = _observed(played, rows, batch, steps, runs, seed)
    inside, outside = (scores(one, minibatches.share, noise) for one in seen)
    bound = lower_bound(inside, outside, delta, confidence)
    return Audit(bound, claimed, confidence, runs, f"a row of a client with {rows} rows")


def _observed(
    how: RowNoise, rows: int, batch: int, steps: int, runs: int, seed: int
) -> tuple[Float[np.ndarray, "runs steps"], Float[np.ndarray, "runs steps"]]:
    """The sum behind each gradient along the canary's direction, in units of C: with the canary, and without."""
    solver, spec = ProjectedSgd(constant(1.0), batch, private=how), Spec(*[jnp.ones(())] * 3)
    index, key = jnp.arange(rows), keys.root(seed)

    def gradient(y: PyTree, some: PyTree) -> PyTree:
        return jnp.stack([jnp.mean(some), jnp.zeros(())])

    def step(number: Array, t: Array) -> Array:
        loud = jnp.where(number < runs, LOUD * how.clip, 0.0)
        view = View(jnp.zeros(rows).at[CANARY].set(loud), index, jnp.asarray(0), jnp.asarray(rows))
        moved = solver.descend(gradient, jnp.zeros(2), view, spec, 1, keys.at(key, number, t))
        return -moved[0] * batch / how.clip

    at_once = max(1, min(2 * runs, AT_ONCE // (steps * how.most)))
    play = jax.jit(jax.vmap(lambda number: jax.vmap(lambda t: step(number, t))(jnp.arange(steps))))
    numbers = np.arange(-(-2 * runs // at_once) * at_once).reshape(-1, at_once)  # the last ones may be too many
    seen = np.concatenate([np.asarray(play(some)) for some in numbers])
    return seen[:runs], seen[runs : 2 * runs]
