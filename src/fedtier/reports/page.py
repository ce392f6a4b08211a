"""`fedtier report`: one page that needs nothing but itself, and the same figures for papers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from ..experiments.metrics import FEWEST
from ..storage.files import write_whole
from . import charts, findings, further, page_clients, page_tables, plots, privacy_section
from .load_runs import Curve, band, load_runs, outcome, settings, title_of
from .style import DARK, MEASURES, Look, across_of, looks

BANDS = "Lines are means over seeds, bands span the seeds from the lowest to the highest."
ONE_SEED = "One seed, hence no bands."
FRAME = "Axes of accuracy begin at what was reached after a fifth of the rounds: earlier values may lie below."
DASHES = {"solid": "", "dash": "6 3", "dot": "2 3", "dashdot": "6 3 2 3", "longdash": "11 3", "longdashdot": "11 3 2 3"}


def write_report(
    folders: Sequence[Path], out: Path, figures: Path | None = None, baseline: str | None = None
) -> dict[str, Any]:
    """Writes the page to `out` (and figures into `figures`); returns what was written and what was found."""
    curves = load_runs(folders)
    write_whole(out, page(curves, baseline).encode())
    drawn = draw(curves, figures) if figures else []
    return {
        "report": str(out), "finding": finding(curves), "figures": [str(path) for path in drawn],
        "runs": [str(curve.folder) for curve in curves],
    }  # fmt: skip


def page(curves: Sequence[Curve], baseline: str | None = None) -> str:
    """The whole page."""
    from plotly.offline import get_plotlyjs

    figures: dict[str, charts.Chart] = {}
    look = looks(curves)
    groups = settings(curves)
    title = _title(curves)
    parts = [
        f'<h1>{escape(title)}</h1><p class="finding">{escape(finding(curves))}</p><p>{escape(_words(curves))}</p>',
        _late(curves),
    ]
    if len(groups) > 1:
        parts.append(f'<h2 class="first">All settings</h2>{page_tables.results(outcome(curves, baseline))}')
    for number, (setting, members) in enumerate(groups.items()):
        first = ' class="first"' if number == 0 and len(groups) == 1 else ""
        parts.append(f"<section><h2{first}>{escape(setting or 'Results')}</h2>")
        if len(groups) == 1:
            parts.append(page_tables.results(outcome(members, baseline)))
        else:
            parts.append(f"<p>{escape(finding(members))}</p>")
        parts += _section(members, look, f"s{number}", figures)
        parts.append("</section>")
    parts.append("<h2>Configurations</h2>")
    for curve in curves:
        head = f"{curve.method}{', ' if curve.setting else ''}{curve.setting} — {curve.folder}"
        parts.append(f"<details><summary>{escape(head)}</summary><pre>{escape(curve.config.toml())}</pre></details>")
    template = resources.files("fedtier.reports").joinpath("page.html").read_text(encoding="utf-8")
    content = json.dumps({"charts": figures, "dark": DARK}).replace("<", "\\u003c")
    filled = {"title": escape(f"fedtier: {title}"), "body": "\n".join(parts), "charts": content, "plotly": get_plotlyjs()}
    for key, value in filled.items():
        template = template.replace(f"@{key}@", value, 1)
    return template


def finding(curves: Sequence[Curve]) -> str:
    """What was found and how sure, in one sentence; of a single method, what it reached."""
    if len({curve.method for curve in curves}) > 1:
        return findings.sentence(outcome(curves))
    more = f" {len(curves) - 3} more settings are below." if len(curves) > 3 else ""
    return " ".join(findings.reached(curve) for curve in curves[:3]) + more


def _late(curves: Sequence[Curve]) -> str:
    """Whose global model was clearly better before the end, and how the rounds can be chosen; empty where nobody's was."""
    found = [(curve, late) for curve in curves if (late := findings.past_best(curve))]
    if not found:
        return ""
    each = [
        f"{curve.method}{f', {curve.setting},' if curve.setting else ''} at round {late.round} ({late.how})"
        for curve, late in found
    ]
    words = f"On the test rows a global model was clearly better before the end: {'; '.join(each)}."
    search = next((late.search for _, late in found if late.search), "")
    choose = f" How many rounds are best can be found without these rows: <code>{escape(search)}</code>" if search else ""
    return f"<p>{escape(words)}{choose}</p>"


def draw(curves: Sequence[Curve], folder: Path) -> list[Path]:
    """SVG and PDF of every figure, named by setting."""
    written: list[Path] = []
    for number, members in enumerate(settings(curves).values(), 1):
        mark = f"-{number}" if len(settings(curves)) > 1 else ""
        counts = next((curve.counts for curve in members if curve.counts), None)
        made = {
            "curves": plots.curves_figure(members),
            "clients": plots.clients_figure(members),
            "partition": plots.partition_figure(counts) if counts else None,
        }
        for name, figure in made.items():
            for ending in ("svg", "pdf") if figure else ():
                written.append(folder / f"{name}{mark}.{ending}")
                plots.save(figure, written[-1])  # pyright: ignore[reportArgumentType]
    return written


def _section(members: list[Curve], look: dict[str, Look], prefix: str, figures: dict[str, charts.Chart]) -> list[str]:
    return [
        further.section(members),
        privacy_section.section(members),
        *_curves(members, look, prefix, figures),
        *_clients(members, look, prefix, figures),
        *_partition(members, prefix, figures),
    ]


