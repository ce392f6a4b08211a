"""Figure 2: ZO-HFL with fewer and more local steps, H = ceil(tau sqrt(r + 1)), and what the paper says of them.

The paper has two sentences. More local steps make the loss fall faster, except where one client of few classes takes part
in a round; and there a larger mu, which holds the clients closer to x, mends it. Both are judged here by the test loss of the
global model, its mean over the evaluations of a run, in differences of the same seeds with their 95 % interval.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...experiments import comparison
from ...experiments.comparison import Cell, Comparison
from ...experiments.outcomes import Interval, interval
from ...reports.load_runs import Curve


class Key(NamedTuple):
    """One curve of the figure."""

    method: str  # the label of the table's row
    tau: float
    larger: bool = False  # with a larger mu than the row's own


Variants = dict[Key, dict[str, Any]]  # the entry of [[methods]] for each curve


def data_set(setting: str) -> str:
    """The data set of a setting's label, which begins with it."""
    return setting.partition(" ")[0]


def variants(tables: dict[str, Any]) -> Variants:
    """What is drawn; a row itself where it has this tau already, so that the table's cell serves."""
    about, entries = tables["figure"], {entry["label"]: entry for entry in tables["methods"]}
    keys = [Key(label, float(tau)) for label in about["methods"] for tau in about["taus"]]
    keys += [Key(label, float(tau), larger=True) for label in about["methods"] for tau in _ends(about)]
    return {key: _entry(entries[key.method], key, tables["run"]["tau"]) for key in keys}


def _ends(about: dict[str, Any]) -> tuple[float, float]:
    return min(about["taus"]), max(about["taus"])


def _entry(entry: dict[str, Any], key: Key, usual: float) -> dict[str, Any]:
    if key.tau == usual and not key.larger:
        return entry
    return entry | {"label": f"{entry['label']}, tau = {key.tau:g}{', larger mu' * key.larger}", "run": {"tau": key.tau}}


def comparison_tables(tables: dict[str, Any], drawn: Variants) -> dict[str, Any]:
    """The tables of a comparison of these entries: what is tuned for a row holds for its variants, but for tau."""
    pairs = [(entry["label"], setting["label"]) for entry in drawn.values() for setting in tables["settings"]]
    tuned = [entry for entry in tables.get("tuned", []) if any(comparison.chosen(entry["where"], *pair) for pair in pairs)]
    tuned = [entry | {"run": {k: v for k, v in entry.get("run", {}).items() if k != "tau"}} for entry in tuned]
    first = next(iter(drawn.values()))["label"]  # a comparison has a baseline; nothing is compared with it here
    compare = tables["compare"] | {"baseline": first}
    return tables | {"methods": list(drawn.values()), "tuned": tuned, "compare": compare}


def shown(wanted: Comparison, drawn: Variants, about: dict[str, Any]) -> Comparison:
    """The larger mu, `larger_mu` times the row's own, is tried in the setting of which the paper says it."""
    larger = {entry["label"] for key, entry in drawn.items() if key.larger}
    plain = [cell for cell in wanted.cells if cell.method not in larger]
    others = [cell for cell in wanted.cells if cell.method in larger]
    extreme = [cell for cell in others if comparison.chosen(about["extreme"], cell.method, cell.setting)]
    return wanted._replace(cells=plain + [_with_larger_mu(cell, about["larger_mu"]) for cell in extreme])


def _with_larger_mu(cell: Cell, times: float) -> Cell:
    method = cell.config.method
    config = cell.config.model_copy(update={"method": method.model_copy(update={"proximity": times * method.proximity})})
    return cell._replace(config=config, folder=cell.folder.parent / comparison.cell_name(config))


def sentences(curves: dict[Key, list[Curve]], about: dict[str, Any]) -> list[str]:
    """The two sentences of the paper, for each method in each setting, of runs that were not cut."""
    few, many = _ends(about)
    found = []
    for method in about["methods"]:
        own, larger = (
            {
                tau: {curve.setting: curve for curve in curves[Key(method, float(tau), more)] if curve.finished}
                for tau in (few, many)
            }
            for more in (False, True)
        )
        for setting, curve in own[many].items():
            if setting in own[few]:
                change = _words(curve, own[few][setting])
                found.append(f"{method} on {setting}: tau = {many:g} instead of {few:g} changes the loss by {change}")
            if setting in larger[many] and setting in larger[few]:
                change, steps = _words(larger[many][setting], curve), _words(larger[many][setting], larger[few][setting])
                found.append(
                    f"{method} on {setting}: at tau = {many:g} {about['larger_mu']:g} times mu changes it by {change}; "
                    f"with that mu tau = {many:g} instead of {few:g} by {steps}"
                )
            elif comparison.chosen(about["extreme"], method, setting):
                found.append(f"{method} on {setting}: with a larger mu not all runs are there, or one diverged")
    return found


def difference(one: Curve, other: Curve) -> Interval | None:
    """The mean test loss over the evaluations of one run minus that of another, seed by seed; None: no seed ended both."""
    ours, theirs = _losses(one), _losses(other)
    both = sorted(ours.keys() & theirs.keys())
    return interval(np.asarray([ours[seed] - theirs[seed] for seed in both])) if both else None


def _losses(curve: Curve) -> dict[int, float]:
    """Of the seeds that have reached the last round."""
    last = max(row["round"] for row in curve.rows)
    ended = {row["seed"] for row in curve.rows if row["round"] == last}
    found: dict[int, list[float]] = {seed: [] for seed in sorted(ended)}
    for row in curve.rows:
        if row["round"] > 0 and row["seed"] in ended:
            found[row["seed"]].append(float("nan") if row["global_loss"] is None else row["global_loss"])
    return {seed: float(np.mean(losses)) for seed, losses in found.items()}


def _words(one: Curve, other: Curve) -> str:
    change, lost = difference(one, other), [_diverged(curve) for curve in (other, one)]
    before = f" ({lost[0]} diverged before, {lost[1]} after)" if any(lost) else ""
    if change is None:
        return f"an unknown amount: no seed ended both{before}"
    if np.isnan(change.half):
        return f"{change.mean:+.4f} in one seed, which tells nothing of others{before}"
    verdict = "not told apart" if abs(change.mean) <= change.half else "faster" if change.mean < 0 else "slower"
    return f"{change.mean:+.4f} ± {change.half:.4f}, {verdict}{before}"


def _diverged(curve: Curve) -> int:
    """Seeds that did not reach the last round."""
    return len({row["seed"] for row in curve.rows}) - len(_losses(curve))
