"""[privacy] against the rest of a configuration: what is refused before any work, and what it means once data are known."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from ..errors import called, require
from ..federation import Plan
from ..federation.plan import cohort_size, growing_steps
from ..methods import registry
from ..methods.method import Method
from ..methods.private_rows import RowNoise
from ..methods.summed import sums_of
from ..privacy.accountant import Cohorts, chosen, epsilon_of, need_accountant, noise_for, rounds_within
from ..privacy.mechanism import Adaptive, Mechanism
from ..privacy.statement import Statement, rows_statement, statement_of

if TYPE_CHECKING:
    from .config import Config, PrivacyTable

NAMES = {key: f"privacy.{key}" for key in ("epsilon", "delta", "noise", "clip", "accountant", "privacy", "adaptive")}
FOR_CLIENTS = ("place", "adaptive", "quorum")
FOREIGN = "fedavg, fedprox, fedadam, zo_hfl"


def check_privacy(privacy: PrivacyTable, config: Config, method: Method) -> None:
    """Refuses keys that nothing would read, methods that send more than can be bounded, and budgets without meaning."""
    fields = type(privacy).model_fields
    for key in fields:
        idle = privacy.kind == "none" or (privacy.kind == "rows" and key in FOR_CLIENTS)
        given = getattr(privacy, key) != fields[key].default
        rule = f"is not read with privacy.kind = {privacy.kind!r}"
        require(key == "kind" or not idle or not given, f"privacy.{key}", getattr(privacy, key), rule, "leave it out")
    if privacy.kind == "none":
        return
    need_accountant()
    given = privacy.epsilon is not None or privacy.noise is not None
    require(given, "privacy.epsilon", None, "must be given, or privacy.noise", "privacy.epsilon = 8")
    require(method.buffer == 0, "method.name", method.name, "has no rounds that a budget could count", FOREIGN)
    require(config.attack.kind == "none", "attack.kind", config.attack.kind, "changes what was made private", "none")
    if privacy.kind == "rows":
        _check_rows(config, method)
    else:
        with called({"privacy": "privacy.place"}):
            sums_of(method, "privacy", privacy.place)
        _check_quorum(privacy, config)
    natural = config.data.partition == "natural" or config.data.new_clients
    if not natural:
        check_clients(config, config.data.clients)


def _check_rows(config: Config, method: Method) -> None:
    """Row-level noise is in gradients: whatever else is computed from rows and sent would go around it."""
    require(method.foreign, "method.name", method.name, "sends more than what a solve by gradients ends at", FOREIGN)
    options, rule = config.method.options, "looks at rows without noise"
    require(not options.get("bounded"), "method.bounded", True, rule, "bounded = false")
    require(options.get("estimator") != "exact", "method.estimator", "exact", rule, "another estimator")
    require(config.method.solver is None, "method.local", "a black box", rule, "our local steps")
    require(not config.data.augment, "data.augment", True, "is not there with privacy.kind = 'rows'", "leave it out")
    epochs, rule = config.run.epochs, "is not there with privacy.kind = 'rows': a budget counts steps"
    require(epochs is None, "run.epochs", epochs, rule, "set run.local_steps")


def _check_quorum(privacy: PrivacyTable, config: Config) -> None:
    distributed = privacy.place == "distributed"
    require(distributed or privacy.quorum == 1, "privacy.quorum", privacy.quorum, "is for distributed noise", "leave it out")
    rule = f"run.dropouts = {config.run.dropouts}: too many rounds would have too little noise"
    require(not distributed or privacy.quorum <= 1 - config.run.dropouts, "privacy.quorum", privacy.quorum, rule, "lower it")


def check_clients(config: Config, clients: int) -> None:
    """What depends on how many clients there are."""
    privacy = config.privacy
    fits = privacy.kind == "rows" or privacy.delta < 1 / clients
    rule = f"must be below 1/clients = {1 / clients:.3g}: else to publish one client whole would be within it"
    require(fits, "privacy.delta", privacy.delta, rule, f"{0.1 / clients:.0e}")
    if privacy.kind == "clients":
        with called(NAMES):
            chosen(privacy.accountant, cohorts_of(config, clients))


def cohorts_of(config: Config, clients: int) -> Cohorts:
    """How the run draws its cohorts, for the accountant."""
    size = cohort_size(config.run.participation, clients)
    return Cohorts("all" if size == clients and config.run.order != "poisson" else config.run.order, clients, size)


def budgeted(config: Config, clients: int, sizes: np.ndarray | None = None) -> Config:
    """The configuration with the noise that its budget asks for, and no more rounds than the budget pays for. What a run has
    written down reads back as itself: to go on cannot overspend. `sizes` are the clients' rows, for privacy of rows."""
    privacy, run = config.privacy, config.run
    if privacy.kind == "none" or run.rounds == 0:
        return config
    check_clients(config, clients)
    with called(NAMES):
        found = _Budget(config, clients, sizes)
        noise = found.noise() if privacy.noise is None else privacy.noise
        rounds = run.rounds if privacy.epsilon is None or privacy.noise is None else found.rounds(noise)
    rule = f"is spent in the first round with privacy.noise = {noise:.4g}"
    require(rounds > 0, "privacy.epsilon", privacy.epsilon, rule, "raise it, or the noise")
    found_now = {"noise": noise, "calibrated": privacy.calibrated or privacy.noise is None}
    table, runs = privacy.model_copy(update=found_now), run.model_copy(update={"rounds": rounds})
    return config.model_copy(update={"privacy": table, "run": runs})


