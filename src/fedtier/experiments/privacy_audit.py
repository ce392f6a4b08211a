"""The audit of a configuration: its own mechanism, cohorts and number of rounds, against what its statement claims."""

from __future__ import annotations

from ..errors import require
from ..privacy.accountant import epsilon_of
from ..privacy.audit import Audit, audit
from .assemble import Experiment
from .privacy_rules import cohorts_of, mechanism_of

LONGEST = 50  # rounds of an audited run: more of them prove no more, and thousands of runs are played


def audited(experiment: Experiment, runs: int, seed: int) -> Audit:
    """Plays the mechanism with a canary in and out, for all rounds or the first LONGEST, and bounds epsilon from below."""
    config = experiment.config
    rule = "is audited where clients are protected and the server adds the noise"
    fits = config.privacy.kind == "clients" and config.privacy.place == "central"
    require(fits, "--audit", f"{config.privacy.kind}, {config.privacy.place}", rule, 'privacy.place = "central"')
    mechanism, cohorts = mechanism_of(config, experiment.clients), cohorts_of(config, experiment.clients)
    rounds, delta = min(LONGEST, config.run.rounds), config.privacy.delta
    claimed = epsilon_of(mechanism.noise, rounds, cohorts, delta, config.privacy.accountant)
    return audit(mechanism, cohorts, rounds, delta, claimed, runs=runs, seed=seed)


def audit_words(found: Audit) -> str:
    """One line for a terminal."""
    said = "the claim stands" if found.holds else "THE CLAIM IS REFUTED"
    sure = f"{100 * found.confidence:g} % sure, {found.runs} runs with the canary and {found.runs} without"
    return f"audit: epsilon is at least {found.epsilon:.3g} ({sure}), claimed is {found.claimed:.3g}: {said}"
