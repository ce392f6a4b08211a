"""The path x_0 .. x_{R-1} of ZO-HFL, for many seeds, from the compiled engine that users run; and |grad F|^2 on it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from .... import keys
from ....engines import State, compiled
from ....federation import Federation, Plan, make_plan
from ....methods import Method
from .arena import Arena


def path(
    method: Method,
    federation: Federation,
    x: np.ndarray,
    *,
    rounds: int,
    seeds: int,
    tau: float,
    cohort: int,
    steps: np.ndarray | None = None,
) -> np.ndarray:
    """x_r for r < rounds, [seeds, rounds, n], float64. `steps` [rounds] replaces H_r = ceil(tau sqrt(r + 1))."""
    watched = method._replace(aggregate=lambda server, *rest: (method.aggregate(server, *rest)[0], method.global_model(server)))
    plans = [
        make_plan(
            np.random.default_rng([s, 1]),
            clients=federation.clients,
            rounds=rounds,
            tau=tau,
            steps=steps,
            participation=cohort / federation.clients,
        )
        for s in range(seeds)
    ]
    plan = jax.tree.map(lambda *tables: np.stack(tables), *plans)
    engine = compiled(watched, capacity=rounds, layout="vmap", devices=(), magnitude=float("inf"))

    state = engine.init(jnp.asarray(x, jnp.float32), federation)

    def one(plan: Plan, key: Key[Array, ""], state: State, federation: Federation) -> PyTree:
        return engine.advance(state, federation, plan, key, 0, rounds)[1]

    key = jnp.stack([keys.root(s) for s in range(seeds)])
    return np.asarray(jax.jit(jax.vmap(one, in_axes=(0, 0, None, None)))(plan, key, state, federation), np.float64)


def gradient_squares(place: Arena, points: np.ndarray, eta: float) -> np.ndarray:
    """|grad F|^2 at points [..., n], exact up to the integrals of `BallForm`."""
    gradient, form = points - place.form.a, place.form
    for i, b in enumerate(form.b):
        d = points - b
        t = np.linalg.norm(d, axis=-1)
        grid = np.linspace(0, t.max(), 2000)  # the integral once per distance of a grid, not once per point
        gradient += (np.interp(t, grid, form.slope(grid, eta, i)) / np.maximum(t, 1e-300))[..., None] * d / len(form.b)
    return np.sum(gradient**2, axis=-1)