class _Budget:
    """The accountant of a configuration: of its cohorts, or of the rows of its worst client."""

    def __init__(self, config: Config, clients: int, sizes: np.ndarray | None) -> None:
        self.config, self.privacy = config, config.privacy
        self.cohorts, self.per_round = cohorts_of(config, clients), None
        if self.privacy.kind == "rows":
            require(sizes is not None, "privacy.kind", "rows", "needs to know how many rows each client has")
            assert sizes is not None
            self.cohorts = row_cohorts(config, int(np.min(sizes)))
        elif self.privacy.place != "central":
            self.cohorts = Cohorts("all", clients, clients)  # no secret cohorts against a server that asks

    def times(self, rounds: int) -> int:
        return row_steps(self.config, rounds) if self.privacy.kind == "rows" else rounds

    def noise(self) -> float:
        assert self.privacy.epsilon is not None
        rounds = self.times(self.config.run.rounds)
        found = noise_for(self.privacy.epsilon, rounds, self.cohorts, self.privacy.delta, self.privacy.accountant)
        return math.ceil(found * 1e4) / 1e4

    def rounds(self, noise: float) -> int:
        budget, delta, by = self.privacy.epsilon, self.privacy.delta, self.privacy.accountant
        assert budget is not None
        most = self.config.run.rounds
        if self.privacy.kind == "clients":
            return rounds_within(budget, noise, self.cohorts, delta, most, by)
        steps = rounds_within(budget, noise, self.cohorts, delta, self.times(most), by)
        return max((r for r in range(most + 1) if self.times(r) <= steps), default=0)


def row_cohorts(config: Config, rows: int) -> Cohorts:
    """A minibatch as a cohort of rows: each by its own coin."""
    return Cohorts("poisson", rows, min(rows, int(config.method.options.get("batch", 32))))


def row_steps(config: Config, rounds: int) -> int:
    """The most noisy gradients that any client makes in so many rounds, if it is asked in each."""
    run = config.run
    taus = np.max(np.asarray(run.tau, float))
    steps = growing_steps(taus, rounds) if run.local_steps is None else np.full(rounds, run.local_steps)
    return int(np.sum(steps)) * registry.sketch(config.method.entry, config.method.options).solves


def mechanism_of(config: Config, clients: int) -> Mechanism:
    """What is done to replies, of a configuration that has its noise."""
    privacy, cohorts = config.privacy, cohorts_of(config, clients)
    assert privacy.noise is not None
    adaptive = None if privacy.adaptive is None else Adaptive(privacy.adaptive)
    quorum = max(1, math.floor(privacy.quorum * cohorts.size))
    return Mechanism(privacy.place, privacy.clip, privacy.noise, float(cohorts.size), quorum, adaptive)


def row_noise_of(config: Config, sizes: np.ndarray) -> RowNoise:
    privacy = config.privacy
    assert privacy.noise is not None
    return RowNoise(privacy.clip, privacy.noise, int(np.max(sizes)))


def epsilon_after(config: Config, clients: int, sizes: np.ndarray | None, rounds: int) -> float:
    """What is spent after so many rounds, against those who see the models. Before the last round by the quicker accountant,
    which never says too little, and never more than what all rounds will have spent."""
    budget, privacy = _Budget(config, clients, sizes), config.privacy

    def spent(rounds: int, by: str) -> float:
        return _epsilon(privacy.noise, budget.times(rounds), budget.cohorts, privacy.delta, by)

    at_the_end = spent(config.run.rounds, privacy.accountant)
    return at_the_end if rounds == config.run.rounds else min(at_the_end, spent(rounds, "rdp"))


_epsilon = functools.lru_cache(maxsize=256)(epsilon_of)


def _seats(plan: Plan) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each seed: who sits where, and whose reply counts."""
    return list(zip(plan.ids, plan.arrived, strict=True))


def statement(config: Config, clients: int, sends: str, plan: Plan | None, sizes: np.ndarray | None) -> Statement:
    """The page of a configuration that has its noise."""
    privacy, run = config.privacy, config.run
    if privacy.kind == "rows":
        assert sizes is not None and privacy.noise is not None
        budget = _Budget(config, clients, sizes)
        steps = row_steps(config, run.rounds)
        return rows_statement(privacy.noise, privacy.clip, steps, budget.cohorts, privacy.delta, run.rounds, privacy.accountant)
    cohorts = cohorts_of(config, clients)
    asked = None if plan is None else max(int(np.bincount(one.ravel()[come.ravel()]).max()) for one, come in _seats(plan))
    mechanism = mechanism_of(config, clients)
    return statement_of(mechanism, cohorts, run.rounds, privacy.delta, sends=sends, asked=asked, by=privacy.accountant)
