"""The numbers of a table whose cells are runs: rows are methods, columns are settings or rounds.

[table]
read = "global"            which accuracy a row shows: see READINGS
judged = "last"            which of the two is held against the published numbers: "last" or "best" round
columns = "settings"       or "rounds": those that [[published]] names
note = "..."
[rows]                     rows with another reading, or a second row of a run
"FedAvg, fine-tuned" = { of = "FedAvg", read = "personal" }
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ...errors import choice, require
from ...experiments.metric_row import Row, at
from ...experiments.outcomes import Outcome
from ...experiments.run_folder import RunFolder
from .claims import Claims, Verdict, judge

READINGS = {
    "global": ("global_accuracy",),  # the global model on the test rows
    "clients": ("global_on_clients", "by_rows"),  # the global model on the test rows of all clients, each row counting once
    "personal": ("personal_accuracy", "by_rows"),  # each client's own model on its own test rows, each row counting once
}
JUDGED = ("last", "best")
COLUMNS = ("settings", "rounds")
LATE = 5  # scores at the end of a run that show how steady its last one is


class Line(NamedTuple):
    """A row of the table: whose run it shows, and how."""

    name: str
    of: str
    read: str


class Entry(NamedTuple):
    """One number of the table, of each seed, in per cent."""

    row: str
    column: str
    last: np.ndarray  # [seeds]; at its round where columns are rounds
    best: np.ndarray  # [seeds] over the rounds up to then
    judged: str
    bytes_up: float  # that a client had sent in the mean by then, over all rounds
    verdict: Verdict
    late: np.ndarray  # of all seeds, their last LATE scores up to then

    @property
    def shown(self) -> np.ndarray:
        return self.last if self.judged == "last" else self.best


def lines_of(methods: Iterable[str], content: dict[str, Any]) -> list[Line]:
    """The rows in order: each run's own, then those of [rows] that show it again."""
    table, extra = content["table"], content.get("rows", {})
    choice("table.read", table["read"], READINGS)
    choice("table.judged", table["judged"], JUDGED)
    choice("table.columns", table.get("columns", "settings"), COLUMNS)
    found = []
    for method in methods:
        own = extra.get(method, {})
        found.append(Line(method, method, own.get("read", table["read"])))
        found += [Line(name, method, row["read"]) for name, row in extra.items() if row.get("of") == method]
    for line in found:
        choice("rows.read", line.read, READINGS)
    return found


def entries_of(outcome: Outcome, content: dict[str, Any], claims: Claims) -> list[Entry]:
    """Every number of the table that its runs have."""
    cells = [cell for cell in outcome.comparison.cells if outcome.finals[cell.method, cell.setting]]
    judged, by_round = content["table"]["judged"], content["table"].get("columns") == "rounds"
    lines = lines_of(dict.fromkeys(cell.method for cell in cells), content)
    found = []
    for cell in cells:
        rows, clients = RunFolder(cell.folder).rows(), cell.config.data.clients
        for line in (line for line in lines if line.of == cell.method):
            named = sorted({int(column) for row, column in claims if row == line.name}) if by_round else []
            for column, until in [(str(r), r) for r in named] if by_round else [(cell.setting, None)]:
                series = by_seed(rows, READINGS[line.read], until)
                if not series:
                    continue
                last, best = (100 * np.asarray([pick(one) for one in series]) for pick in (lambda one: one[-1], max))
                shown = last if judged == "last" else best
                verdict = judge(shown, claims.get((line.name, column), []))
                late = 100 * np.concatenate([one[-LATE:] for one in series])
                found.append(Entry(line.name, column, last, best, judged, _sent(rows, until) / clients, verdict, late))
    return found


def by_seed(rows: list[Row], path: tuple[str, ...], until: int | None = None) -> list[list[float]]:
    """The series of each seed from the first round on, up to round `until`, which must be in it; seeds without one are out."""
    series: dict[int, list[float]] = {}
    reached: set[int] = set()
    for row in rows:
        value = at(row, path)
        if row["round"] > 0 and (until is None or row["round"] <= until) and value is not None:
            series.setdefault(row["seed"], []).append(value)
            if until is None or row["round"] == until:
                reached.add(row["seed"])
    return [values for seed, values in series.items() if seed in reached]


def _sent(rows: list[Row], until: int | None) -> float:
    """Bytes that all clients of a seed had sent by round `until`."""
    there = [row["bytes_up"] for row in rows if until is None or row["round"] <= until]
    return float(max(there, default=0))


def check_names(content: dict[str, Any], methods: Iterable[str], settings: Iterable[str]) -> None:
    """Refuses names in [[published]], [rows] and [explained] that no row or column has: a slip there would hide a number."""
    names = {line.name for line in lines_of(methods, content)}
    by_round = content["table"].get("columns") == "rounds"
    columns = set(settings)
    for entry in content["published"]:
        for column, numbers in entry["numbers"].items():
            fits = column.isdigit() if by_round else column in columns
            require(fits, "published.numbers", column, "is no column of the table")
            for row in numbers:
                require(row in names, "published.numbers", row, "is no row of the table")
    for row in content.get("explained", {}):
        require(row in names, "explained", row, "is no row of the table")
