"""What page and figures share: one colour, dash and marker per method, words and units of the axes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from ..experiments.comparison import DEFAULT_METHODS
from ..methods.registry import METHODS
from .load_runs import Curve, position

# Okabe and Ito's palette, which colour-blind readers tell apart, without its yellow (too pale on white), then two of Tol's.
PALETTE = ("#0072B2", "#D55E00", "#E69F00", "#009E73", "#4D4D4D", "#CC79A7", "#56B4E9", "#882255", "#999933")
DARK_PALETTE = ("#58A6FF", "#F0883E", "#F2C14E", "#2EC4A0", "#B6BEC8", "#E69AC8", "#9BD7FA", "#D8709F", "#CFCF6B")
INK, AXIS, GRID, PAPER, FAINT = "#1F2328", "#8C959F", "#E8EBEE", "#FFFFFF", "#B0B7BF"
FEW, SOME, MANY = "#F3F7FB", "#6BAED6", "#08306B"  # rows of a class: the fainter, the fewer
# The same places on a dark page. Pages replace one by the other, so no two light colours may be equal.
DARK = dict(zip(PALETTE, DARK_PALETTE, strict=True)) | {
    INK: "#E6EDF3", AXIS: "#7D8590", GRID: "#262D36", PAPER: "#0D1117", FAINT: "#4A525C",
    FEW: "#151C26", SOME: "#2F6FAE", MANY: "#C6E2FF",
}  # fmt: skip
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


class Look(NamedTuple):
    colour: str
    dash: str
    number: int  # for markers


class Measure(NamedTuple):
    key: str
    title: str
    axis: str
    path: tuple[str, ...]
    scale: float


class Across(NamedTuple):
    key: str
    words: str  # "against ..."
    axis: str


MEASURES = (
    Measure("loss", "Test loss", "mean over test rows", ("global_loss",), 1.0),
    Measure("global", "Global accuracy", "accuracy (%)", ("global_accuracy",), 100.0),
    Measure("personal", "Personal accuracy, mean over clients", "accuracy (%)", ("personal_accuracy", "mean"), 100.0),
    Measure("worst", "Personal accuracy, worst client", "accuracy (%)", ("personal_accuracy", "min"), 100.0),
    Measure("rmse", "Global error", "rmse (label's unit)", ("global_rmse",), 1.0),
    Measure("personal_rmse", "Personal error, mean over clients", "rmse (label's unit)", ("personal_rmse", "mean"), 1.0),
    Measure("worst_rmse", "Personal error, worst client", "rmse (label's unit)", ("personal_rmse", "max"), 1.0),
)
ACROSS = (
    Across("round", "rounds", "rounds"),
    Across("bytes", "bytes", "sent, up and down ({unit})"),
    Across("local_steps", "local steps", "local steps, all clients{unit}"),
    Across("virtual_seconds", "virtual time", "virtual seconds"),
)


def across_of(curves: Sequence[Curve]) -> tuple[Across, ...]:
    """What these curves may stand against: virtual time only where all of them have a clock."""
    clocked = all("virtual_seconds" in row for curve in curves for row in curve.rows)
    return ACROSS if clocked else tuple(across for across in ACROSS if across.key != "virtual_seconds")


def looks(curves: Sequence[Curve]) -> dict[str, Look]:
    """One look per method's label, the same everywhere: each method of the registry has a pair of colour and dash that no other
    has. Those that stand in a comparison by default come first, so that their colours differ; when the colours are used up
    they begin anew with another dash and marker. Further labels, variants for example, take the free looks."""
    known = {name: place for place, name in enumerate(dict.fromkeys([*DEFAULT_METHODS, *METHODS]))}
    labels = {curve.method: curve.name for curve in curves}
    first: dict[str, str] = {}
    for label, name in labels.items():
        first.setdefault(name, label)
    places = {label: known[name] for name, label in first.items() if name in known}
    taken = {_colour_and_dash(place) for place in places.values()}
    free = (place for place in count() if _colour_and_dash(place) not in taken or place >= len(PALETTE) * len(DASHES))
    for label in labels:
        if label not in places:
            places[label] = next(free)
    return {label: _look(places[label]) for label in labels}


def _colour_and_dash(place: int) -> tuple[str, str]:
    return PALETTE[place % len(PALETTE)], DASHES[place // len(PALETTE) % len(DASHES)]


def _look(place: int) -> Look:
    return Look(*_colour_and_dash(place), place + place // len(PALETTE))  # the same colour has another marker next time


class Unit(NamedTuple):
    divide: float
    axis: str
    log: bool


def unit(curves: Sequence[Curve], across: Across) -> Unit:
    """A unit that keeps the ticks short, and a logarithmic axis where methods end more than twenty-fold apart."""
    ends = [max(position(row, across.key) for row in curve.rows) for curve in curves]
    most, some = max(ends), [end for end in ends if end > 0]
    log = bool(some) and across.key != "round" and most > 20 * min(some)
    if across.key == "bytes":
        power = 0 if log else next((p for p in (3, 2, 1) if most >= 1000.0**p), 0)
        return Unit(1000.0**power, across.axis.format(unit=("bytes", "kB", "MB", "GB")[power]), log)
    thousands = across.key == "local_steps" and most >= 10_000 and not log
    return Unit(1000.0 if thousands else 1.0, across.axis.format(unit=" (thousands)" if thousands else ""), log)
