"""The clients of a setting by name: who is worst off, and a table that sorts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from ..experiments.metrics import FEWEST
from .load_runs import Curve
from .page_tables import scroll

MOST_CLIENTS = 2000  # lines of a page's table
KINDS = ("personal", "shared", "rows")  # of a `Point`
FIRST = 12  # lines that show before "show all"


class Client(NamedTuple):
    """One line: a client of one seed, or of all seeds where it is the same party in each."""

    name: str
    seed: int | None  # None: the mean over seeds
    number: int
    training: int | None  # rows, of the partition's first seed
    tested: float | None  # test rows, on average over the seeds
    personal: dict[str, float]  # per cent, by method
    shared: dict[str, float]


def clients_of(members: Sequence[Curve]) -> list[Client]:
    """All clients that were judged, in the order of their numbers."""
    keeps = all(curve.same_clients for curve in members)
    keys = sorted({(None if keeps else p.seed, p.client) for curve in members for p in curve.points}, key=_order)
    found: dict[tuple[int | None, int], dict[str, dict[str, list[float]]]] = {key: {} for key in keys}
    for curve in members:
        for point in curve.points:
            numbers = found[None if keeps else point.seed, point.client].setdefault(curve.method, {})
            for name in KINDS:
                if getattr(point, name) is not None:
                    numbers.setdefault(name, []).append(getattr(point, name))
    out = []
    curve = next((curve for curve in members if curve.points), None)
    for (seed, number), methods in found.items():
        assert curve is not None  # it has the points that were found
        each = {kind: {m: float(np.mean(n[kind])) for m, n in methods.items() if kind in n} for kind in KINDS}
        personal, shared = ({m: 100 * value for m, value in each[kind].items()} for kind in ("personal", "shared"))
        tested = next(iter(each["rows"].values()), None)
        out.append(Client(curve.client(number), seed, number, _training(members, number, seed), tested, personal, shared))
    return [client for client in out if client.personal or client.shared]


def worst_of(found: Sequence[Client], method: str) -> Client | None:
    """The client with the least accurate personal model, among those with enough test rows; None where none has."""
    judged = [client for client in found if method in client.personal and enough_rows(client)]
    return min(judged, key=lambda client: client.personal[method], default=None)


def section(members: Sequence[Curve], name: str) -> str:
    """The sentence about the worst client and the table called `name`; empty where no run has scores of clients."""
    found = clients_of(members)
    methods = [curve.method for curve in members if any(curve.method in client.personal for client in found)]
    if not methods:
        return ""
    first = _leading(found, methods)
    ordered = sorted(found, key=lambda client: (not enough_rows(client), client.personal.get(first, np.inf)))
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
    """The method with the best mean of personal accuracies."""
    return max(methods, key=lambda m: float(np.mean([client.personal[m] for client in found if m in client.personal])))


def _about(worst: Client, methods: Sequence[str], first: str) -> str:
    rows = f" of its {worst.tested:.0f} test rows" if worst.tested else ""
    words = f"Its personal model by {first} is right on {worst.personal[first]:.1f} %{rows}"
    others = {m: worst.personal[m] for m in methods if m in worst.personal and m != first}
    best = max(others, key=lambda m: others[m], default="")
    if best and others[best] > worst.personal[first]:
        words += f"; by {best}, the best for it, on {others[best]:.1f} %"
    return f"{words}."


def _caption(found: Sequence[Client], members: Sequence[Curve], first: str) -> str:
    seeds = len({point.seed for curve in members for point in curve.points})
    few = sum(not enough_rows(client) for client in found)
    parts = [f"Accuracy of each client's personal model on its own test rows, in per cent; the worst by {first} first."]
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
    lowest = {method: worst_of(found, method) for method in methods}
    lines = []
    for place, client in enumerate(found):
        numbers = [*[client.seed] * seeded, *[client.training] * trained, *[client.tested] * counted]
        cells = [*map(_number, numbers), *(_accuracy(client.personal.get(m), client is lowest[m], m) for m in methods)]
        kinds = " ".join(["few"] * (not enough_rows(client)) + ["beyond"] * (place >= FIRST))
        label = f'<th scope="row" class="method">{escape(_unbroken(client.name))}</th>'
        lines.append(f'<tr class="{kinds}">{label}{"".join(cells)}</tr>')
    top = "".join(_heading(k, head, head == first) for k, head in enumerate(heads))
    inside = f"<thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody>"
    table = f'<table class="sortable" id="{name}" data-first="{FIRST}">{inside}</table>'
    return (_tools(name, len(found)) if len(found) > FIRST else "") + scroll(table, "clients")


def _tools(name: str, count: int) -> str:
    of = f'data-table="{name}" data-count="{count:,}"'
    find = f'<input type="search" placeholder="find a client" aria-label="find a client" {of}>'
    return f'<div class="tools">{find}<button type="button" aria-expanded="false" {of}>show all {count:,}</button></div>'


def _heading(column: int, words: str, sorted_by: bool) -> str:
    kind = "" if column else ' class="method"'
    order = "ascending" if sorted_by else "none"
    return f'<th scope="col"{kind} aria-sort="{order}"><button type="button">{escape(words)}</button></th>'


def _number(value: float | None) -> str:
    return '<td data-value="">-</td>' if value is None else f'<td data-value="{value:.6g}">{value:,.0f}</td>'


def _accuracy(value: float | None, lowest: bool, method: str) -> str:
    if value is None:
        return '<td data-value="">-</td>'
    said = f'<abbr class="mark" title="lowest of {escape(method, quote=True)}" aria-label="lowest">▼</abbr>' if lowest else ""
    kind = "bar worst" if lowest else "bar"
    return f'<td class="{kind}" data-value="{value:.6g}" style="--share: {value:.1f}%">{said}{value:.1f}</td>'


def _unbroken(name: str) -> str:
    return name.replace("client ", "client\u00a0") if name.startswith("client ") else name


def _training(members: Sequence[Curve], number: int, seed: int | None) -> int | None:
    """Training rows from the counts of the partition, where these are of this seed or of all."""
    counts = next((curve.counts for curve in members if curve.counts is not None), None)
    if counts is None or number >= len(counts.held) or seed not in (None, counts.seed):
        return None
    return int(counts.clients[number].sum() - counts.held[number])


def enough_rows(client: Client) -> bool:
    """Whether it has the test rows to be called the worst, or the run does not say how many it has."""
    return client.tested is None or client.tested >= FEWEST


def _seed(client: Client) -> str:
    return "" if client.seed is None else f", seed {client.seed}"


def _order(key: tuple[int | None, int]) -> tuple[int, int]:
    return -1 if key[0] is None else key[0], key[1]
