"""One published result from its TOML: the cells that are missing are run, the others found in the store.

    [quick]      only = [...], set = [...]: what --quick changes
    [paper]      the published numbers and the claims about them (table1)
    [figure]     what a figure shows; table = "table1": of the cells of that table

Everything else is a comparison, as in `experiments.comparison`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ...errors import require
from ...experiments import comparison, label_counts, outcomes
from ...experiments import config as configuration
from ...experiments.jobs import run_in_processes
from ...experiments.progress import Progress
from ...reports import layout, load_runs, plots
from ...reports.terminal import label_counts_table
from ...storage.files import folder_for, write_whole
from ..study import Order, Product, comparison_for
from . import figures, implicit, local_steps, table
from .orderings import orderings, published, summary


def make(order: Order, progress: Progress) -> Product:
    """A table is written into `out` in every format, if given, a figure into `out` or figures/ as SVG, PDF and PNG."""
    if order.out is None and order.name.startswith("figure"):
        order = order._replace(out=Path("figures"))
    with folder_for(order.out):
        return MAKERS[order.name](order, load_tables(order.name), progress)


def load_tables(name: str) -> dict[str, Any]:
    """The tables of a file of this folder; a figure of a table's cells has those of the table too."""
    with resources.as_file(resources.files("fedtier.studies.paper") / f"{name}.toml") as file:
        tables = configuration.read_toml(file)
    base = tables.get("figure", {}).get("table")
    return load_tables(base) | tables if base else tables


def table1(order: Order, tables: dict[str, Any], progress: Progress) -> Product:
    wanted, about = comparison_for(order, tables), tables["paper"]
    paper = published(about, [m["label"] for m in tables["methods"]], [s["label"] for s in tables["settings"]])
    outcome = _run(order, wanted, progress)
    found = orderings(outcome, paper)
    how, grids = _how(order, outcome, part=bool(order.only)), table.grids(outcome, paper)
    sentences = [ordering.sentence() for ordering in found]
    content = table.as_object(outcome, paper, found) | {"how": how}
    if order.out is not None:
        claims = "\n".join(f"- {sentence}" for sentence in sentences)
        note = f"{table.NOTE}. {how}"
        files = {
            "md": "\n\n".join([*map(layout.markdown, grids), note, *summary(found), claims]) + "\n",
            "tex": f"% {note.replace('±', '+-')}\n" + "\n\n".join(map(layout.latex, grids)) + "\n",
            "csv": table.comma_separated(outcome, paper),
            "json": json.dumps(content, indent=1, allow_nan=False) + "\n",
        }
        for ending, text in files.items():
            write_whole(order.out / f"{order.name}.{ending}", text.encode())
    return Product([*map(layout.rich_table, grids), table.NOTE, how, *summary(found), *sentences], content)


def figure1(order: Order, tables: dict[str, Any], progress: Progress) -> Product:
    counts = {cell.setting: label_counts.count_labels(cell.config) for cell in comparison_for(order, tables).cells}
    files = _save(order, plots.partitions_figure(counts))
    content = {"files": files, "partitions": {setting: one.as_object() for setting, one in counts.items()}}
    return Product([*(part for one in counts.values() for part in label_counts_table(one)), *files], content)


def figure2(order: Order, tables: dict[str, Any], progress: Progress) -> Product:
    about = tables["figure"]
    variants = local_steps.variants(tables)
    taus = ", ".join(map(str, about["taus"]))
    for text in order.settings:
        steps = text.partition("=")[0].strip() in ("run.tau", "run.local_steps", "run.epochs")
        require(not steps, "--set", text, "the figure compares numbers of local steps", f"leave it out; tau is {taus}")
    wanted = comparison_for(order._replace(only=()), local_steps.comparison_tables(tables, variants))
    wanted = local_steps.shown(wanted, variants, about)
    usual = wanted if order.quick else comparison.only(wanted, about["only"])
    chosen = comparison.only(wanted, order.only) if order.only else usual
    outcome = _run(order, chosen, progress)
    missing = _missing(chosen, outcome)
    require(bool(outcome.finals), "--store", str(order.store), "has nothing to show", "; ".join(missing[:1]))
    curves = {
        key: [
            load_runs.load_run(cell.folder)._replace(method=cell.method, setting=cell.setting)
            for cell in outcome.comparison.cells
            if cell.method == entry["label"] and outcome.finals[cell.method, cell.setting]
        ]
        for key, entry in variants.items()
    }
    sets = list(dict.fromkeys(local_steps.data_set(cell.setting) for cell in chosen.cells))
    part = bool(missing) or len(chosen.cells) < sum(local_steps.data_set(cell.setting) in sets for cell in wanted.cells)
    others = "" if set(sets) <= {local_steps.data_set(cell.setting) for cell in usual.cells} else f"-{'-'.join(sets)}"
    files = _save(order, figures.convergence(curves), others)
    how, sentences = _how(order, outcome, part=part), local_steps.sentences(curves, about) + missing
    rows = [[cell.setting, cell.method, _final(outcome, cell)] for cell in outcome.comparison.cells]
    final = layout.Grid(["setting", "method", "accuracy at the end, %"], rows, left=2, groups=[row[0] for row in rows])
    ends = [dict(zip(("setting", "method", "accuracy"), row, strict=True)) for row in rows]
    content = {"files": files, "how": how, "cells": ends, "sentences": sentences}
    return Product([layout.rich_table(final), *sentences, how, *files], content)


