"""Figure 2: ZO-HFL with fewer and more local steps, H = ceil(tau sqrt(r + 1)), and what the paper says of them.

The paper has two sentences. More local steps make the loss fall faster, except where one client of few classes takes part
in a round; and there a larger mu, which holds the clients closer to x, mends it. Both are judged here by the test loss of the
global model, its mean over the evaluations of a run, in differences of the same seeds with their 95 % interval.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...experiments import comparison
from ...experiments.comparison import Comparison
from ...experiments.outcomes import Interval, interval
from ...reports.load_runs import Curve


class Key(NamedTuple):
    """One curve of the figure."""

    method: str  # the label of the table's row
    tau: float
    mu: float | None = None  # the larger one; None: the row's own


Variants = dict[Key, dict[str, Any]]  # the entry of [[methods]] for each curve


def variants(tables: dict[str, Any]) -> Variants:
    """What is drawn; a row itself where it has this tau already, so that the table's cell serves."""
    about, entries = tables["figure"], {entry["label"]: entry for entry in tables["methods"]}
    keys = [Key(label, float(tau)) for label in about["methods"] for tau in about["taus"]]
    keys += [Key(label, float(tau), about["mu"][label]) for label in about["methods"] for tau in _ends(about)]
    return {key: _entry(entries[key.method], key, tables["run"]["tau"]) for key in keys}


def _ends(about: dict[str, Any]) -> tuple[float, float]:
    return min(about["taus"]), max(about["taus"])


def _entry(entry: dict[str, Any], key: Key, usual: float) -> dict[str, Any]:
    if key.mu is None and key.tau == usual:
        return entry
    mu = "" if key.mu is None else f", mu = {key.mu:g}"
    return entry | {"label": f"{entry['label']}, tau = {key.tau:g}{mu}", "run": {"tau": key.tau}}


def comparison_tables(tables: dict[str, Any], drawn: Variants) -> dict[str, Any]:
    """The tables of a comparison of these entries: what is tuned for a row holds for its variants, but for tau and mu."""
    pairs = [(entry["label"], setting["label"]) for entry in drawn.values() for setting in tables["settings"]]
    tuned = [entry for entry in tables.get("tuned", []) if any(comparison.chosen(entry["where"], *pair) for pair in pairs)]
    tuned = [entry | {"run": {k: v for k, v in entry.get("run", {}).items() if k != "tau"}} for entry in tuned]
    tuned += [{"where": entry["label"], "proximity": key.mu} for key, entry in drawn.items() if key.mu is not None]
    first = next(iter(drawn.values()))["label"]  # a comparison has a baseline; nothing is compared with it here
    compare = tables["compare"] | {"baseline": first}
    return tables | {"methods": list(drawn.values()), "tuned": tuned, "compare": compare}


def shown(wanted: Comparison, drawn: Variants, about: dict[str, Any]) -> Comparison:
    """The larger mu is tried where the paper speaks of it, and where it is larger than what was tuned for the row."""
    larger = {entry["label"]: key for key, entry in drawn.items() if key.mu is not None}
    plain = {entry["label"]: key.method for key, entry in drawn.items() if key.mu is None}
    own = {(plain[c.method], c.setting): c.config.method.proximity for c in wanted.cells if c.method in plain}

    def fits(cell: comparison.Cell) -> bool:
        key = larger.get(cell.method)
        if key is None or key.mu is None:
            return True
        return comparison.chosen(about["extreme"], cell.method, cell.setting) and key.mu > own[key.method, cell.setting]

    return wanted._replace(cells=[cell for cell in wanted.cells if fits(cell)])


def sentences(curves: dict[Key, list[Curve]], about: dict[str, Any]) -> list[str]:
    """The two sentences of the paper, for each method in each setting."""
    few, many = _ends(about)
    found = []
    for method in about["methods"]:
        own = {tau: {curve.setting: curve for curve in curves[Key(method, float(tau))]} for tau in (few, many)}
        larger = {
            tau: {curve.setting: curve for curve in curves[Key(method, float(tau), about["mu"][method])]} for tau in (few, many)
        }
        for setting, curve in own[many].items():
            if setting in own[few]:
                change = difference(curve, own[few][setting])
                found.append(f"{method} on {setting}: tau = {many:g} instead of {few:g} changes the loss by {_words(change)}")
            if setting in larger[many] and setting in larger[few]:
                change, steps = (
                    difference(larger[many][setting], curve),
                    difference(larger[many][setting], larger[few][setting]),
                )
                found.append(
                    f"{method} on {setting}: at tau = {many:g} mu = {about['mu'][method]:g} changes it by {_words(change)}; "
                    f"with that mu tau = {many:g} instead of {few:g} by {_words(steps)}"
                )
            elif comparison.chosen(about["extreme"], method, setting):
                found.append(f"{method} on {setting}: no larger mu than the row's own was tried, or it diverged")
    return found


def difference(one: Curve, other: Curve) -> Interval:
    """The mean test loss over the evaluations of one run minus that of another, seed by seed."""
    ours, theirs = _losses(one), _losses(other)
    return interval(np.asarray([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]))


def _losses(curve: Curve) -> dict[int, float]:
    found: dict[int, list[float]] = {}
    for row in curve.rows:
        if row["round"] > 0:
            found.setdefault(row["seed"], []).append(float("nan") if row["global_loss"] is None else row["global_loss"])
    return {seed: float(np.mean(losses)) for seed, losses in found.items()}


def _words(change: Interval) -> str:
    if np.isnan(change.half) or abs(change.mean) <= change.half:
        return f"{change.mean:+.4f} ± {change.half:.4f}, not told apart"
    return f"{change.mean:+.4f} ± {change.half:.4f}, {'faster' if change.mean < 0 else 'slower'}"
