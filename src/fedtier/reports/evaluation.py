"""What a federation that only measures has found: a line a site, with an interval for its accuracy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from ..experiments.run_folder import RunFolder
from .live.files import read_object

Z = 1.96  # of a 95 % interval


class Measured(NamedTuple):
    """The model at one site; None where the site tells no score."""

    site: str
    rows: int  # held back there, on which it was measured
    score: float | None  # accuracy, or the error of a regression
    low: float | None  # of the accuracy's 95 % interval
    high: float | None


def wilson(share: float, rows: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share that was seen on so many rows: right also for few rows and near 0 and 1."""
    centre = (share + Z * Z / (2 * rows)) / (1 + Z * Z / rows)
    half = Z / (1 + Z * Z / rows) * math.sqrt(share * (1 - share) / rows + Z * Z / (4 * rows * rows))
    return max(0.0, centre - half), min(1.0, centre + half)


def measured(folder: Path) -> list[Measured]:
    """Of a finished evaluation; the last line is all sites' rows together, where all tell an accuracy."""
    row: dict[str, Any] = dict(RunFolder(folder).rows()[-1])
    counts = read_object(folder / "sites.json")["sites"]
    classes = "global_rmse" not in row
    scores = row["by_client"].get("global", [None] * len(counts))
    found = [_one(site, told["held"], score, classes) for (site, told), score in zip(counts.items(), scores, strict=True)]
    rows = sum(one.rows for one in found)
    known = [(one.score, one.rows) for one in found if one.score is not None and one.rows]
    if classes and len(known) == len(found) > 1:
        found.append(_one("all", rows, sum(score * n for score, n in known) / rows, classes))
    return found


def _one(site: str, rows: int, score: float | None, classes: bool) -> Measured:
    low, high = wilson(score, rows) if classes and score is not None and rows else (None, None)
    return Measured(site, rows, score, low, high)


def evaluation_table(found: list[Measured], server: float | None) -> list[Table | str]:
    """For people; `server` is the score on the server's own test rows."""
    table = Table(title="the model at the sites", title_justify="left")
    for heading in ("site", "rows", "accuracy", "95 % interval"):
        table.add_column(heading, justify="left" if heading == "site" else "right")
    for one in found:
        interval = "-" if one.low is None or one.high is None else f"{100 * one.low:.1f} to {100 * one.high:.1f} %"
        score = (
            "not told" if one.score is None else f"{100 * one.score:.2f} %" if one.low is not None else f"rmse {one.score:.4g}"
        )
        table.add_row(one.site, str(one.rows), score, interval)
    return [table] if server is None else [table, f"on the server's own test rows: {100 * server:.2f} %"]
