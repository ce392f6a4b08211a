"""Metrics that run.metrics asked for, and the clients that never trained: as a table for the terminal, as HTML for a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from ..experiments.metric_row import Row, at
from ..experiments.metrics import FEWEST
from .load_runs import Curve
from .page_tables import scroll
from .tables import decimals

HEADS = ("metric", "global", "personal", "by rows", "worst client", "global, worst client")
NOTE = (
    "Global: on the test rows. The others: on each client's own test rows, where a client counts once, or by rows each row "
    f"once; the worst client is one with at least {FEWEST} of them. Means over the seeds."
)
MOST_CLIENTS = 500  # lines of a page's table


class Line(NamedTuple):
    """One metric, or one kind of score of the clients that never trained; means over the seeds."""

    name: str
    values: tuple[float | None, ...]  # in the order of HEADS


def lines(final: Sequence[Row]) -> list[Line]:
    """Of the final rows of a run."""
    names = list(dict.fromkeys(name for row in final for name in row.get("metrics", {})))
    paths = (("global",), ("personal", "mean"), ("personal", "by_rows"), ("personal", WORST), ("global_on_clients", WORST))
    return [Line(name, tuple(_mean([_at(row, ("metrics", name, *path)) for row in final]) for path in paths)) for name in names]


WORST = "worst"  # min where larger is better, else max


def _at(row: Row, path: tuple[str, ...]) -> float | None:
    if path[-1] != WORST:
        return at(row, path)
    smallest = at(row, (*path[:-1], "min"))
    return at(row, (*path[:-1], "max")) if smallest is None else smallest


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.{decimals(abs(value))}f}"


def table(final: Sequence[Row]) -> list[Table]:
    """The metrics that run.metrics asked for; nothing where it asked for none."""
    found = lines(final)
    if not found:
        return []
    made = Table(title="as run.metrics asks", title_justify="left")
    for k, head in enumerate(HEADS):
        made.add_column(head.replace(" ", "\n", 1), justify="right" if k else "left")
    for line in found:
        made.add_row(line.name, *map(_shown, line.values))
    return [made]


def section(members: Sequence[Curve]) -> str:
    """The same on a page, a line for each method and metric, and each client by its name; empty where none was asked for."""
    body = [
        f'<tr><th scope="row" class="method">{escape(curve.method)}</th><td>{escape(line.name)}</td>'
        + "".join(f"<td>{_shown(value)}</td>" for value in line.values)
        + "</tr>"
        for curve in members
        for line in lines(curve.final())
    ]
    if not body:
        return ""
    parts = [f'<h3>Further metrics</h3><p class="note">{escape(NOTE)}</p>', _html(("method", *HEADS), body, "further metrics")]
    return "".join([*parts, *(_clients(curve) for curve in members)])


def _clients(curve: Curve) -> str:
    """Each client's personal model, the global one in brackets; the first seed."""
    try:
        told = json.loads(Path(curve.folder / "clients.json").read_bytes())[0]
    except (OSError, ValueError, IndexError):
        return ""
    metrics = told.get("metrics", {})
    body = [
        f'<tr><th scope="row" class="method">{escape(str(name))}</th>'
        + "".join(
            f"<td>{_shown(one['personal'][k])} <small>({_shown(one['global'][k])})</small></td>" for one in metrics.values()
        )
        + "</tr>"
        for k, name in enumerate(told["names"][:MOST_CLIENTS])
    ]
    if not metrics:
        return ""
    words = f"{curve.method}, each client: its personal model (the global one), seed {told['seed']}"
    inside = _html(("client", *metrics), body, words)
    return f"<details><summary>{escape(words)}</summary>{inside}</details>"


def _html(heads: Sequence[str], body: list[str], words: str) -> str:
    top = "".join(f'<th scope="col"{"" if k else " class=method"}>{escape(head)}</th>' for k, head in enumerate(heads))
    return scroll(f'<table class="results"><thead><tr>{top}</tr></thead><tbody>{"".join(body)}</tbody></table>', words)
