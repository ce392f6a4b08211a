"""The paper's table with ours beside it: a table per data set, a column per setting, in every format."""

from __future__ import annotations

import csv
import io
import math

from ...experiments.metric_row import Row
from ...experiments.outcomes import Outcome, interval, values
from ...reports.layout import Grid
from ...reports.strict_json import known
from ...reports.tables import show
from ...storage.json_value import Json
from .orderings import Ordering, Published

NOTE = "test accuracy of the global model in per cent: mean ± half-width of the 95 % interval over seeds; paper: as published"


def grids(outcome: Outcome, paper: Published) -> list[Grid]:
    """One table per data set; a setting's label is its data set and the rest."""
    out = []
    for name in dict.fromkeys(setting.split()[0] for _, setting in outcome.finals):
        settings = list(dict.fromkeys(s for _, s in outcome.finals if s.split()[0] == name))
        methods = list(dict.fromkeys(m for m, s in outcome.finals if s in settings))
        heads = ["method", *(head for s in settings for head in (s.partition(" ")[2], "paper"))]
        rows = [[m, *(cell for s in settings for cell in _cells(outcome, paper, m, s))] for m in methods]
        out.append(Grid(heads, rows, left=1, title=name))
    return out


def comma_separated(outcome: Outcome, paper: Published) -> str:
    """Plain numbers, a line per cell."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["setting", "method", "seeds", "mean", "half_width", "paper"])
    for (method, setting), rows in outcome.finals.items():
        found, published = interval(values(rows, "global")), paper.of(method, setting)
        numbers = ["" if math.isnan(n) else repr(n) for n in found]
        writer.writerow([setting, method, len(rows), *numbers, "" if published is None else published])
    return file.getvalue()


def as_object(outcome: Outcome, paper: Published, found: list[Ordering]) -> dict[str, Json]:
    cells = []
    for cell in outcome.comparison.cells:
        numbers = values(outcome.finals[cell.method, cell.setting], "global")
        mean, half = interval(numbers)
        cells.append({
            "method": cell.method, "setting": cell.setting, "run": str(cell.folder), "values": numbers.tolist(),
            "mean": mean, "half_width": half, "paper": paper.of(cell.method, cell.setting),
        })  # fmt: skip
    claims = [
        {"claim": o.words, "paper": o.paper, "here": o.here.mean, "half_width": o.here.half, "verdict": o.verdict}
        for o in found
    ]
    return known({"source": paper.source, "cells": cells, "orderings": claims})


def accuracy(rows: list[Row]) -> str:
    return show(interval(values(rows, "global")), "global") if rows else "diverged"


def _cells(outcome: Outcome, paper: Published, method: str, setting: str) -> tuple[str, str]:
    rows, published = outcome.finals.get((method, setting)), paper.of(method, setting)
    return "" if rows is None else accuracy(rows), "" if published is None else f"{published:.2f}"
