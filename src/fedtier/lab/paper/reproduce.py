"""One published result from its TOML: the cells that are missing are run, the others found in the store.

    [quick]      only = [...], set = [...]: what --quick changes
    [paper]      the published numbers and the claims about them (table1)

Everything else is a comparison, as in `compare`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import choice
from .. import compare, grid
from .. import config as configuration
from ..progress import Progress
from ..report import Part
from ..store import make_folder, write_whole
from . import table
from .orderings import orderings, published, summary

NAMES = ("table1", "figure1", "figure2", "figure3")


class Order(NamedTuple):
    """What the command line asks for."""

    name: str
    quick: bool = False
    only: tuple[str, ...] = ()
    store: Path = Path("runs/cells")
    out: Path | None = None
    settings: tuple[str, ...] = ()


class Product(NamedTuple):
    parts: list[Part]  # for people
    content: dict[str, Any]  # for machines


def reproduce(order: Order, progress: Progress) -> Product:
    """Runs what is missing, then shows the result, and writes it into `out` in every format that fits."""
    choice("NAME", order.name, NAMES)
    tables = read(order.name)
    quick = tables.pop("quick", {})
    if order.quick:
        order = order._replace(
            only=order.only or tuple(quick.get("only", ())), settings=(*quick.get("set", ()), *order.settings)
        )
    if order.out is not None:
        make_folder(order.out)
    return MAKERS[order.name](order, tables, progress)


def read(name: str) -> dict[str, Any]:
    with resources.as_file(resources.files("fedtier.lab.paper") / f"{name}.toml") as file:
        return configuration.read_toml(file)


def table1(order: Order, tables: dict[str, Any], progress: Progress) -> Product:
    about = tables.pop("paper")
    whole = compare.plan(tables, order.store, order.settings)
    paper = published(about, [c.method for c in whole.cells], [c.setting for c in whole.cells])
    outcome = compare.play(compare.only(whole, order.only), progress)
    found = orderings(outcome, paper)
    how = _how(order, outcome)
    grids = table.grids(outcome, paper)
    sentences = [ordering.sentence() for ordering in found]
    content = table.as_object(outcome, paper, found) | {"how": how}
    if order.out is not None:
        page = ["\n\n".join(map(grid.markdown, grids)), f"{table.NOTE}. {how}", summary(found)]
        page.append("\n".join(f"- {sentence}" for sentence in sentences))
        note = f"{table.NOTE}. {how}".replace("±", "+-")
        files = {
            "md": "\n\n".join(page) + "\n",
            "tex": f"% {note}\n" + "\n\n".join(map(grid.latex, grids)) + "\n",
            "csv": table.comma_separated(outcome, paper),
            "json": json.dumps(content, indent=1) + "\n",
        }
        for ending, text in files.items():
            write_whole(order.out / f"{order.name}.{ending}", text.encode())
    return Product([*map(grid.rich_table, grids), table.NOTE, how, summary(found), *sentences], content)


def _how(order: Order, outcome: compare.Outcome) -> str:
    """What was run, in words, so that a quick table is never taken for the full one."""
    runs = [cell.config.run for cell in outcome.plan.cells]
    rounds, seeds = (" to ".join(map(str, sorted({getattr(run, key) for run in runs}))) for key in ("rounds", "seeds"))
    kind = (
        "quick: not the full table" if order.quick else "full" if not (order.settings or order.only) else "a part or a variant"
    )
    return f"{kind}: {rounds} rounds, {seeds} seeds"


MAKERS: dict[str, Callable[[Order, dict[str, Any], Progress], Product]] = {"table1": table1}
