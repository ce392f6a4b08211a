"""What the runs of a page promise about privacy: who sees what, and epsilon against whom."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from .load_runs import Curve, read_json
from .page_tables import scroll

FILE = "privacy.json"
HEADS = ("method", "who", "sees", "epsilon", "at delta", "protects", "because")


def section(members: Sequence[Curve]) -> str:
    """A table of methods by adversaries; empty where no run has a promise to make."""
    told = [(curve.method, read_json(curve.folder / FILE)) for curve in members]
    rows = [_row(method, found, viewer) for method, found in told if found for viewer in found["viewers"]]
    if not rows:
        return ""
    first = next(found for _, found in told if found)
    heads = "".join(f'<th scope="col">{word}</th>' for word in HEADS)
    table = f'<table class="results"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    lists = (f"<p class='note'>{title}: {escape('; '.join(first[key]))}.</p>" for title, key in LISTS)
    return f"<h3>Privacy</h3>{scroll(table, 'privacy')}{''.join(lists)}"


LISTS = (("Assumed", "assumptions"), ("Not covered", "uncovered"))


def _row(method: str, found: dict[str, Any], viewer: dict[str, Any]) -> str:
    epsilon = "no bound: trusted" if viewer["epsilon"] is None else f"{viewer['epsilon']:.3g}"
    cells = (viewer["who"], viewer["sees"], epsilon, f"{found['delta']:g}", found["unit"], viewer["why"])
    inside = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row" class="method">{escape(method)}</th>{inside}</tr>'
