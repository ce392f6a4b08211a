"""The two-level quadratic in a moving ball, with data, constants and closed form: where most experiments take place."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

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
    centres: np.ndarray | None = None,
    alike: bool = False,
    noise: float = 0.3,
    server_noise: float | None = None,
    rows: int = 64,
    batch: int = 1,
    server_batch: int = 8,
    seed: int = 0,
) -> Arena:
    """Clients at distances of about `spread` from the server, curvatures half to double `curvature`, weights 0.5 to 1.5.

    centres       the means of the rows, of the server first, [clients + 1, n]; random ones by default
    alike         all clients have the same curvature and weight 1
    noise         deviation of a client's rows over all coordinates together; `server_noise` that of the server's, if another
    """
    rng = np.random.default_rng(seed)
    if centres is None:
        centres = spread * rng.normal(size=(clients + 1, n)) / np.sqrt(n)
    deviation = np.full(clients + 1, noise)
    deviation[0] = noise if server_noise is None else server_noise
    shifts = deviation[:, None, None] * rng.normal(size=(clients + 1, rows, n)) / np.sqrt(n)
    data = np.asarray(np.asarray(centres)[:, None] + shifts, np.float32)
    means, variances = data.mean(axis=1, dtype=np.float64), data.var(axis=1, dtype=np.float64)
    varied = clients > 1 and not alike
    q = np.asarray(curvature * 2.0 ** (np.linspace(-1, 1, clients) if varied else np.zeros(clients)), np.float32)
    weight = np.asarray(np.linspace(0.5, 1.5, clients) if varied else np.ones(clients), np.float32)
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


def view_of(place: Arena, client: int) -> tuple[View, PyTree]:
    """A client's data and spec."""
    federation = place.federation
    window = jax.tree.map(lambda a: a[client], federation.train)
    return federation.view(window), jax.tree.map(lambda a: a[client], federation.spec)
