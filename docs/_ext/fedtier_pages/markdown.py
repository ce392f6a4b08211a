"""Small pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tomli_w


def code(value: Any) -> str:
    """A value as it is written in a TOML file, in a code span; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, dict):  # on one line
        return f"`{{{', '.join(f'{key} = {code(one)[1:-1]}' for key, one in value.items())}}}`"
    return f"`{tomli_w.dumps({'k': value}).split('=', 1)[1].strip()}`" if not callable(value) else "`a function`"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with pipes; columns that are empty in every row are left out."""
    body = [[cell.replace("|", r"\|").replace("\n", " ") for cell in row] for row in rows]
    kept = [k for k in range(len(heads)) if any(row[k] for row in body)]

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells[k] for k in kept)} |"

    return "\n".join([line(heads), line(["---"] * len(heads)), *map(line, body)])