def _curves(members: list[Curve], look: dict[str, Look], prefix: str, figures: dict[str, charts.Chart]) -> list[str]:
    several = len({row["seed"] for curve in members for row in curve.rows}) > 1
    framed = f" {FRAME}" if any(band(curve, "round", ("global_accuracy",)) for curve in members) else ""
    words = f"{BANDS if several else ONE_SEED}{framed}{_levels(members)}"
    choices = across_of(members)
    switch = "".join(
        f'<button type="button" data-across="{across.key}" aria-pressed="{str(across is choices[0]).lower()}">'
        f"{escape(across.words)}</button>"
        for across in choices
    )
    parts = [
        f"<h3>Curves</h3><p>{escape(words)}</p>",
        f'<div class="bar-of-tools">{_legend(members, look)}'
        f'<div class="switch" role="group" aria-label="draw against">against {switch}</div></div><div class="grid double">',
    ]
    for measure in MEASURES:
        if any(band(curve, "round", measure.path) for curve in members):
            for across in choices:
                figures[f"{prefix}-{measure.key}-{across.key}"] = charts.curve_chart(members, look, measure, across)
            parts.append(f'<div class="chart curve" id="{prefix}-{measure.key}"></div>')
    return [*parts, "</div>"]


def _clients(members: list[Curve], look: dict[str, Look], prefix: str, figures: dict[str, charts.Chart]) -> list[str]:
    table = page_clients.section(members, f"{prefix}-table")
    squares = charts.client_charts(members, look)
    parts = [f"<h3>Clients</h3>{table}"] if table else []
    if squares:
        side = "below" if any(curve.errors for curve in members) else "above"
        what = f"One point is one client of one seed, on its own test rows; {side} the diagonal its personal model wins. "
        what += f"Hollow: fewer than {FEWEST} test rows."
        shown = [method for method, _ in squares]
        alone = [curve.method for curve in members if curve.method not in shown and curve.finished]
        what += f" Not shown, for want of a global model or of test rows: {', '.join(alone)}." if alone else ""
        parts.append(f'<h3>Personal against global model</h3><p>{escape(what)}</p><div class="grid">')
        for k, (_, chart) in enumerate(squares):
            figures[f"{prefix}-clients-{k}"] = chart
            parts.append(f'<div class="chart square" id="{prefix}-clients-{k}"></div>')
        parts.append("</div>")
    return parts


def _partition(members: list[Curve], prefix: str, figures: dict[str, charts.Chart]) -> list[str]:
    counts = next((curve.counts for curve in members if curve.counts), None)
    if counts is None:
        return []
    figures[f"{prefix}-partition"] = charts.partition_chart(counts)
    bubbles = max(counts.clients.shape) <= plots.BUBBLES_UP_TO
    sign = "The area of a bubble is the number of rows" if bubbles else "The fainter, the fewer rows"
    words = f"Seed {counts.seed}. {sign}; the test set has {counts.test.sum():,} rows more."
    tall = min(720, max(220, 110 + 30 * len(counts.labels)))
    least = 140 + 24 * (len(counts.names) + 1) if bubbles else 0  # narrower, labels would touch: it scrolls instead
    inside = f'<div class="chart wide" style="--tall: {tall}px; min-width: {least}px" id="{prefix}-partition"></div>'
    head = f"<h3>Who has how many of which class</h3><p>{escape(words)}</p>"
    return [head, page_tables.scroll(inside, "rows of each client by class")]


def _levels(members: list[Curve]) -> str:
    silent = [curve.method for curve in members if curve.rows[-1]["bytes_up"] + curve.rows[-1]["bytes_down"] == 0]
    return f" Dotted levels show where {findings.joined(silent)} ended, which sent nothing." if silent else ""


def _legend(members: list[Curve], look: dict[str, Look]) -> str:
    buttons = []
    for curve in members:
        mark = look[curve.method]
        line = f'<line x1="0" y1="6" x2="26" y2="6" stroke-width="3" stroke-dasharray="{DASHES[mark.dash]}"/>'
        name = escape(curve.method, quote=True)
        colours = f"--light: {mark.colour}; --dark: {DARK[mark.colour]}"
        buttons.append(
            f'<button type="button" aria-pressed="true" data-method="{name}" style="{colours}">'
            f'<svg width="26" height="12" aria-hidden="true">{line}</svg>{name}</button>'
        )
    return f'<div class="legend" role="group" aria-label="show or hide a method">{"".join(buttons)}</div>'


def _title(curves: Sequence[Curve]) -> str:
    names = findings.joined(list(dict.fromkeys(curve.config.data.title for curve in curves)))
    methods = list(dict.fromkeys(title_of(curve.name) for curve in curves))
    return f"{findings.joined(methods) if len(methods) <= 4 else f'{len(methods)} methods'} on {names}"


def _words(curves: Sequence[Curve]) -> str:
    seeds = sorted({row["seed"] for curve in curves for row in curve.rows})
    rounds = sorted({curve.config.run.rounds for curve in curves})
    count = sorted({len(curve.names) for curve in curves if curve.names})
    parts = [f"{'/'.join(map(str, count))} clients"] if count else []
    parts += [f"{'/'.join(map(str, rounds))} rounds", f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}"]
    loaded = next((curve.counts.said[0] for curve in curves if curve.counts and curve.counts.said), "")
    lost = [f"{curve.method} ({curve.diverged})" for curve in curves if curve.diverged]
    cut = [curve.method for curve in curves if not curve.finished and not curve.diverged]
    words = ", ".join(parts) + "." + (f" First seed of {loaded}." if loaded else "")
    words += f" Diverged: {', '.join(lost)}." if lost else ""
    return words + (f" Not finished yet: {', '.join(cut)}." if cut else "")
