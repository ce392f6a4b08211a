"""Tables for people and objects for machines."""

from __future__ import annotations

import inspect
import math
from typing import Any

from rich.table import Table

from ..experiments.label_counts import LabelCounts
from ..experiments.metrics import FEWEST
from ..experiments.profile import PHASES, Profile
from ..experiments.run import Result
from ..experiments.search import Search
from ..methods import registry

Part = Table | str


def final_object(result: Result) -> dict[str, Any]:
    """What `fedtier run --json` prints: the folder, the seeds and one final row per seed."""
    return {"run": str(result.folder), "seeds": [row["seed"] for row in result.final], "final": result.final}


def run_table(result: Result) -> list[Part]:
    """One line per seed, accuracies in per cent or errors in the label's unit, and where the results are."""
    config = result.config
    table = Table(title=f"{config.method.name} on {config.data.title}, {config.run.rounds} rounds", title_justify="left")
    regression = any("global_rmse" in row for row in result.final)
    measures = (
        ("rmse", "mae", "R2", "personal rmse", "worst rmse") if regression else ("global %", "personal %", "worst %", "p10 %")
    )
    for heading in ("seed", "f1", "f2", "test loss", *measures, "up", "down", "seconds"):
        table.add_column(heading, justify="right")
    for row in result.final:
        table.add_row(
            str(row["seed"]), number(row["f1"]), number(row["f2"]), number(row["global_loss"]),
            *(_errors(row) if regression else _accuracies(row)),
            byte_size(row["bytes_up"]), byte_size(row["bytes_down"]), f"{row['seconds']['run']:.1f}",
        )  # fmt: skip
    worst = f"worst{'' if regression else ' and p10'}: over clients with at least {FEWEST} held-back rows"
    return [table, worst, f"results: {result.folder}"]


def _accuracies(row: dict[str, Any]) -> list[str]:
    personal = row["personal_accuracy"]
    return [percent(row["global_accuracy"]), *(percent(personal[key]) for key in ("mean", "min", "p10"))]


def _errors(row: dict[str, Any]) -> list[str]:
    personal = row["personal_rmse"]
    shown = (row["global_rmse"], row["global_mae"], row["global_r2"], personal["mean"], personal["max"])
    return [number(value) for value in shown]


def status_table(found: dict[str, Any]) -> list[Part]:
    """One line per site of a federation, and where its run stands."""
    table = Table(title=f"{found['server']}", title_justify="left")
    for heading in ("site", "connected", "heard", "has the job", "answers"):
        table.add_column(heading)
    for site in found["sites"]:
        heard = "-" if site["heard"] is None else f"{site['heard']:.0f} s ago"
        answers = "-" if not site["job"] else "late or silent" if site["silent"] else "yes"
        table.add_row(site["site"], _yes(site["connected"]), heard, _yes(site["job"]), answers)
    job = f"job {found['job']}: {found['status']}" if found["job"] else "no job runs"
    reached = "" if found["round"] is None else f", round {found['round']} of {found['rounds']}"
    return [table, f"{job}{reached}; this kit's certificate ends {found['certificate']}"]


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


def profile_table(profile: Profile) -> Table:
    """Seconds by phase, and their share of the process's life."""
    seconds = profile.as_object()
    table = Table(title="where the time went", title_justify="left")
    for heading, side in (("phase", "left"), ("seconds", "right"), ("%", "right"), ("what", "left")):
        table.add_column(heading, justify=side)  # pyright: ignore[reportArgumentType]
    for phase, spent in seconds.items():
        table.add_row(phase, f"{spent:.2f}", f"{100 * spent / max(sum(seconds.values()), 1e-9):.0f}", PHASES[phase])
    return table


def label_counts_table(counts: LabelCounts) -> list[Part]:
    """One line per client, then the server's and the test rows; a column per class."""
    table = Table(title=f"{counts.title}, seed {counts.seed}: rows by class", title_justify="left")
    table.add_column("client")
    for heading in ("rows", "held back", *counts.labels):
        table.add_column(heading, justify="right")
    for name, rows, held in zip(counts.names, counts.clients, counts.held, strict=True):
        table.add_row(name, *map(str, (rows.sum(), held, *rows)))
    table.add_section()
    for name, rows in (("server", counts.server), ("test", counts.test)):
        table.add_row(name, str(rows.sum()), "", *map(str, rows))
    return [table]


def methods_object() -> dict[str, Any]:
    return {
        name: {"summary": entry.summary, "options": {key: _default(p) for key, p in registry.options(name).items()}}
        for name, entry in registry.METHODS.items()
    }


def methods_table() -> list[Part]:
    table = Table(title="methods", title_justify="left", show_lines=True)
    for heading, width in (("method", 11), ("what it is", 34), ("options, with defaults", 68)):
        table.add_column(heading, width=width)
    for name, entry in registry.METHODS.items():
        words = ", ".join(f"{key} = {_default(p)}" for key, p in registry.options(name).items())
        table.add_row(name, entry.summary, words)
    return [table]


def search_object(found: Search) -> dict[str, Any]:
    points = [
        {"options": point.options, "accuracy": point.accuracy.tolist(), "personal": point.personal.tolist()}
        for point in found.points
    ]
    return {"points": points, "seconds": found.seconds}


def search_table(found: Search) -> list[Part]:
    """The grid, best first, with the mean accuracy over seeds on the validation rows."""
    config = found.config
    title = (
        f"{config.method.name} on {config.data.title}, {config.run.rounds} rounds, {config.run.seeds} seeds, validation rows"
    )
    table = Table(title=title, title_justify="left")
    for heading in (*found.points[0].options, "global %", "personal %"):
        table.add_column(heading, justify="right")
    for point in found.points:
        scores = (percent(float(score.mean())) for score in (point.accuracy, point.personal))
        table.add_row(*(f"{value:g}" for value in point.options.values()), *scores)
    return [table, f"{len(found.points)} points x {config.run.seeds} seeds in {found.seconds:.0f} s"]


def check_table(outcome: dict[str, Any]) -> list[Part]:
    table = Table(title=outcome["file"], title_justify="left")
    for heading in ("claim", "holds", "why not"):
        table.add_column(heading)
    for claim in outcome["claims"]:
        table.add_row(claim["claim"], "yes" if claim["holds"] else "NO", claim["why"])
    return [table]


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def percent(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{100 * value:.2f}"


def byte_size(count: int) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count = count / 1000  # type: ignore[assignment]
    return f"{count:.3g} TB"


def _default(parameter: inspect.Parameter) -> Any:
    return parameter.default
