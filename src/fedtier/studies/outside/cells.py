"""A published table whose cells are runs, from its TOML: what is missing in the store is run, the rest is found there.

    [quick]         only = [...], set = [...]: what --quick changes
    [table] [rows]  what is shown: see `sheets`
    [[published]]   what others have: see `claims`
    [explained]     row = "why it differs, as an experiment has shown"

Everything else is a comparison, as in `experiments.comparison`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...experiments.comparison import Comparison, chosen
from ...experiments.jobs import run_in_processes
from ...experiments.outcomes import Outcome, run_cells, stored_cells
from ...experiments.progress import Progress
from ...reports import layout
from ...storage.files import write_whole
from ..study import Order, Product, comparison_for
from . import claims, sheets, wording
from .reproduce import load_tables
from .sheets import Entry
from .table import UNJUDGED, how

OURS = ("table", "rows", "published", "explained")  # what is no table of a comparison


def make(order: Order, progress: Progress) -> Product:
    """The table for people and for machines; with `out`, also as markdown, CSV, JSON and a picture."""
    content = load_tables(order.name)
    wanted = _of_table(comparison_for(order, {key: value for key, value in content.items() if key not in OURS}), content)
    sheets.check_names(content, *_names(content))
    if order.jobs != 1 and not order.stored:
        run_in_processes(wanted, order.jobs, progress, any_version=order.any_version)
    by_round = content["table"].get("columns") == "rounds"
    outcome = (
        stored_cells(wanted, unfinished=by_round, any_version=order.any_version)
        if order.stored
        else run_cells(wanted, progress, any_version=order.any_version)
    )
    known = claims.read_claims(content["published"])
    entries = sheets.entries_of(outcome, content, known)
    if order.changed:
        entries = [entry._replace(verdict=claims.UNKNOWN) for entry in entries]
        found = [UNJUDGED]
    else:
        found = wording.sentences(entries, known, content.get("explained", {}))
    said = [
        how(order, [len(entry.last) for entry in entries]),
        claims.RULE,
        *found,
        content["table"]["note"],
        wording.diverged(outcome),
    ]
    said = [line for line in said if line]
    files = [] if order.out is None else _write(order.out, order.name, outcome, content, entries, known, said)
    parts = [layout.rich_table(part) for grid in wording.grids(entries, known, "\n") for part in layout.narrow(grid)]
    told = {"cells": [wording.as_object(entry, known) for entry in entries], "said": said, "files": files}
    return Product([*parts, wording.MARKS, *said, *files], told)


def _names(content: dict[str, Any]) -> tuple[list[str], list[str]]:
    """All methods and settings of the file, whatever part of it was asked for."""
    return [one["label"] for one in content["methods"]], [one["label"] for one in content.get("settings", [])]


def _of_table(wanted: Comparison, content: dict[str, Any]) -> Comparison:
    """Without the pairs of method and setting that table.without names by words: not every method has a place in every one."""
    left_out = content["table"].get("without", ())
    kept = [cell for cell in wanted.cells if not any(chosen(words, cell.method, cell.setting) for words in left_out)]
    return wanted._replace(cells=kept)


def _write(
    folder: Path, name: str, outcome: Outcome, content: dict[str, Any], entries: list[Entry], known: claims.Claims,
    said: list[str],
) -> list[str]:  # fmt: skip
    """The table in every format and the picture; the names of the files."""
    from . import curves  # matplotlib is not needed to run the cells

    words = "\n".join(f"- {line}" for line in said[1:])
    every = wording.verdicts(entries, known, content.get("explained", {}))
    grids = [*wording.grids(entries, known), *([every] if every.rows else [])]
    objects = [wording.as_object(entry, known) for entry in entries]
    texts = {
        "md": "\n\n".join([f"# {name}", said[0], *map(layout.markdown, grids), wording.MARKS, words]) + "\n",
        "csv": wording.comma_separated(entries, known),
        "json": json.dumps({"cells": objects, "said": said}, indent=1, allow_nan=False) + "\n",
    }
    for ending, text in texts.items():
        write_whole(folder / f"{name}.{ending}", text.encode())
    return [
        *(str(folder / f"{name}.{ending}") for ending in texts),
        *curves.save(outcome, content, known, said[0], folder / name),
    ]
