"""The two-level quadratic in a moving ball, with data, constants and closed form: where most experiments take place."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ....federation import Federation, View, Window
from ....problem import Bilevel, ball
from ....problem.closed_forms import QuadraticSpec, two_level_quadratic
from ....theory.constants import Constants, quadratic_client, quadratic_coupling
from ....theory.numbers import bound, exact
from ....theory.radial import BallForm


class Arena(NamedTuple):
    problem: Bilevel
    federation: Federation
    form: BallForm  # exact solutions and smoothed gradients, from the means of the rows
    constants: Constants
    noise: np.ndarray  # [m, n] variance of a client's rows
    batch: int


def arena(
    n: int,
    clients: int = 4,
    *,
    radius: float = 1.0,
    penalty: float = 1.0,
    proximity: float = 1.0,
    curvature: float = 1.0,
    spread: float = 2.0,
    noise: float = 0.3,
    rows: int = 64,
    batch: int = 1,
    server_batch: int = 8,
    seed: int = 0,
) -> Arena:
    """Clients at distances of about `spread` from the server, curvatures half to double `curvature`, weights 0.5 to 1.5."""
    rng = np.random.default_rng(seed)
    centres = spread * rng.normal(size=(clients + 1, n)) / np.sqrt(n)
    data = np.asarray(centres[:, None] + noise * rng.normal(size=(clients + 1, rows, n)) / np.sqrt(n), np.float32)
    means, variances = data.mean(axis=1, dtype=np.float64), data.var(axis=1, dtype=np.float64)
    q = np.asarray(curvature * 2.0 ** np.linspace(-1, 1, clients), np.float32)
    weight = np.asarray(np.linspace(0.5, 1.5, clients) if clients > 1 else np.ones(1), np.float32)
    spec = QuadraticSpec(
        jnp.asarray(weight), jnp.full(clients, radius), jnp.ones(clients), jnp.asarray(np.repeat(q[:, None], n, axis=1))
    )
    size, zero = jnp.asarray(rows), jnp.asarray(0)
    starts = rows * jnp.arange(1, clients + 1)
    federation = Federation(
        jnp.asarray(data.reshape(-1, n)),
        jnp.arange(rows * (clients + 1)),
        Window(zero, zero),
        Window(zero, size),
        Window(starts, jnp.full(clients, rows)),
        Window(starts, jnp.zeros(clients, int)),
        spec,
    )
    members = tuple(
        quadratic_client(
            "translated",
            np.full(n, q[i], np.float64),
            proximity,
            quadratic_coupling(penalty, float(weight[i]), radius),
            variance=variances[i + 1],
            batch=batch,
            start=bound(radius, "ball"),
        )
        for i in range(clients)
    )
    sigma = exact(float(np.sqrt(variances[0].sum() / server_batch)), "(27)")
    form = BallForm(
        means[0],
        means[1:],
        np.asarray(q, np.float64),
        np.asarray(weight, np.float64),
        np.full(clients, radius),
        penalty,
        proximity,
    )
    return Arena(
        two_level_quadratic(penalty=penalty, proximity=proximity, Y=ball()),
        federation,
        form,
        Constants(n, exact(1.0, "(27)"), sigma, members),
        variances[1:],
        batch,
    )


def view_of(place: Arena, client: int) -> tuple[View, Any]:
    """A client's data and spec."""
    federation = place.federation
    window = jax.tree.map(lambda a: a[client], federation.train)
    return federation.view(window), jax.tree.map(lambda a: a[client], federation.spec)
