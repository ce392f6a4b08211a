"""How time and memory grow: one number changes at a time, the exponent is the slope in the log-log plot.

    python bench/scaling.py --json docs/figures/scaling.json --figure docs/figures/scaling.svg

m clients, S of them a round, n parameters, H local steps of batch 32; softmax regression on random rows. Every client is
a window on the same rows, so that only what depends on m grows with it. About three minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROWS, CLASSES, ROUNDS, REPEATS = 1 << 14, 10, 3, 5
BASE = {"m": 10_000, "S": 100, "features": 256, "H": 20}
SWEEPS = {
    "m": ("m", [1_000, 10_000, 100_000, 1_000_000], "fedavg"),
    "m, with state": ("m", [1_000, 3_000, 10_000, 30_000], "scaffold"),
    "S": ("S", [30, 100, 300, 1_000], "fedavg"),
    "n": ("features", [256, 512, 1_024, 2_048, 4_096], "fedavg"),
    "H": ("H", [10, 30, 100, 300], "fedavg"),
}


def seconds_per_round(point: dict[str, int], method: str) -> float:
    """The median over REPEATS stretches of ROUNDS rounds, compilation not counted."""
    import jax
    import jax.numpy as jnp

    from fedtier import configure_jax, keys
    from fedtier.engines import compiled
    from fedtier.federation import Federation, Plan, Window
    from fedtier.methods import METHODS
    from fedtier.problem import Rows, Spec, cross_entropy, softmax, supervised

    configure_jax()
    rng, m = np.random.default_rng(0), point["m"]
    rows = Rows(rng.standard_normal((ROWS, point["features"])).astype(np.float32), rng.integers(0, CLASSES, ROWS, np.int32))
    ones, none = jnp.ones(m), Window(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
    window = Window(jnp.asarray(rng.integers(0, ROWS - 64, m, np.int32)), jnp.full(m, 64, jnp.int32))
    held = Window(window.start, jnp.zeros(m, jnp.int32))
    arrays = jax.tree.map(jnp.asarray, rows)
    federation = Federation(arrays, jnp.arange(ROWS), none, none, window, held, Spec(ones, ones * jnp.inf, ones))
    ids = np.stack([np.sort(rng.choice(m, point["S"], replace=False)) for _ in range(ROUNDS)]).astype(np.int32)
    plan = Plan(ids, np.full_like(ids, point["H"]), np.ones(ids.shape, bool))
    model = softmax(point["features"], CLASSES, bias=False)
    engine = compiled(METHODS[method].factory(supervised(cross_entropy(model))), capacity=ROUNDS)
    state, times = engine.init(model.init(None), federation), []
    for k in range(REPEATS + 1):  # the first one compiles
        clock = time.perf_counter()
        state, _ = engine.advance(state, federation, plan, keys.root(k), 0, ROUNDS)
        jax.block_until_ready(state)
        times.append((time.perf_counter() - clock) / ROUNDS)
    return float(np.median(times[1:]))


def measure(sweep: str) -> dict:
    """One sweep; each point in a process of its own, whose peak memory is then its own."""
    key, values, method = SWEEPS[sweep]
    points = []
    for value in values:
        command = [sys.executable, __file__, "--point", json.dumps(BASE | {key: value}), "--method", method]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        points.append({"value": value * CLASSES if key == "features" else value, **found})
        print(
            f"{sweep:14s} {points[-1]['value']:8d}  {1e3 * found['seconds']:9.2f} ms a round  {found['mib']:7.0f} MiB",
            file=sys.stderr,
        )
    return {"method": method, "points": points, "exponent": round(slope(points), 3), "last": round(slope(points[-2:]), 3)}


def slope(points: list[dict]) -> float:
    return float(np.polyfit(np.log([p["value"] for p in points]), np.log([p["seconds"] for p in points]), 1)[0])


def draw(found: dict, path: Path) -> None:
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    from fedtier.reports.plots import save
    from fedtier.reports.style import PALETTE

    figure = Figure(figsize=(13, 2.8))
    for place, (sweep, result) in enumerate(found["sweeps"].items()):
        axes = figure.add_subplot(1, len(found["sweeps"]), place + 1)
        values, times = ([p[key] for p in result["points"]] for key in ("value", "seconds"))
        axes.loglog(values, [1e3 * t for t in times], "o-", color=PALETTE[place])
        axes.set_title(f"{sweep}: exponent {result['exponent']:.2f}", fontsize=9)
        axes.set_xlabel(sweep.split(",")[0])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(1, 3e3)
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("ms a round")
    figure.tight_layout()
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    parser.add_argument("--figure", type=Path, help="file for the figure, .svg, .pdf or .png")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    parser.add_argument("--method", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.point:
        seconds = seconds_per_round(json.loads(asked.point), asked.method)
        print(json.dumps({"seconds": seconds, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
        return
    found = {"base": BASE, "sweeps": {sweep: measure(sweep) for sweep in SWEEPS}}
    text = json.dumps(found, indent=1)
    if asked.json:
        asked.json.write_text(text + "\n")
    if asked.figure:
        draw(found, asked.figure)
    print(text)


if __name__ == "__main__":
    main()
