"""The clients of a setting on a page: the worst one in a sentence, all of them in a table that sorts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from ..experiments.metrics import FEWEST
from .clients import Client, clients_of, enough_rows, worst_of
from .load_runs import Curve
from .page_tables import scroll

MOST_CLIENTS = 2000  # lines of a page's table
FIRST = 12  # lines that show before "show all"


def section(members: Sequence[Curve], name: str) -> str:
    """The sentence about the worst client and the table called `name`; empty where no run has scores of clients."""
    found = clients_of(members)
    methods = [curve.method for curve in members if any(curve.method in client.personal for client in found)]
    if not methods:
        return ""
    first = _leading(found, methods)
    ordered = sorted(found, key=lambda client: (not enough_rows(client), -client.badness(first)))
    kept = ordered[:MOST_CLIENTS]
    words = [_caption(found, members, first)]
    if len(kept) < len(ordered):
        words.append(f"Of {len(ordered):,} clients the {len(kept):,} worst are listed.")
    callout = f'<p class="callout">{_callout(worst_of(found, first), methods, first)}</p>'
    return f'{callout}<p class="note">{escape(" ".join(words))}</p>{_table(kept, methods, first, name)}'


def _callout(worst: Client | None, methods: Sequence[str], first: str) -> str:
    if worst is None:
        return f"<b>Worst client: not to be told.</b> None has the {FEWEST} test rows from which chance does not decide."
    sign = '<span class="mark" aria-hidden="true">▼</span>'
    return f"{sign} <b>Worst client: {escape(worst.name)}{_seed(worst)}.</b> {escape(_about(worst, methods, first))}"


def _leading(found: Sequence[Client], methods: Sequence[str]) -> str:
    """The method that serves the clients best on average."""
    return min(methods, key=lambda m: float(np.mean([client.badness(m) for client in found if m in client.personal])))


def _about(worst: Client, methods: Sequence[str], first: str) -> str:
    words = f"Its personal model by {first} {worst.told(first)}"
    best = min((m for m in methods if m in worst.personal), key=worst.badness)
    if worst.badness(best) < worst.badness(first):
        words += f"; that by {best}, the best for it, {worst.told(best)}"
    return f"{words}."


def _caption(found: Sequence[Client], members: Sequence[Curve], first: str) -> str:
    seeds = len({point.seed for curve in members for point in curve.points})
    few = sum(not enough_rows(client) for client in found)
    what = "Error (rmse, in the label's unit)" if found[0].errors else "Accuracy in per cent"
    parts = [f"{what} of each client's personal model on its own test rows; the worst by {first} first."]
    parts.append("Choose a heading to sort by it.")
    if seeds > 1:
        same = f"Means over {seeds} seeds." if found[0].seed is None else "Each seed draws its own clients."
        parts.append(same)
    if any(client.training is not None for client in found) and found[0].seed is None and seeds > 1:
        parts.append("Training rows are those of the first seed.")
    if few:
        parts.append(
            f"Fewer than {FEWEST} test rows ({few} of {len(found)} clients, in grey at the end) do not decide who is worst."
        )
    return " ".join(parts)


def _table(found: Sequence[Client], methods: Sequence[str], first: str, name: str) -> str:
    seeded, counted = any(c.seed is not None for c in found), any(c.tested is not None for c in found)
    trained = all(client.training is not None for client in found)
    heads = ["client", *["seed"] * seeded, *["training rows"] * trained, *["test rows"] * counted, *methods]
    worst = {method: worst_of(found, method) for method in methods}
    largest = max(value for client in found for value in client.personal.values()) if found[0].errors else 100.0
    lines = []
    for place, client in enumerate(found):
        numbers = [*[client.seed] * seeded, *[client.training] * trained, *[client.tested] * counted]
        cells = [*map(_number, numbers), *(_score(client, m, client is worst[m], largest) for m in methods)]
        kinds = " ".join(["few"] * (not enough_rows(client)) + ["beyond"] * (place >= FIRST))
        label = f'<th scope="row" class="method">{escape(_unbroken(client.name))}</th>'
        lines.append(f'<tr class="{kinds}">{label}{"".join(cells)}</tr>')
    order = "descending" if found[0].errors else "ascending"
    top = "".join(_heading(k, head, order if head == first else "none") for k, head in enumerate(heads))
    inside = f"<thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody>"
    table = f'<table class="sortable" id="{name}" data-first="{FIRST}">{inside}</table>'
    return (_tools(name, len(found)) if len(found) > FIRST else "") + scroll(table, "clients")


def _tools(name: str, count: int) -> str:
    of = f'data-table="{name}" data-count="{count:,}"'
    find = f'<input type="search" placeholder="find a client" aria-label="find a client" {of}>'
    return f'<div class="tools">{find}<button type="button" aria-expanded="false" {of}>show all {count:,}</button></div>'


def _heading(column: int, words: str, order: str) -> str:
    kind = "" if column else ' class="method"'
    return f'<th scope="col"{kind} aria-sort="{order}"><button type="button">{escape(words)}</button></th>'


def _number(value: float | None) -> str:
    return '<td data-value="">-</td>' if value is None else f'<td data-value="{value:.6g}">{value:,.0f}</td>'


def _score(client: Client, method: str, is_worst: bool, largest: float) -> str:
    value = client.personal.get(method)
    if value is None:
        return '<td data-value="">-</td>'
    said = f'<abbr class="mark" title="worst of {escape(method, quote=True)}" aria-label="worst">▼</abbr>' if is_worst else ""
    share = 100 * value / largest if largest else 0.0
    shown = f"{value:.4g}" if client.errors else f"{value:.1f}"
    kind = "bar worst" if is_worst else "bar"
    return f'<td class="{kind}" data-value="{value:.6g}" style="--share: {share:.1f}%">{said}{shown}</td>'


def _unbroken(name: str) -> str:
    return name.replace("client ", "client\u00a0") if name.startswith("client ") else name


def _seed(client: Client) -> str:
    return "" if client.seed is None else f", seed {client.seed}"
