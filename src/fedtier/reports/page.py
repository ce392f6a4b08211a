"""`fedtier report`: one page that needs nothing but itself, and the same figures for papers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from ..storage.files import write_whole
from . import charts, plots, tables
from .load_runs import TITLES, Curve, band, load_runs, outcome, settings
from .style import ACROSS, MEASURES, Look, looks

BANDS = "Lines are means over seeds, bands span the seeds from the lowest to the highest."
ONE_SEED = "One seed, hence no bands."


def write_report(
    folders: Sequence[Path], out: Path, figures: Path | None = None, baseline: str | None = None
) -> dict[str, Any]:
    """Writes the page to `out` (and figures into `figures`); returns what was written."""
    curves = load_runs(folders)
    write_whole(out, page(curves, baseline).encode())
    drawn = draw(curves, figures) if figures else []
    return {"report": str(out), "figures": [str(path) for path in drawn], "runs": [str(curve.folder) for curve in curves]}


def page(curves: Sequence[Curve], baseline: str | None = None) -> str:
    """The whole page."""
    from plotly.offline import get_plotlyjs

    parts: list[str] = []
    figures: dict[str, charts.Chart] = {}
    look = looks(curves)
    groups = settings(curves)
    names = ", ".join(dict.fromkeys(curve.config.data.name for curve in curves))
    methods = list(dict.fromkeys(TITLES.get(curve.name, curve.name) for curve in curves))
    title = f"fedtier: {', '.join(methods) if len(methods) <= 4 else f'{len(methods)} methods'} on {names}"
    parts.append(f"<h1>{escape(title)}</h1><p>{escape(_words(curves))}</p>")
    if len(groups) > 1:
        parts.append(f'<h2 class="first">All settings</h2>{_table(curves, baseline)}')
    for number, (setting, members) in enumerate(groups.items()):
        first = ' class="first"' if number == 0 and len(groups) == 1 else ""
        parts.append(f"<section><h2{first}>{escape(setting or 'Results')}</h2>")
        if len(groups) == 1:
            parts.append(_table(members, baseline))
        parts += _section(members, look, f"s{number}", figures)
        parts.append("</section>")
    parts.append("<h2>Configurations</h2>")
    for curve in curves:
        head = f"{curve.method}{', ' if curve.setting else ''}{curve.setting} — {curve.folder}"
        parts.append(f"<details><summary>{escape(head)}</summary><pre>{escape(curve.config.toml())}</pre></details>")
    template = resources.files("fedtier.reports").joinpath("page.html").read_text(encoding="utf-8")
    content = json.dumps(figures).replace("<", "\\u003c")
    filled = {"title": escape(title), "body": "\n".join(parts), "charts": content, "plotly": get_plotlyjs()}
    for key, value in filled.items():
        template = template.replace(f"@{key}@", value, 1)
    return template


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
    several = len({row["seed"] for curve in members for row in curve.rows}) > 1
    words = (BANDS if several else ONE_SEED) + _levels(members)
    parts = [f"<h3>Curves</h3><p>{escape(words)}</p>", _legend(members, look), '<div class="grid triple">']
    for measure in MEASURES:
        if not any(band(curve, "round", measure.path) for curve in members):
            continue
        for across in ACROSS:
            name = f"{prefix}-{measure.key}-{across.key}"
            figures[name] = charts.curve_chart(members, look, measure, across)
            parts.append(f'<div class="chart" id="{name}"></div>')
    parts.append("</div>")
    per_method = charts.MOST_POINTS // max(1, len(members))
    squares = [(curve, charts.client_chart(curve, look, per_method)) for curve in members]
    if any(chart for _, chart in squares):
        what = (
            "One point is one client of one seed, judged on its own held-back rows; above the diagonal its personal model wins."
        )
        alone = [curve.method for curve, chart in squares if chart is None and curve.finished]
        what += f" Not shown, for want of a global model or of held-back rows: {', '.join(alone)}." if alone else ""
        parts.append(f'<h3>Clients: personal against global model</h3><p>{escape(what)}</p><div class="grid">')
        for k, (_, chart) in enumerate(squares):
            if chart:
                figures[f"{prefix}-clients-{k}"] = chart
                parts.append(f'<div class="chart square" id="{prefix}-clients-{k}"></div>')
        parts.append("</div>")
    counts = next((curve.counts for curve in members if curve.counts), None)
    if counts:
        figures[f"{prefix}-partition"] = charts.partition_chart(counts)
        tall = min(720, max(220, 110 + 30 * len(counts.labels)))
        words = (
            f"Seed {counts.seed}. The area of a bubble is the number of rows; the test set has {counts.test.sum():,} rows more."
        )
        parts.append(f"<h3>Who has how many of which class</h3><p>{words}</p>")
        bubbles = len(counts.names) <= plots.BUBBLES_UP_TO
        least = 140 + 20 * (len(counts.names) + 1) if bubbles else 0  # narrower, labels would touch: it scrolls instead
        style = f"--tall: {tall}px; min-width: {least}px"
        parts.append(f'<div class="scroll"><div class="chart wide" style="{style}" id="{prefix}-partition"></div></div>')
    return parts


def _levels(members: list[Curve]) -> str:
    silent = [curve.method for curve in members if curve.rows[-1]["bytes_up"] + curve.rows[-1]["bytes_down"] == 0]
    return f" Dotted levels show where {' and '.join(silent)} ended, which sent nothing." if silent else ""


def _legend(members: list[Curve], look: dict[str, Look]) -> str:
    dash = {"solid": "", "dash": "6 3", "dot": "2 3", "dashdot": "6 3 2 3"}
    buttons = []
    for curve in members:
        mark = look[curve.method]
        line = (
            f'<line x1="0" y1="6" x2="26" y2="6" stroke="{mark.colour}" stroke-width="3" stroke-dasharray="{dash[mark.dash]}"/>'
        )
        name = escape(curve.method, quote=True)
        buttons.append(
            f'<button type="button" aria-pressed="true" data-method="{name}">'
            f'<svg width="26" height="12" aria-hidden="true">{line}</svg>{name}</button>'
        )
    return f'<div class="legend" aria-label="show or hide a method">{"".join(buttons)}</div>'


def _table(curves: Sequence[Curve], baseline: str | None) -> str:
    table = outcome(curves, baseline)
    return f"{tables.html(table)}<p>{escape(tables.note(table))}.</p>"


def _words(curves: Sequence[Curve]) -> str:
    seeds = sorted({row["seed"] for curve in curves for row in curve.rows})
    rounds = sorted({curve.config.run.rounds for curve in curves})
    clients = sorted({len(curve.counts.names) for curve in curves if curve.counts})
    parts = [f"{'/'.join(map(str, clients))} clients"] if clients else []
    parts += [f"{'/'.join(map(str, rounds))} rounds", f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}"]
    cut = [curve.method for curve in curves if not curve.finished]
    return ", ".join(parts) + (f". Not finished yet: {', '.join(cut)}." if cut else ".")
