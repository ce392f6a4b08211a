"""`fedtier demo`: one comparison on embedded data, and what it says in words."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from rich.table import Table

from ..experiments import comparison, outcomes
from ..experiments.outcomes import Interval, Outcome
from ..experiments.progress import Progress
from ..experiments.run_folder import new_folder
from ..reports.terminal import Part, byte_size


def run_demo(folder: Path | None, progress: Progress) -> list[Part]:
    """Runs the comparison in demo.toml into `folder` (by default runs/DATE-demo); a table and a few sentences about it."""
    folder = folder or new_folder("demo")
    with resources.as_file(resources.files("fedtier.studies") / "demo.toml") as file:
        wanted = comparison.load_comparison(file, folder)
    outcome = outcomes.run_cells(wanted, progress)
    return [_table(outcome), *_words(outcome), f"results: {folder}"]


def _table(outcome: Outcome) -> Table:
    first = outcome.comparison.cells[0].config
    data, run = first.data, first.run
    title = f"{data.name}, {data.clients} clients, Dirichlet({data.alpha:g}), {run.rounds} rounds, {run.seeds} seeds"
    caption = "mean ± 95 % interval over seeds; personal and worst: on each client's own test rows"
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    table.add_column("method")
    for metric in outcome.comparison.metrics:
        table.add_column(comparison.METRICS[metric].heading, justify="right")
    table.add_column("sent by clients", justify="right")
    for (method, _), rows in outcome.finals.items():
        scores = [_interval(outcomes.interval(outcomes.values(rows, metric))) for metric in outcome.comparison.metrics]
        table.add_row(method, *scores, byte_size(rows[0]["bytes_up"]))
    return table


def _interval(found: Interval) -> str:
    return "-" if found.mean != found.mean else f"{found.mean:.1f} ± {found.half:.1f}"


def _words(outcome: Outcome) -> list[str]:
    """Differences seed by seed, so that the luck of the split cancels."""
    setting = outcome.comparison.cells[0].setting
    lines = []
    for metric, other, claim in (
        ("global", "server only", "the clients' data improve the server's model"),
        ("personal", "local only", "taking part improves a client's own model"),
        ("worst", "local only", "and the worst-off client gains most"),
    ):
        base = comparison.Comparison(outcome.comparison.cells, other, outcome.comparison.metrics)
        gain = outcomes.paired(outcome._replace(comparison=base), "ZO-HFL", setting, metric)
        sure = gain.mean - gain.half > 0
        verdict = claim if sure else f"not certain here that {claim.removeprefix('and ')}"
        lines.append(f"ZO-HFL against {other}, {metric}: {gain.mean:+.1f} ± {gain.half:.1f} points: {verdict}")
    return lines
