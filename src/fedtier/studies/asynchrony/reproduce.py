"""Virtual time to an accuracy: methods with rounds beside methods without, on one clock.

    [figure]     target = the accuracy of the global model that is timed

Everything else is a comparison, as in `experiments.comparison`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import require
from ...experiments import config as configuration
from ...experiments.jobs import run_in_processes
from ...experiments.outcomes import run_cells
from ...experiments.progress import Progress
from ...reports import layout, load_runs
from ...reports.load_runs import Curve
from ...storage.files import write_whole
from ..study import Order, Product, comparison_for


class Timed(NamedTuple):
    """A method in a setting: when each seed's global model was first at the target."""

    setting: str
    method: str
    seconds: list[float | None]  # virtual, of each seed; None: never
    final: list[float]  # accuracy at the end, of each seed
    whole: list[float]  # virtual seconds of the whole run, of each seed


def make(order: Order, progress: Progress) -> Product:
    """Runs what is missing; with `out`, the table as Markdown and JSON and the curves as SVG, PDF and PNG."""
    with resources.as_file(resources.files(__package__ or "") / "asynchrony.toml") as file:
        tables = configuration.read_toml(file)
    target, wanted = float(tables["figure"]["target"]), comparison_for(order, tables)
    for cell in wanted.cells:
        spread, rule = cell.config.run.speed_spread, "must be set: the study is about time"
        require(spread is not None, "run.speed_spread", spread, rule)
    if order.jobs != 1:
        run_in_processes(wanted, order.jobs, progress, tune=False, any_version=order.any_version)
    outcome = run_cells(wanted, progress, any_version=order.any_version)
    curves = [
        load_runs.load_run(cell.folder)._replace(method=cell.method, setting=cell.setting)
        for cell in outcome.comparison.cells
        if outcome.finals[cell.method, cell.setting]
    ]
    timed = [time_to(curve, target) for curve in curves]
    grid, sentences = _grid(timed, target), _sentences(timed, outcome.comparison.baseline, target)
    if order.quick:
        sentences.append("quick, not the full result")
    files = [] if order.out is None else _write(order.out, curves, target, grid, sentences, timed)
    content = {"target": target, "cells": [one._asdict() for one in timed], "sentences": sentences, "files": files}
    return Product([layout.rich_table(grid), *sentences, *files], content)


def time_to(curve: Curve, target: float) -> Timed:
    """When each seed of `curve` was first at the target, of the evaluations that the run has."""
    seconds, final, whole = [], [], []
    for seed in sorted({row["seed"] for row in curve.rows}):
        rows = [row for row in curve.rows if row["seed"] == seed]
        times, scores = [row.get("virtual_seconds", 0.0) for row in rows], [row["global_accuracy"] or 0.0 for row in rows]
        seconds.append(next((time for time, score in zip(times, scores, strict=True) if score >= target), None))
        final.append(scores[-1])
        whole.append(times[-1])
    return Timed(curve.setting, curve.method, seconds, final, whole)


def _grid(timed: Sequence[Timed], target: float) -> layout.Grid:
    headings = ["setting", "method", f"virtual seconds to {target:.0%}", "of the whole run", "accuracy at the end, %"]
    rows = [
        [one.setting, one.method, _mean(one.seconds), f"{np.mean(one.whole):.0f}", f"{100 * np.mean(one.final):.1f}"]
        for one in timed
    ]
    return layout.Grid(headings, rows, left=2, groups=[row[0] for row in rows])


def _mean(seconds: list[float | None]) -> str:
    known = [value for value in seconds if value is not None]
    never = len(seconds) - len(known)
    return f"not in {never} of {len(seconds)} seeds" if never else f"{np.mean(known):.0f}"


def _sentences(timed: Sequence[Timed], baseline: str, target: float) -> list[str]:
    """How much sooner than the baseline of its setting each method was there, seed by seed."""
    base = {one.setting: one.seconds for one in timed if one.method == baseline}
    told = []
    for one in timed:
        if one.method == baseline or one.setting not in base:
            continue
        pairs = [(a, b) for a, b in zip(base[one.setting], one.seconds, strict=True) if a is not None and b is not None]
        if pairs:
            ratio, sooner = np.median([a / b for a, b in pairs if b > 0] or [np.nan]), sum(b < a for a, b in pairs)
            words = f"{baseline} needs {ratio:.1f} times its virtual time to {target:.0%} (median), it is sooner in"
            told.append(f"{one.setting}, {one.method}: {words} {sooner} of {len(base[one.setting])} seeds")
    return told


def _write(
    folder: Path, curves: list[Curve], target: float, grid: layout.Grid, sentences: list[str], timed: list[Timed]
) -> list[str]:
    """The files of the study, by name."""
    from . import picture  # matplotlib is not needed to run the cells

    lines = "".join(f"- {line}\n" for line in sentences)
    content: list[dict[str, Any]] = [one._asdict() for one in timed]
    texts = {"md": f"{layout.markdown(grid)}\n\n{lines}", "json": json.dumps(content, indent=1, allow_nan=False) + "\n"}
    for ending, text in texts.items():
        write_whole(folder / f"asynchrony.{ending}", text.encode())
    drawn = picture.save(curves, target, folder / "asynchrony")
    return [*(str(folder / f"asynchrony.{ending}") for ending in texts), *drawn]
