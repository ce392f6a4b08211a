"""What inexact local solves do to the estimate: second moment (15), bias (16), for coupled and independent draws."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .... import keys
from ....methods.smoothing import sphere
from ....methods.solvers import projected_sgd
from ....schedules import inverse
from ....theory import local
from ....theory import sphere as theory
from ..row import Row
from .arena import arena, view_of

DRAWS, ETA, N = 4000, 0.2, 20
STEPS = 2 ** np.arange(0, 10)


def inexact(axes: Any = None) -> list[Row]:
    """Rows: coupled and independent second moments over their bound, the squared bias over its bound."""
    place = arena(N, 1, radius=2.0, noise=1.0, spread=3.0)
    client = place.constants.clients[0]
    c, offset = local.guaranteed(client.mu_h.value, client.L_h.value)
    errors = local.recursion(inverse(c, offset), client.local(), int(STEPS[-1]))[STEPS]
    bounds = np.array([theory.inexact_second_moment(client.L0_y.value, N, ETA, e) for e in errors])
    solve = projected_sgd(f"inverse({c}, {offset})", batch=place.batch).lower_level(place.problem)
    view, spec = view_of(place, 0)
    b, s = jnp.asarray(place.form.b[0], jnp.float32), float(place.form.shrink()[0])
    x = jnp.asarray(place.form.a, jnp.float32)

    def implicit(p: Any) -> Any:  # f2(p, y(p)), exact
        return 0.5 * jnp.minimum(s * jnp.linalg.norm(p - b), 2.0) ** 2

    @jax.jit
    def differences(steps: Any, view: Any, coupled: Any) -> Any:
        def one(k: Any) -> Any:
            key = keys.at(keys.root(4), k)
            v = sphere(keys.at(key, 0), x)

            def wrong(sign: Any, draw: Any) -> Any:
                p = x + sign * ETA * v
                y = solve(p, p, view, spec, steps, keys.at(key, 1, draw))
                return place.problem.f2(p, y, spec) - implicit(p)

            return N / (2 * ETA) * (wrong(1.0, 0) - wrong(-1.0, 1 - coupled)) * v

        return jax.vmap(one)(jnp.arange(DRAWS))

    second, bias = {}, {}
    for name, coupled in (("coupled", 1), ("independent", 0)):
        deltas = [np.asarray(differences(H, view, coupled), np.float64) for H in STEPS]
        second[name] = np.array([np.mean(np.sum(d**2, axis=1)) for d in deltas])
        means = np.array([np.sum(d.mean(axis=0) ** 2) for d in deltas])
        bias[name] = np.maximum(means - second[name] / DRAWS, 1e-12)  # less what the sample itself adds
    if axes is not None:
        for name, marker in (("coupled", "o-"), ("independent", "s-")):
            axes.loglog(STEPS, second[name], marker, label=f"{name}: E|error of g|²")
        axes.loglog(STEPS, bias["independent"], "^-", label="squared bias")
        axes.loglog(STEPS, bounds, "k--", label="bound (15)")
        axes.loglog(STEPS, bounds / N, "k:", label="bound (16)")
        axes.set(xlabel="local steps H", title="Error of the estimate from inexact solves")
        axes.legend(fontsize=7)
    how = f"largest over H = 1 .. {STEPS[-1]}, n = {N}, {DRAWS} draws"
    rows = [
        Row(
            f"inexact solves, {name}: second moment over its bound",
            "(15)",
            float(np.max(value / bounds)),
            1.0,
            bool(np.all(value <= bounds * 1.05)),
            how,
        )
        for name, value in second.items()
    ]
    largest = max(float(np.max(value / (bounds / N))) for value in bias.values())
    rows.append(Row("inexact solves: squared bias over its bound", "(16)", largest, 1.0, largest <= 1.05, how))
    gain = float(np.median(second["independent"] / second["coupled"]))
    rows.append(
        Row(
            "independent over coupled second moment",
            "(15)",
            gain,
            1.0,
            gain >= 1,
            "both inside the theory; coupling only helps",
        )
    )
    return rows
