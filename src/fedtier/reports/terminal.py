"""Tables for people and objects for machines."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import tomli_w
from rich.table import Table

from ..experiments.comparison import Cell, Comparison
from ..experiments.grids import STEPS, written
from ..experiments.label_counts import LabelCounts
from ..experiments.metric_row import Row
from ..experiments.outcomes import Outcome, interval, resampling_ratio, values
from ..experiments.profile import PHASES, Profile
from ..experiments.search import FEW_ROWS, Search
from ..experiments.session import Result
from ..own_code.check_file import Checked
from ..own_code.naming import short
from ..storage.json_value import Json
from . import further
from .clients import clients_of, worst_of
from .findings import past_best
from .layout import folded
from .load_runs import Curve, at, load_run
from .strict_json import known
from .tables import decimals, note

Part = Table | str


def final_object(result: Result) -> dict[str, object]:
    """What `fedtier run --json` prints: the folder, the seeds and one final row per seed."""
    late = past_best(load_run(result.folder))
    best = {"best_round": late.round} if late else {}  # on the test rows; only where it was clearly better than the end
    return {"run": str(result.folder), "seeds": [row["seed"] for row in result.final], "final": result.final, **best}


class Column(NamedTuple):
    heading: str
    path: tuple[str, ...]
    metric: str  # in METRICS; empty for the parts of f, which are no test
    percent: bool = False


COLUMNS = (
    Column("f1", ("f1",), ""), Column("f2", ("f2",), ""), Column("test\nloss", ("global_loss",), "loss"),
    Column("global\n%", ("global_accuracy",), "global", percent=True),
    Column("personal\n%", ("personal_accuracy", "mean"), "personal", percent=True),
    Column("by rows\n%", ("personal_accuracy", "by_rows"), "personal_by_rows", percent=True),
    Column("worst\n%", ("personal_accuracy", "min"), "worst", percent=True),
    Column("rmse", ("global_rmse",), "rmse"), Column("R2", ("global_r2",), "r2"),
    Column("personal\nrmse", ("personal_rmse", "mean"), "personal_rmse"),
    Column("worst\nrmse", ("personal_rmse", "max"), "worst_rmse"),
)  # fmt: skip


def run_table(result: Result) -> list[Part]:
    """One line per seed in 80 columns, the mean and its interval over several, what it cost and where the results are."""
    config, final = result.config, result.final
    shown = [column for column in COLUMNS if any(at(row, column.path) is not None for row in final)]
    table = Table(title=f"{short(config.method.name)} on {config.data.title}, {config.run.rounds} rounds", title_justify="left")
    for heading in ("seed", *(column.heading for column in shown)):
        table.add_column(heading, justify="right")
    for row in final:
        table.add_row(str(row["seed"]), *(_cell(at(row, column.path), column.percent) for column in shown))
    if len(final) > 1:
        table.add_section()
        means = [_mean(final, column) for column in shown]
        table.add_row("mean", *means)
        table.add_row("±", *(_half(result, column) for column in shown))
    outcome = Outcome(Comparison([Cell("", "", config, result.folder)], "", _metrics(shown)), {("", ""): final})
    curve = load_run(result.folder)
    words = [folded(note(outcome)), *_worst(curve), *_new_clients(final), _cost(final), *_late(curve)]
    return [
        table,
        *further.table(final),
        *words,
        f"results: {result.folder}",
        f"next: fedtier report {result.folder} --out report.html",
    ]


def _metrics(shown: list[Column]) -> tuple[str, ...]:
    return tuple(column.metric for column in shown if column.metric)


def _cell(value: float | None, share: bool) -> str:
    return percent(value) if share else number(value)


def _mean(final: list[Row], column: Column) -> str:
    known = [value for value in (at(row, column.path) for row in final) if value is not None]
    return _cell(sum(known) / len(known), column.percent)


def _half(result: Result, column: Column) -> str:
    if not column.metric:
        return ""
    found = interval(values(result.final, column.metric), resampling_ratio(result.config, column.metric))
    return _cell(found.half / (100 if column.percent else 1), column.percent)


def _worst(curve: Curve) -> list[str]:
    """Who is worst off, by name; nothing where clients have no test rows."""
    found = worst_of(clients_of([curve]), curve.method)
    if found is None:
        return []
    seed = "" if found.seed is None else f", seed {found.seed}"
    return [folded(f"worst client: {found.name}{seed}; its personal model {found.told(curve.method)}")]


def _late(curve: Curve) -> list[str]:
    """That fewer rounds would have done; the command on a line of its own, which nothing breaks."""
    late = past_best(curve)
    if late is None:
        return []
    words = f"on the test rows the global model was best at round {late.round} ({late.how}): {late.advice}"
    return [folded(words), *([f"to choose them without the test rows: {late.search}"] if late.search else [])]


def _new_clients(final: list[Row]) -> list[str]:
    """How the clients that never trained fare, by the global model and by the one made for each; the mean over seeds."""
    words = []
    for model in ("global", "adapted"):
        for metric, share in (("accuracy", True), ("rmse", False)):
            found = [at(row, ("new_clients", f"{model}_{metric}", "mean")) for row in final]
            known = [value for value in found if value is not None]
            if known:
                mean = _cell(sum(known) / len(known), share)
                words.append(f"{model} model {mean} %" if share else f"{model} model {metric} {mean}")
    return [folded(f"new clients, which never trained: {', '.join(words)}")] if words else []


def _cost(final: list[Row]) -> str:
    up, down = (_range([row[key] for row in final]) for key in ("bytes_up", "bytes_down"))
    each = " a seed" if len(final) > 1 else ""
    run, compiling = (max(row["seconds"].get(key, 0.0) for row in final) for key in ("run", "compile"))
    time = f"{run:.1f} s of rounds, {compiling:.0f} s to compile and evaluate once"
    return folded(f"sent: {up} up, {down} down{each}; time: {time}")


def _range(counts: list[int]) -> str:
    ends = byte_size(min(counts)), byte_size(max(counts))
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def status_table(found: dict[str, Any]) -> list[Part]:
    """One line per site of a federation, and where its run stands."""
    table = Table(title=f"{found['server']}", title_justify="left")
    for heading in ("site", "connected", "heard", "has the job", "answers", "certificate ends"):
        table.add_column(heading)
    for site in found["sites"]:
        heard = "-" if site["heard"] is None else f"{site['heard']:.0f} s ago"
        answers = "-" if not site["job"] else "late or silent" if site["silent"] else "yes"
        ends = f"revoked on {site['revoked']}" if site["revoked"] else site["certificate"] or "-"
        table.add_row(site["site"], _yes(site["connected"]), heard, _yes(site["job"]), answers, ends)
    job = f"job {found['job']}: {found['status']}" if found["job"] else "no job runs"
    reached = "" if found["round"] is None else f", round {found['round']} of {found['rounds']}"
    warnings = [f"warning: {line}" for line in found["warnings"]]
    return [table, f"{job}{reached}; this kit's certificate ends {found['certificate']}", *warnings]


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


def search_object(found: Search) -> dict[str, Json]:
    points = [
        {"options": point.options, found.measure: point.overall.tolist(), "personal": point.personal.tolist()}
        for point in found.points
    ]
    return known({"by": found.by, "points": points, "seconds": found.seconds, "best": found.best, "at_an_end": [*found.ends]})


def search_toml(found: Search) -> str:
    """The best point as a configuration that `fedtier run` takes."""
    point, seeds = found.points[0], found.config.run.seeds
    both = (("global", point.overall), ("personal", point.personal))
    shown = (lambda score: f"{percent(score)} %") if found.measure == "accuracy" else (lambda score: f"rmse {number(score)}")
    scores = " and ".join(f"{what} {shown(float(score.mean()))}" for what, score in both)
    by = ", by the personal models" if found.by == "personal" else ""
    head = f"# the best of {len(found.points)} points on validation rows, {seeds} seeds{by}: {scores}"
    head += f"\n# {_level(found)}" if found.level == len(found.points) > 1 else ""
    head += f"\n# {_at_an_end(found)}" if found.ends else ""
    return f"{head}\n\n{tomli_w.dumps(found.best)}"


def _level(found: Search) -> str:
    if found.level < len(found.points):
        return f"the first {found.level} points are level: the configuration below has the first of them"
    keys = " and ".join(found.points[0].options)
    return f"all points are level: {keys} made no difference to {short(found.config.method.name)} here"


def _at_an_end(found: Search) -> str:
    values = " and ".join(f"{key} = {value}" for key, value in found.ends.items())
    return f"{values} at an end of what was tried: the best may lie beyond"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def search_table(found: Search) -> list[Part]:
    """The grid, best first, with the mean accuracy, or rmse, over seeds on the validation rows."""
    config, run = found.config, found.config.run
    rounds = "" if "run.rounds" in found.points[0].options else f", {run.rounds} rounds"
    title = f"{short(config.method.name)} on {config.data.title}{rounds}, {run.seeds} seeds, validation rows"
    title += ", by the personal models" if found.by == "personal" else ""
    table = Table(title=title, title_justify="left")
    unit, shown = ("%", percent) if found.measure == "accuracy" else ("rmse", number)
    for heading in (*found.points[0].options, f"global {unit}", f"personal {unit}"):
        table.add_column(heading, justify="right")
    for point in found.points:
        scores = (shown(float(score.mean())) for score in (point.overall, point.personal))
        options = config.method.options
        values = (_shown(written(options, key, value) if key in STEPS else value) for key, value in point.options.items())
        table.add_row(*values, *scores)
    words = [f"{len(found.points)} points x {config.run.seeds} seeds in {found.seconds:.0f} s"]
    words += [_level(found)] if found.level > 1 else []
    words += [_at_an_end(found)] if found.ends else []
    if (judged := found.judged[found.by]) < FEW_ROWS:
        models = "global model" if found.by == "global" else "personal models"
        words.append(f"only {judged} validation rows judge the {models}: small differences mean nothing")
    return [table, *words]


def check_table(outcome: Checked) -> list[Part]:
    table = Table(title=outcome["file"], title_justify="left")
    for heading in ("claim", "holds", "why not"):
        table.add_column(heading)
    for claim in outcome["claims"]:
        table.add_row(claim["claim"], "yes" if claim["holds"] else "NO", claim["why"])
    return [table]


def number(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{decimals(abs(value))}f}"


def percent(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{100 * value:.2f}"


def byte_size(count: float) -> str:
    """Three digits and a unit: a number that is rounded to 1000 is 1 of the next unit."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        shown = f"{count:.3g}"
        if float(shown) < 1000:
            return f"{shown} {unit}"
        count /= 1000
    return f"{count:,.0f} PB"
