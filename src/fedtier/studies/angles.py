"""How good an estimate is: its angle to the true hypergradient, and its variance per local solve, against n.

    python -m fedtier.studies.angles FOLDER        writes angles.svg and prints the table

On the two-level quadratic, where y_i(x) and the hypergradient are known. Each estimator has what it would have in a run:
the guided one the displacement x - y of a moment ago, at another x nearby. Variance is the mean squared distance from
the gradient divided by its squared length, times the solves an estimate costs: what one gets for a fixed budget by averaging.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from jaxtyping import Array, Key
from matplotlib.figure import Figure

from .. import keys
from ..federation import View
from ..methods.two_levels import estimators
from ..methods.two_levels.estimator import ClientSide, Estimator
from ..problem.closed_forms import QuadraticSpec, two_level_quadratic
from ..reports import plots
from ..reports.style import PALETTE

SMOOTHING, PENALTY, PROXIMITY = 0.1, 1.0, 1.0
FLOOR = 1e-9  # below this a squared error is rounding

CASES: dict[str, Estimator] = {
    "sphere": estimators.sphere(),
    "orthogonal, K = 4": estimators.orthogonal(directions=4),
    "sphere + control": estimators.sphere(control=True),
    "guided": estimators.guided(),
    "guided + control": estimators.guided(control=True),
    "first order": estimators.first_order(),
    "exact": estimators.exact(),
}


class Quality(NamedTuple):
    cosine: float  # mean over draws of the cosine of the angle to the true hypergradient
    variance: float  # per solve, relative
    solves: int


def quality(case: str, n: int, draws: int = 50, seed: int = 0) -> Quality:
    """The estimator at one x of a quadratic in n dimensions; conditioning and distances do not depend on n."""
    problem = two_level_quadratic(penalty=PENALTY, proximity=PROXIMITY)
    rng = np.random.default_rng(seed)
    curvature = jnp.asarray(rng.uniform(0.3, 3.0, n), jnp.float32)
    centre = jnp.asarray(rng.standard_normal(n), jnp.float32)
    x = jnp.zeros(n)
    spec = QuadraticSpec(jnp.float32(1.0), jnp.float32(jnp.inf), jnp.float32(1.0), curvature)

    def solution(x: Array) -> Array:
        return (curvature * centre + PROXIMITY * x) / (curvature + PROXIMITY)

    y = solution(x)
    truth = PENALTY * (1.0 - PROXIMITY / (curvature + PROXIMITY)) * (x - y)
    view = View(centre[None], jnp.zeros(1, jnp.int32), jnp.asarray(0), jnp.asarray(1))
    chosen = CASES[case]
    before = 0.3 * jnp.asarray(rng.standard_normal(n), jnp.float32)  # where x was when the client was last asked
    guides = (before - solution(before))[None]

    def draw(key: Key[Array, ""]) -> Array:
        side = ClientSide(problem, x, y, view, spec, keys.at(key, 1))
        if not chosen.directions:
            return chosen.estimate(jnp.zeros(0), (), key, side)
        v = chosen.propose(key, x, guides if chosen.guides else ())

        def value(point: Array) -> Array:
            return problem.f2(point, solution(point), spec)

        slopes = jax.vmap(lambda d: (value(x + SMOOTHING * d) - value(x - SMOOTHING * d)) / (2 * SMOOTHING))(v)
        return chosen.estimate(slopes, v, key, side)

    def score(key: Key[Array, ""]) -> tuple[Array, Array]:
        g = draw(key)
        length = jnp.linalg.norm(truth)
        return jnp.vdot(g, truth) / (jnp.linalg.norm(g) * length), jnp.sum((g - truth) ** 2) / length**2

    cosine, error = jax.jit(lambda all: jax.lax.map(score, all))(jax.random.split(keys.root(seed), draws))
    solves = max(2 * chosen.directions, 1)
    return Quality(float(cosine.mean()), float(error.mean()) * solves, solves)


def measure(dimensions: Sequence[int] = (10, 100, 1000, 10_000)) -> dict[str, list[Quality]]:
    return {case: [quality(case, n) for n in dimensions] for case in CASES}


@mpl.rc_context(plots.STYLE)
def figure(found: dict[str, list[Quality]], dimensions: Sequence[int]) -> Figure:
    picture = Figure(figsize=(9.0, 3.4), layout="constrained")
    left, right = picture.subplots(1, 2)
    for k, (case, qualities) in enumerate(found.items()):
        look = {"color": PALETTE[k % len(PALETTE)], "marker": plots.MARKERS[k % len(plots.MARKERS)], "markersize": 4}
        left.plot(dimensions, [q.cosine for q in qualities], label=case, **look)
        right.plot(dimensions, [max(q.variance, FLOOR) for q in qualities], **look)
    left.set(xscale="log", xlabel="n", ylabel="cosine", ylim=(-0.05, 1.05), title="Angle to the hypergradient")
    right.set(xscale="log", yscale="log", xlabel="n", ylabel="relative squared error x solves", title="Variance per solve")
    picture.legend(*left.get_legend_handles_labels(), loc="outside right center")
    return picture


def main(folder: Path) -> None:
    dimensions = (10, 100, 1000, 10_000)
    found = measure(dimensions)
    for case, qualities in found.items():
        cells = "  ".join(f"n = {n}: {q.cosine:.3f}, {q.variance:.2g}" for n, q in zip(dimensions, qualities, strict=True))
        print(f"{case:20} {cells}")
    plots.save(figure(found, dimensions), folder / "angles.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
