"""The page and the table of experiments, for people and for machines."""

from __future__ import annotations

from math import isfinite
from typing import Any

from rich.table import Table

from ...storage.json_value import Json
from .line import Line
from .page import Page
from .row import Row

Part = Table | str


def page_object(page: Page) -> dict[str, Json]:
    """What `fedtier theory --json` prints."""

    def lines(part: list[Line]) -> dict[str, Json]:
        return {line.name: {**_finite(line.number._asdict(), "value"), "words": line.words} for line in part}

    return {
        "title": page.title,
        "assumptions": [a._asdict() for a in page.assumptions],
        "constants": lines(page.constants),
        "limits": lines(page.limits),
        "promises": lines(page.promises),
        "theorem_2": {"holds": page.theorem_2.holds, "conditions": [c._asdict() for c in page.theorem_2]},
        "advice": [advice._asdict() for advice in page.advice],
        "remains": None
        if page.remains is None
        else {"statements": [a._asdict() for a in page.remains.statements], "numbers": lines(page.remains.lines)},
    }


def page_parts(page: Page) -> list[Part]:
    """Tables in reading order; equation numbers are those of docs/theory.md."""
    assumptions = _table("What the theorems ask for", "assumption", "holds", "why")
    for a in page.assumptions:
        assumptions.add_row(a.name, verdict(a.holds), a.why)
    second = _table("Theorem 2: |grad F(x_r)| -> 0 almost surely, equation (24)", "condition", "holds", "why")
    for c in page.theorem_2:
        second.add_row(c.statement, verdict(c.holds), c.why)
    parts: list[Part] = [page.title, assumptions, _lines("Constants", page.constants), _lines("Limits", page.limits)]
    if page.remains is not None:
        left = _table("Without strong convexity: what remains", "statement", "holds", "why")
        for a in page.remains.statements:
            left.add_row(a.name, verdict(a.holds), a.why)
        parts += [left, _lines("H steps as they are, without a solution", page.remains.lines)]
    if page.promises:
        parts.append(_lines("Theorem 1: what is promised", page.promises))
    parts.append(second)
    if page.advice:
        parts.append("covered by the theorems, for this problem:")
        parts += [f"  {advice.key} = {advice.value}  # {advice.reason}" for advice in page.advice]
    parts.append("labels: exact, bound (proven), estimate (sampled), absent (assumption fails); equations: docs/theory.md")
    return parts


def rows_parts(rows: list[Row]) -> list[Part]:
    """The table that `fedtier theory --verify` ends with."""
    headings = ("statement", "eq.", "measured", "bound", "holds", "how", "would have refuted")
    table = _table("Statements that could have been refuted", *headings)
    for column in table.columns[2:4]:
        column.justify = "right"
    for row in rows:
        numbers = (show(row.measured), show(row.bound), verdict(row.holds))
        table.add_row(row.statement, row.equation, *numbers, row.how, row.refutes)
    refuted = sum(not row.holds for row in rows)
    return [table, f"{len(rows)} statements, {refuted} refuted"]


def rows_object(rows: list[Row]) -> dict[str, Json]:
    statements = [_finite(row._asdict(), "measured", "bound") for row in rows]
    return {"statements": statements, "refuted": sum(not row.holds for row in rows)}


def verdict(holds: bool | None) -> str:
    return {True: "yes", False: "NO", None: "?"}[holds]


def show(value: float) -> str:
    if not isfinite(value):
        return str(value)
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e6 else f"{value:.4g}"


def _lines(title: str, lines: list[Line]) -> Table:
    table = _table(title, "", "value", "label", "eq.", "")
    table.columns[1].justify = "right"
    for line in lines:
        note = line.number.note if line.number.label == "absent" else line.words
        table.add_row(line.name, show(line.number.value), line.number.label, line.number.equation, note)
    return table


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading)
    return table


def _finite(fields: dict[str, Any], *numbers: str) -> dict[str, Json]:
    """JSON has no infinity: null stands for "no such number"."""
    return fields | {key: fields[key] if isfinite(fields[key]) else None for key in numbers}
