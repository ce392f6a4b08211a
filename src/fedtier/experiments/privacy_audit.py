"""The audit of a configuration: its own mechanism, cohorts and number of rounds, against what its statement claims."""

from __future__ import annotations

from ..privacy.accountant import Cohorts, epsilon_of
from ..privacy.audit import Audit, audit
from ..privacy.audit_rows import audit_rows
from .assemble import Experiment
from .budgets import Budget, cohorts_of, row_steps
from .privacy_rules import mechanism_of, row_noise_of

LONGEST = 50  # rounds of an audited run: more of them prove no more, and thousands of runs are played
COINS = 2 * 10**8  # that are thrown for canary rows: some seconds


def audited(experiment: Experiment, runs: int, seed: int) -> Audit:
    """Plays the mechanism with a canary in and out, for as many rounds as take seconds, and bounds epsilon from below."""
    return (_rows if experiment.config.privacy.kind == "rows" else _clients)(experiment, runs, seed)


def _clients(experiment: Experiment, runs: int, seed: int) -> Audit:
    """Where clients add the noise, the cohort is the smallest that is used and sits in every round: the worst there is."""
    config = experiment.config
    mechanism, cohorts = mechanism_of(config, experiment.clients), cohorts_of(config, experiment.clients)
    if mechanism.place != "central":
        size = mechanism.quorum if mechanism.place == "distributed" else 1
        cohorts = Cohorts("all", size, size)
    rounds, delta = min(LONGEST, config.run.rounds), config.privacy.delta
    claimed = epsilon_of(mechanism.noise, rounds, cohorts, delta, config.privacy.accountant)
    return audit(mechanism, cohorts, rounds, delta, claimed, runs=runs, seed=seed)


def _rows(experiment: Experiment, runs: int, seed: int) -> Audit:
    """A canary among the fewest rows, and among the most; of the two audits the one that comes nearer to its claim."""
    config, sizes = experiment.config, experiment.sizes
    assert sizes is not None
    privacy, how, budget = config.privacy, row_noise_of(config, sizes), Budget(config, experiment.clients, sizes)
    steps = max(1, min(row_steps(config, config.run.rounds), COINS // (2 * runs * how.most)))
    batch, noises, found = int(config.method.options.get("batch", 32)), budget.noises, []
    for key in {min(noises), max(noises)}:
        claimed = epsilon_of(noises[key], steps, budget.cohorts[key], privacy.delta, privacy.accountant)
        claim = (budget.cohorts[key], noises[key], steps, privacy.delta, claimed)
        found.append(audit_rows(how, batch, *claim, runs=runs, seed=seed))
    return max(found, key=lambda one: one.epsilon - one.claimed)


def audit_words(found: Audit) -> str:
    """One line for a terminal."""
    said = "the claim stands" if found.holds else "THE CLAIM IS REFUTED"
    sure = f"{100 * found.confidence:g} % sure, {found.runs} runs with {found.what} and {found.runs} without"
    return f"audit: epsilon is at least {found.epsilon:.3g} ({sure}), claimed is {found.claimed:.3g}: {said}"
