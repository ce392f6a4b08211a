"""What the theorems ask for, and whether a configuration grants it."""

from __future__ import annotations

from typing import NamedTuple

from ...experiments.assemble import Experiment
from ...federation import cohort_size
from ...problem.sets import ConstraintSet
from ...theory.numbers import Number
from .read import Setting


class Assumption(NamedTuple):
    name: str
    holds: bool | None  # None: only estimated, or not known
    why: str


def assumptions(experiment: Experiment, s: Setting) -> list[Assumption]:
    """One line each, in the order in which the proofs use them."""
    L1, strong = s.constants.L1, min((c.mu_h for c in s.constants.clients), key=float)
    return [
        Assumption("f2 is Lipschitz", s.mended is None, _coupling(experiment, s)),
        Assumption("grad f1 is Lipschitz", _known(L1), L1.note or f"L1 = {L1.value:.4g}"),
        Assumption("h is strongly convex in y", _known(strong), strong.note or f"mu_h = {strong.value:.4g}"),
        Assumption("draws are unbiased, variance bounded", True, "minibatches are drawn with replacement, cohorts uniformly"),
        _set(experiment.problem.Y),
        _algorithm(experiment, s),
        _stragglers(experiment.config.run.stragglers),
        _dropouts(experiment.config.run.dropouts, cohort_size(experiment.config.run.participation, experiment.clients)),
    ]


def _coupling(experiment: Experiment, s: Setting) -> str:
    if experiment.config.method.penalty == 0:
        return "f2 is 0"
    if s.mended is None:
        return "inside the ball of each client's radius (28)"
    words = (
        f"penalty/2 |x - y|^2 is not, on all of space; method.radius = {s.mended:.4g} mends it, and the numbers below assume it"
    )
    inside = experiment.model is not None and experiment.model.name == "softmax" and s.constants.clients[0].mu_h.value > 0
    return words + ("; no exact solution leaves that ball (26)" if inside else "")


def _set(Y: ConstraintSet) -> Assumption:
    known = Y.dependence != "unknown"
    words = "equations (3) to (5)" if known else "it does not say how it depends on x, so how fast y_i(x) moves is unknown"
    return Assumption("Y_i(x) is fixed, or x + a fixed set", True if known else None, f"{Y.name}: {words}")


PLAIN = {
    "estimator": ("sphere", "orthogonal"), "mix": (0,), "control": (False,), "remembered": (0,), "server_step": ("sgd",),
    "server_steps": (1,), "averaging": (0,), "trust": (0,), "fading": (False,), "spread": (0,), "bounded": (False,),
}  # fmt: skip  # the options of zo_hfl, as far as the proofs reach


def _algorithm(experiment: Experiment, s: Setting) -> Assumption:
    name = experiment.config.method.name
    other = [] if experiment.config.method.entry.family == "two levels" else [f"the method is {name}"]
    other += [f"{key} = {s.options[key]}" for key, values in PLAIN.items() if s.options[key] not in values]
    words = f"{', '.join(other)}: no theorem covers it" if other else "zo_hfl, one plain step a round"
    return Assumption("the method is Algorithm 1", not other, words)


def _stragglers(share: float) -> Assumption:
    words = "a straggler answers from its start: its error never falls" if share else "no stragglers"
    return Assumption("every client that is asked solves", share == 0, words)


def _dropouts(share: float, cohort: int) -> Assumption:
    words = (
        f"all {cohort} replies are lost with chance {share**cohort:.2g}, and such a round follows f1 alone"
        if share
        else "no drop-outs"
    )
    return Assumption("some reply arrives in every round", share == 0, words)


def _known(number: Number) -> bool | None:
    return {"absent": False, "estimate": None}.get(number.label, True)
