"""A published table beside ours: cells, the rule that compares them, and the words for what it finds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...experiments.metric_row import Row, at
from ...experiments.outcomes import Interval, Outcome, interval
from ...experiments.run_folder import RunFolder
from ...reports.layout import Grid
from ..study import Order

RULE = (
    "A cell agrees when the two means, rounded to three decimals, differ by at most one published deviation; it overlaps (~) "
    "when the 95 % t intervals of the two means do; else it differs (!)."
)
UNJUDGED = "Not held against the published numbers: a quick table, or one with other settings, is not their set-up."


Read = Callable[[Row], float | None]  # a number of a line of metrics


class Published(NamedTuple):
    mean: float
    deviation: float  # over the seeds, divided by their number

    def interval(self, seeds: int) -> Interval:
        """The 95 % t interval of the mean, from the deviation: of any numbers with this mean and this deviation."""
        return interval(self.mean + self.deviation * _unit(seeds))


class Cell(NamedTuple):
    """One number of the table: of each seed, at the last round and at its best."""

    row: str
    column: str
    last: np.ndarray  # [seeds]
    best: np.ndarray  # [seeds]
    published: Published | None
    judged: bool = True  # False where the set-up is not the published one

    @property
    def difference(self) -> float:
        """Ours less the published, of means of three decimals."""
        assert self.published is not None
        return round(round(float(self.last.mean()), 3) - round(self.published.mean, 3), 3)

    def verdict(self, seeds: int) -> str:
        """ "within one deviation", "intervals overlap", "differs", or "" where nothing was published or judged. `seeds`:
        theirs."""
        if self.published is None or not self.judged:
            return ""
        if abs(self.difference) <= round(self.published.deviation, 3):
            return "within one deviation"
        ours, theirs = interval(self.last), self.published.interval(seeds)
        if abs(ours.mean - theirs.mean) <= ours.half + theirs.half:  # False where a single seed has no interval
            return "intervals overlap"
        return "differs"


def cells_of(
    outcome: Outcome, columns: Iterable[str], personal: dict[str, str], published: dict[str, dict[str, list[float]]]
) -> list[Cell]:
    """The cells of the table in order: a row for each run, and for the personal models of the runs that `personal` names."""
    found = []
    runs = {cell.method: cell for cell in outcome.comparison.cells if outcome.finals[cell.method, cell.setting]}
    for label, cell in runs.items():
        names = json.loads((cell.folder / "clients.json").read_bytes())[0]["names"]
        rows = RunFolder(cell.folder).rows()
        for row, model in ((label, "global"), *((name, "personal") for name, of in personal.items() if of == label)):
            for column in columns:
                read = _reader(model, column, names)
                if read is not None:
                    numbers = published.get(row, {}).get(column)
                    found.append(Cell(row, column, *_by_seed(rows, read), Published(*numbers) if numbers else None))
    return found


def grid(cells: list[Cell], headings: dict[str, str], title: str, show: Callable[[Cell], str]) -> Grid:
    """A row for each row of the table, a column for each of its columns."""
    shown = {(cell.row, cell.column): show(cell) for cell in cells}
    names = list(dict.fromkeys(cell.row for cell in cells))
    rows = [[name, *(shown.get((name, column), "") for column in headings)] for name in names]
    return Grid(["method", *headings.values()], rows, left=1, title=title)


def beside(cell: Cell, seeds: int, between: str = " ") -> str:
    """Ours at the last round, the published number in brackets, and a mark where they do not agree."""
    if cell.published is None:
        return number(cell.last)
    mark = {"": "", "within one deviation": "", "intervals overlap": "~", "differs": "!"}[cell.verdict(seeds)]
    return f"{number(cell.last)}{mark}{between}({three(cell.published.mean)}±{three(cell.published.deviation)})"


MARKS = "~: more than one published deviation apart, but the intervals overlap; !: differs."


def number(values: np.ndarray) -> str:
    return f"{three(values.mean())}±{three(values.std())}"


def three(value: float) -> str:
    return f"{value:.3f}"


def how(order: Order, seeds: Sequence[int]) -> str:
    """What was run, so that a quick table is never taken for the full one; `seeds` of each cell."""
    if not seeds:
        return "the store has none of these runs" if order.stored else "no run came to its end"
    part = "quick, not the full result" if order.quick else "a variant" if order.settings else ""
    part = part or ("a part" if order.only or order.stored else "in full")
    many = " or ".join(map(str, sorted(set(seeds))))
    return f"{part}: {many} seed{'s' * (many != '1')}; mean ± deviation over seeds"


def sentences(cells: list[Cell], headings: dict[str, str], seeds: int, explained: dict[str, str]) -> list[str]:
    """How many cells agree, and what each that does not differs by, with why."""
    if not all(cell.judged for cell in cells):
        return [UNJUDGED]
    judged = [(cell, cell.verdict(seeds)) for cell in cells if cell.published is not None]
    count = {word: sum(verdict == word for _, verdict in judged) for word in ("within one deviation", "intervals overlap")}
    differing = [cell for cell, verdict in judged if verdict == "differs"]
    lines = [
        f"{len(judged)} cells beside published ones: {count['within one deviation']} agree, "
        f"{count['intervals overlap']} more overlap, {len(differing)} differ."
    ]
    for row in dict.fromkeys(cell.row for cell in differing):
        words = [_differs(cell, headings, seeds) for cell in differing if cell.row == row]
        lines.append(f"{row} differs: {'; '.join(words)}. {explained.get(row, 'No experiment explains this.')}")
    return lines


def _differs(cell: Cell, headings: dict[str, str], seeds: int) -> str:
    assert cell.published is not None
    ours, theirs = interval(cell.last), cell.published.interval(seeds)
    spans = " against ".join(f"[{three(one.mean - one.half)}, {three(one.mean + one.half)}]" for one in (ours, theirs))
    return f"{headings[cell.column]} by {cell.difference:+.3f} ({spans})"


def as_object(cell: Cell, seeds: int) -> dict[str, Any]:
    """For machines; without a verdict where nothing was published."""
    told = {"row": cell.row, "column": cell.column} | {
        name: {"mean": float(values.mean()), "deviation": float(values.std()), "seeds": values.tolist()}
        for name, values in (("last", cell.last), ("best", cell.best))
    }
    if cell.published is None:
        return told
    return told | {"published": cell.published._asdict(), "difference": cell.difference, "verdict": cell.verdict(seeds)}


def comma_separated(cells: list[Cell], seeds: int) -> str:
    """A line for each cell."""
    lines = ["method,column,last,last_deviation,best,best_deviation,published,published_deviation,difference,verdict"]
    for cell in cells:
        ours = [three(f) for values in (cell.last, cell.best) for f in (values.mean(), values.std())]
        theirs = ["", "", "", ""]
        if cell.published is not None:
            theirs = [three(cell.published.mean), three(cell.published.deviation), three(cell.difference), cell.verdict(seeds)]
        lines.append(",".join([f'"{cell.row}"', cell.column, *ours, *theirs]))
    return "\n".join(lines) + "\n"


def _reader(model: str, column: str, names: list[str]) -> Read | None:
    """How a line of metrics is read; None where the model has no such number."""
    if column == "pooled":
        return (lambda row: at(row, ("global_accuracy",))) if model == "global" else None
    if column == "mean":
        key = "global_on_clients" if model == "global" else "personal_accuracy"
        return lambda row: at(row, (key, "mean"))
    place = names.index(column)
    return lambda row: row["by_client"][model][place]


def _by_seed(rows: list[Row], read: Read) -> tuple[np.ndarray, np.ndarray]:
    """(at the last round, at the best round from the first on) of each seed."""
    series: dict[int, list[float]] = {}
    for row in rows:
        if row["round"] > 0:
            value = read(row)
            series.setdefault(row["seed"], []).append(float("nan") if value is None else value)
    return np.asarray([one[-1] for one in series.values()]), np.asarray([max(one) for one in series.values()])


def _unit(seeds: int) -> np.ndarray:
    """`seeds` numbers of mean 0 and deviation 1 (divided by their number)."""
    numbers = np.arange(seeds) - (seeds - 1) / 2
    return numbers / numbers.std()