def figure3(order: Order, tables: dict[str, Any], progress: Progress) -> Product:
    for name, value in (("--set", order.settings), ("--only", order.only)):
        require(not value, name, value, "figure3 has no cells", "its numbers stand in studies/paper/figure3.toml")
    about = tables["figure"]
    found = implicit.picture(
        about["etas"], *about["range"], start=about["start"], rounds=about["rounds"], server_lr=about["server_lr"]
    )
    files = _save(order, figures.implicit_figure(found))
    ends = {f"{one.eta:g}": float(one.path[-1]) for one in found.smoothed}
    words = [f"eta = {eta}: from x = {about['start']:g} to {end:.3f} in {about['rounds']} rounds" for eta, end in ends.items()]
    error = f"largest distance of an estimate from the slope of the smoothed function: {found.error():.1e}"
    return Product([error, *words, *files], {"files": files, "error": found.error(), "ends": ends})


def _run(order: Order, wanted: comparison.Comparison, progress: Progress) -> outcomes.Outcome:
    if order.stored:
        return outcomes.stored_cells(wanted, unfinished=True, any_version=order.any_version)
    if order.jobs != 1:
        run_in_processes(wanted, order.jobs, progress, any_version=order.any_version)
    return outcomes.run_cells(wanted, progress, any_version=order.any_version)


def _how(order: Order, outcome: outcomes.Outcome, *, part: bool) -> str:
    """What was run, in words, so that a quick table is never taken for the full one."""
    runs = [cell.config.run for cell in outcome.comparison.cells]
    rounds, seeds = (" to ".join(map(str, sorted({getattr(run, key) for run in runs}))) for key in ("rounds", "seeds"))
    what = "a variant" if order.settings else "a part" if part else "in full"
    return f"{'quick, not the full result' if order.quick else what}: {rounds} rounds, {seeds} seeds"


def _missing(asked: comparison.Comparison, outcome: outcomes.Outcome) -> list[str]:
    """What a store did not have, or not whole, a line for each cell."""
    why = {(cell.method, cell.setting): _cut(outcome, cell) for cell in asked.cells}
    return [f"{method} on {setting}: {word}" for (method, setting), word in why.items() if word]


def _cut(outcome: outcomes.Outcome, cell: comparison.Cell) -> str:
    """What a cell lacks; nothing where it has run to its end."""
    rows = outcome.finals.get((cell.method, cell.setting))
    if rows is None:
        other, none = "made by another version of fedtier, which --any-version takes", "not in the store"
        return other if (cell.folder / "config.toml").exists() else none
    last = max([row["round"] for row in rows], default=cell.config.run.rounds)
    return f"cut at round {last} of {cell.config.run.rounds}" if last < cell.config.run.rounds else ""


def _final(outcome: outcomes.Outcome, cell: comparison.Cell) -> str:
    cut = _cut(outcome, cell)
    return table.accuracy(outcome.finals[cell.method, cell.setting]) + (f", {cut}" if cut else "")


def _save(order: Order, figure: Figure, of: str = "") -> list[str]:
    """As `name` of the order, with `of` behind it: what it shows, where that is not the usual."""
    assert order.out is not None
    paths = [order.out / f"{order.name}{of}.{ending}" for ending in plots.ENDINGS]
    for path in paths:
        plots.save(figure, path)
    return [str(path) for path in paths]


MAKERS: dict[str, Callable[[Order, dict[str, Any], Progress], Product]] = {
    "table1": table1, "figure1": figure1, "figure2": figure2, "figure3": figure3,
}  # fmt: skip
