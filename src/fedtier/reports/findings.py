"""What a comparison found and how sure it is, in words: for the top of a page, the end of a table, the demo.

A method is certainly best in a metric when its paired 95 % interval against every other method excludes 0: each of these
must hold, so picking the best afterwards does not make the statement weaker than 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..experiments.comparison import METRICS
from ..experiments.metric_row import Row
from ..experiments.outcomes import Interval, Outcome, interval, paired, resampling_ratio, score, values
from ..own_code.held import PREFIX
from .load_runs import Curve

PLACES = {
    "global": "in global accuracy", "personal": "in personal accuracy, mean over clients,",
    "personal_by_rows": "in personal accuracy, by rows,",
    "worst": "at the worst client", "rmse": "in the global model's error", "personal_rmse": "in the personal models' error",
    "worst_rmse": "in the worst client's error",
}  # fmt: skip
ASIDE = {"loss", "f", "mae", "r2"}  # no contest where there is another metric
CORRECTED = "corrected for seeds that split the same rows anew: s^2 (1/n + n_test/n_train), Nadeau and Bengio 2003"
FALLEN, GROWN = 1.0, 1.05  # points of accuracy, and times the loss, by which a model is clearly past its best
PLAIN = "all seeds are judged on the same rows"


class Lead(NamedTuple):
    """Who has the best mean in a metric, and against whom that is certain."""

    metric: str
    setting: str
    method: str
    score: Interval
    other: str  # the strongest other method; empty when there is none
    margin: Interval  # over it, counted so that more is better
    unsure: tuple[str, ...]  # the other methods whose paired interval does not exclude 0
    tied: tuple[str, ...] = ()  # those of them whose mean is the same

    @property
    def certain(self) -> bool:
        return bool(self.other) and not self.unsure


def lower_is_better(metric: str) -> bool:
    """Of losses and errors; not of R2, which is no percentage either."""
    return not METRICS[metric].percent and not METRICS[metric].path[-1].endswith("r2")


def gain(outcome: Outcome, method: str, setting: str, metric: str, other: str) -> Interval:
    """The paired difference of `method` to `other`, counted so that more is better."""
    found = paired(outcome, method, setting, metric, other)
    return Interval(-found.mean, found.half) if lower_is_better(metric) else found


def lead(outcome: Outcome, metric: str, setting: str) -> Lead | None:
    """The best mean of a metric in a setting; None where nobody has one."""
    means = {}
    for (method, its), rows in outcome.finals.items():
        known = values(rows, metric)
        if its == setting and len(known) and not math.isnan(known.mean()):
            means[method] = -known.mean() if lower_is_better(metric) else known.mean()
    if not means:
        return None
    best, *others = sorted(means, key=lambda method: -means[method])
    gains = {other: gain(outcome, best, setting, metric, other) for other in others}
    unsure = tuple(other for other in others if not (gains[other].mean > 0 and gains[other].excludes_zero()))
    nothing = Interval(math.nan, math.nan)
    margin, other = (gains[others[0]], others[0]) if others else (nothing, "")
    tied = tuple(name for name in others if math.isclose(means[name], means[best], rel_tol=1e-9))
    return Lead(metric, setting, best, score(outcome, best, setting, metric), other, margin, unsure, tied)


def leads(outcome: Outcome) -> list[Lead]:
    """One for each setting and metric; a loss counts only where there is no accuracy and no error, and of the two means over
    clients the one by rows, wherever it is known, whichever of them a table shows."""
    metrics = [m for m in outcome.comparison.metrics if m not in ASIDE] or [*outcome.comparison.metrics]
    by_rows = "personal_by_rows" if _known_by_rows(outcome) else "personal"
    metrics = dict.fromkeys(by_rows if m == "personal" else m for m in metrics)
    settings = dict.fromkeys(setting for _, setting in outcome.finals)
    found = [lead(outcome, metric, setting) for metric in metrics for setting in settings]
    return [one for one in found if one is not None]


def _known_by_rows(outcome: Outcome) -> bool:
    """Whether every run that has a mean over clients has the one by rows; between sites there is none."""
    finals = [rows for rows in outcome.finals.values() if rows]
    both = [(values(rows, "personal"), values(rows, "personal_by_rows")) for rows in finals]
    counted = [by_rows for once, by_rows in both if not any(map(math.isnan, once))]
    return bool(counted) and not any(math.isnan(value) for by_rows in counted for value in by_rows)


def sentence(outcome: Outcome) -> str:
    """One sentence: which method is best in what, against the strongest other one, and how sure that is."""
    found = leads(outcome)
    if not found:
        return "No run has got to its end yet."
    if len({one.setting for one in found}) > 1:
        return over_settings(found)
    if not found[0].other:
        return ""
    if all(math.isnan(one.margin.half) for one in found):
        ahead = joined([f"{_ahead(one)} {place(one.metric)}".rstrip(",") for one in found])
        return f"{ahead}: one seed, so nothing is certain."
    sure = [f"{place(one.metric)} {one.method} is certainly best ({against(one)})" for one in found if one.certain]
    open_ones = [f"{place(one.metric).rstrip(',')} ({one.method} {against(one)})" for one in found if not one.certain]
    if open_ones:
        none = "none is certainly best" if sure else "no method is certainly best"
        sure.append(f"{none} {joined(open_ones, 'or')}")
    whole = "; ".join(sure)
    return whole[0].upper() + whole[1:] + "."


def reached(curve: Curve) -> str:
    """What a run got to, where there is nothing to compare it with."""
    final = curve.final()
    where = f" ({curve.setting})" if curve.setting else ""
    if not final:
        end = f"diverged: {curve.diverged}" if curve.diverged else "is not finished"
        last = f"round {curve.rows[-1]['round']} of {curve.config.run.rounds}"
        return f"{curve.method}{where} {end}; it was last judged after {last}."
    by_rows = any(not math.isnan(value) for value in values(final, "personal_by_rows"))
    words = {
        "global": "on the test rows", "personal_by_rows" if by_rows else "personal": "with the clients' personal models",
        "worst": "at the worst client", "rmse": "(rmse) on the test rows",
        "personal_rmse": "with the clients' personal models", "worst_rmse": "at the worst client", "loss": "",
    }  # fmt: skip
    found = {metric: interval(values(final, metric), resampling_ratio(curve.config, metric)) for metric in words}
    known = [metric for metric in words if not math.isnan(found[metric].mean)]
    shown = [metric for metric in known if metric not in ASIDE] or known
    parts = [f"{amount(found[metric], metric)} {words[metric]}".rstrip() for metric in shown]
    what = "" if METRICS[shown[0]].percent else "an error of " if shown[0] not in ASIDE else "a test loss of "
    sure = f"95 % intervals over {len(final)} seeds" if len(final) > 1 else "one seed, so how sure this is cannot be said"
    return f"{curve.method} on {curve.config.data.title}{where} reached {what}{joined(parts)} ({sure})."


class Late(NamedTuple):
    """A global model that was clearly better at an earlier evaluation."""

    round: int
    how: str  # much better
    search: str  # the command that chooses the rounds without the test rows; empty where none can

    @property
    def advice(self) -> str:
        return "fewer rounds would do" if self.round else "it learnt nothing that helps there; try smaller steps"


def past_best(curve: Curve) -> Late | None:
    """When the global model was at its best on the test rows; None where it is not clearly past that at the end."""
    last, seeds = curve.config.run.rounds, {row["seed"] for row in curve.final()}

    def means(metric: str) -> dict[int, float]:
        by_round: dict[int, list[Row]] = {}
        for row in curve.rows:
            if row["seed"] in seeds:
                by_round.setdefault(row["round"], []).append(row)
        return {number: float(values(rows, metric).mean()) for number, rows in by_round.items()}

    score, loss = (means("rmse"), means("rmse")) if curve.errors else (means("global"), means("loss"))
    if not score:
        return None
    best = min(score, key=lambda number: score[number] if curve.errors else -score[number])
    fallen = curve.errors or score[best] - score[last] >= FALLEN
    if not (fallen and loss[last] > GROWN * loss[best]):
        return None
    above = f"{score[best]:.1f} %, {score[best] - score[last]:.1f} points above the last"
    how = f"rmse {score[best]:.3g}, {score[last]:.3g} at the end" if curve.errors else above
    tried = ",".join(str(number) for number in sorted({max(1, best // 2), best, last}))
    search = f"fedtier search {curve.folder / 'config.toml'} --set data.validation_share=0.1 --over run.rounds={tried}"
    elsewhere = (curve.folder / "wire.json").exists() or f'"{PREFIX}' in curve.config.toml()  # at sites, or in a program
    return Late(best, how, "" if elsewhere or best == 0 else search)


def over_settings(found: Sequence[Lead]) -> str:
    """One clause per metric: in how many settings each method is ahead, and in how many of these certainly."""
    clauses = []
    for metric in dict.fromkeys(one.metric for one in found):
        here = [one for one in found if one.metric == metric]
        names = {one.setting: joined((one.method, *one.tied)) for one in here}
        by_name = {name: [one for one in here if names[one.setting] == name] for name in dict.fromkeys(names.values())}
        ordered = sorted(by_name.items(), key=lambda entry: -len(entry[1]))
        parts = [_led(name, ones) for name, ones in ordered]
        clauses.append(f"{place(metric)} {joined(parts)}")
    return f"Of {len({one.setting for one in found})} settings: {'; '.join(clauses)}."


def _led(name: str, ones: Sequence[Lead]) -> str:
    if ones[0].tied:
        return f"{name} are level in {len(ones)}"
    return f"{name} leads in {len(ones)} (certainly in {sum(one.certain for one in ones) or 'none'})"


def against(one: Lead) -> str:
    """`95.9 %, 0.7 ± 0.8 points above server only`: the strongest other method, then those that are no clearer."""
    value, side = one.score._replace(half=math.nan), "below" if lower_is_better(one.metric) else "above"
    if one.tied:
        return f"{amount(value, one.metric)}, level with {joined(one.tied)}"
    words = f"{amount(value, one.metric)}, {apart(one)} {side} {one.other}"
    others = [other for other in one.unsure if other != one.other]
    return words + (f", not certain against {joined(others)}" if others and one.other not in one.unsure else "")


def _ahead(one: Lead) -> str:
    if one.tied:
        return f"{one.method} is level with {joined(one.tied)}"
    return f"{one.method} is ahead of {one.other} by {apart(one)}"


def apart(one: Lead) -> str:
    """`0.7 ± 0.8 points`."""
    digits = _digits(one.margin, one.metric)
    half = "" if math.isnan(one.margin.half) else f" ± {one.margin.half:.{digits}f}"
    return f"{one.margin.mean:.{digits}f}{half}" + (" points" if METRICS[one.metric].percent else "")


def amount(value: Interval, metric: str) -> str:
    """`95.9 ± 0.7 %`, without the half-width where there is none."""
    digits = _digits(value, metric)
    half = "" if math.isnan(value.half) else f" ± {value.half:.{digits}f}"
    return f"{value.mean:.{digits}f}{half}" + (" %" if METRICS[metric].percent else "")


def place(metric: str) -> str:
    return PLACES.get(metric, f"in {METRICS[metric].heading.removesuffix(' %')}")


def how_intervals(outcome: Outcome) -> str:
    """Which interval it is, for a caption; by metric where they differ."""
    seeds = sorted({len(rows) for rows in outcome.finals.values() if rows})
    if not seeds or seeds[-1] < 2:
        return "values of one seed, hence no intervals"
    metrics, cells = outcome.comparison.metrics, outcome.comparison.cells
    redrawn = [m for m in metrics if any(resampling_ratio(cell.config, m) > 0 for cell in cells)]
    count = "/".join(map(str, seeds))
    head = f"mean ± half-width of the 95 % interval over {count} seeds, Student's t"
    if len(redrawn) == len(metrics):
        return f"{head}, {CORRECTED}"
    if not redrawn:
        return f"{head}; {PLAIN}"
    names = joined([METRICS[m].heading for m in redrawn])
    return f"{head}; of {names} {CORRECTED}; of the others plain: {PLAIN}"


def joined(parts: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}" if parts else ""


def _digits(value: Interval, metric: str) -> int:
    """One for a percentage, or as many as its half-width needs to show a digit; of other numbers, three that count."""
    known = not math.isnan(value.half) and value.half > 0
    if METRICS[metric].percent:
        return min(4, max(1, math.ceil(-math.log10(value.half)))) if known else 1
    smallest = value.half if known else abs(value.mean) / 10
    return min(6, max(0, math.ceil(-math.log10(smallest)) + 2)) if smallest else 4
