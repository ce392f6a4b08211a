"""Sites with models of their own: a table of what the server's net and each site's model gain from each other.

The file beside this one has a configuration, and a table [[rows]] of methods; the first row is everybody alone. Rows are kept
in the store and found again.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...experiments import config as configuration
from ...experiments.assemble import Experiment, assemble
from ...experiments.metric_row import Row
from ...experiments.outcomes import Interval, finished_rows, interval, resampling_ratio
from ...experiments.progress import Progress
from ...experiments.run import begin, go_on
from ...experiments.run_folder import RunFolder
from ...experiments.tables import Config
from ...own_code.own_models.listed import LIST, MIXED
from ...reports import layout
from ...reports.layout import Grid
from ...storage.files import write_whole
from ..study import Order, Product
from .frequencies import accuracies

PUBLIC = 1000
NOTE = (
    "accuracies in per cent: mean ± half-width of the 95 % interval over seeds; differences are of the same seeds; personal "
    "models on test rows, each class counting as often as the site has it"
)


class Told(NamedTuple):
    """One row of the table, of all seeds."""

    title: str
    config: Config
    shared: np.ndarray | None  # [seeds] of the global model; None where there is none
    personal: np.ndarray  # [seeds, sites] on test rows with the site's frequencies of classes (`frequencies`)
    held: np.ndarray  # [seeds, sites] on the rows that the site holds back
    bytes_up: float  # of one site in one round
    shares: np.ndarray | None = None  # [seeds, sites] of the global model's word in the personal model; None: nobody chose


def make(order: Order, progress: Progress) -> Product:
    """Runs what is missing; with `out`, the tables as Markdown and JSON."""
    with resources.as_file(resources.files(__package__ or "") / "own-models.toml") as file:
        tables = configuration.read_toml(file)
    rows, quick = tables.pop("rows"), tables.pop("quick")
    settings = [*(quick["set"] if order.quick else ()), *order.settings]
    public = quick["public"] if order.quick else PUBLIC
    wanted = [row for row in rows if not order.only or row["title"] in (rows[0]["title"], *order.only)]
    configs = [_config(tables, row, public, settings) for row in wanted]
    dealt = assemble(configs[0])  # all rows of the table have its rows
    told = [_told(row, config, dealt, order, progress) for row, config in zip(wanted, configs, strict=True)]
    grids, lines = [grid(told), by_site(told)], sentences(told)
    if order.quick:
        lines.append("quick, not the full result")
    content: dict[str, Any] = {one.title: _plain(one) for one in told}
    files = [] if order.out is None else _write(order.out, grids, lines, content)
    return Product([*(layout.rich_table(one) for one in grids), NOTE, *lines, *files], content | {"sentences": lines})


def _config(tables: dict[str, Any], row: dict[str, Any], public: int, settings: list[str]) -> Config:
    method = row["method"]
    shows = {"public_rows": public} if method["name"] != "fedavg" else {}
    given = {table: dict(content) for table, content in tables.items()} | {"method": shows | method}
    given["run"] |= row.get("run", {})
    if method["name"] == "codistil":
        given["method"] |= {"public_labels": "none"}
    if method["name"] == "fedavg":
        given.pop("clients")
    return configuration.validate(configuration.with_settings(given, settings))


def _told(row: dict[str, Any], config: Config, dealt: Experiment, order: Order, progress: Progress) -> Told:
    folder = order.store / f"own-models-{config.digest()}"
    with RunFolder(folder).held() as files:
        finals = finished_rows(folder, config)
        if finals is None:
            run = go_on if (folder / "config.toml").exists() else begin
            finals = run(assemble(config), files, progress=progress).final
    found = [one["global_accuracy"] for one in finals]
    replies = config.run.rounds * config.data.clients
    return Told(
        row["title"], config, None if None in found else np.asarray(found, float), accuracies(dealt, folder),
        np.asarray([one["by_client"]["personal"] for one in finals], float), _bytes(finals) / replies,
        _shares(folder) if config.run.personal_check else None,
    )  # fmt: skip


def _shares(folder: Path) -> np.ndarray:
    seeds = json.loads((folder / LIST).read_bytes())[MIXED]
    return np.asarray([list(of.values()) for of in seeds.values()], float)


def _bytes(finals: list[Row]) -> float:
    return float(np.mean([row["bytes_up"] for row in finals]))


def grid(told: list[Told]) -> Grid:
    """A row a method: the global model, its gain over the server alone, the personal models and the worst of them."""
    alone = told[0]
    rows = []
    for one in told:
        gain = "" if one is alone or one.shared is None or alone.shared is None else _signed(one, one.shared - alone.shared)
        shared = "none" if one.shared is None else _number(one, one.shared)
        worst = _number(one, one.personal.min(axis=1))
        better = "" if one is alone else _signed(one, one.personal.min(axis=1) - alone.personal.min(axis=1))
        rows.append(
            [
                one.title,
                shared,
                gain,
                _number(one, one.personal.mean(axis=1)),
                worst,
                better,
                f"{one.bytes_up:,.0f}",
            ]
        )
    return Grid(
        ["method", "global", "over the server alone", "personal", "worst site", "over the worst alone", "bytes up"],
        rows,
        left=1,
    )


def by_site(told: list[Told]) -> Grid:
    """A row a method, a column a site."""
    kinds = [str(word).partition("(")[0] for word in told[0].config.clients.models]
    rows = [[one.title, *(_number(one, one.personal[:, k]) for k in range(len(kinds)))] for one in told]
    return Grid(["method", *kinds], rows, left=1)


def sentences(told: list[Told]) -> list[str]:
    """Where a personal model is worse than its site alone, and how often."""
    alone, lines = told[0], []
    for one in told[1:]:
        better = one.personal - alone.personal
        lines.append(
            f"{one.title}: {_below(better)}; mean difference {_signed(one, better.mean(axis=1))}{_chose(one)}. "
            f"On the rows that sites hold back: {_below(one.held - alone.held)}; mean difference "
            f"{_signed(one, (one.held - alone.held).mean(axis=1), 'personal')}"
        )
    return lines


def _below(better: np.ndarray) -> str:
    counts = (
        f"{int((better < 0).sum())} of {better.size} personal models are worse than their site alone, {int((better > 0).sum())}"
    )
    return f"{counts} better ({100 * better.min():+.1f} to {100 * better.max():+.1f})"


def _chose(one: Told) -> str:
    if one.shares is None:
        return ""
    taken = one.shares[one.shares > 0]
    how = f", {taken.mean():.2f} on average" if len(taken) else ""
    return f"; {len(taken)} sites let the global model's word count beside their own{how}"


def _interval(one: Told, values: np.ndarray, what: str) -> Interval:
    return interval(values, resampling_ratio(one.config, what))


def _number(one: Told, values: np.ndarray) -> str:
    found = _interval(one, 100 * values, "global")
    return f"{found.mean:.1f}" + ("" if np.isnan(found.half) else f" ± {found.half:.1f}")


def _signed(one: Told, values: np.ndarray, what: str = "global") -> str:
    found = _interval(one, 100 * values, what)
    return f"{found.mean:+.1f}" + ("" if np.isnan(found.half) else f" ± {found.half:.1f}")


def _plain(one: Told) -> dict[str, Any]:
    shared = None if one.shared is None else one.shared.tolist()
    shares = None if one.shares is None else one.shares.tolist()
    lists = {"personal": one.personal.tolist(), "held": one.held.tolist()}
    return {"global": shared, **lists, "bytes_up": one.bytes_up, "shares": shares}


def _write(folder: Path, grids: list[Grid], lines: list[str], content: dict[str, Any]) -> list[str]:
    said = "".join(f"- {line}\n" for line in lines)
    texts = {
        "md": "\n\n".join(layout.markdown(one) for one in grids) + f"\n\n{NOTE}\n\n{said}",
        "json": json.dumps(content, indent=1, allow_nan=False) + "\n",
    }
    for ending, text in texts.items():
        write_whole(folder / f"own-models.{ending}", text.encode())
    return [str(folder / f"own-models.{ending}") for ending in texts]
