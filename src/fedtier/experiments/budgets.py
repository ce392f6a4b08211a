"""What a configuration may spend: the noise that its epsilon asks for, and the rounds that noise and epsilon pay for.

Under privacy of rows each client has its own noise: a client with fewer rows draws each of them more often, B/N_i, and needs
more. Clients whose numbers of rows are close share the noise of the one with the fewest, so that at most GROUPS are found.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from ..errors import called, require
from ..federation.plan import cohort_size, growing_steps
from ..methods import registry
from ..privacy.accountant import Cohorts, chosen, epsilon_of, noise_for, rounds_within

if TYPE_CHECKING:
    from .tables import Config

NAMES = {key: f"privacy.{key}" for key in ("epsilon", "delta", "noise", "clip", "accountant", "privacy", "adaptive")}
GROUPS = 12  # of clients with a noise of their own
EVERYBODY = 0  # the key of a noise that does not depend on rows
_epsilon = functools.lru_cache(maxsize=1024)(epsilon_of)


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


def row_cohorts(config: Config, rows: int) -> Cohorts:
    """A minibatch as a cohort of rows: each by its own coin."""
    return Cohorts("poisson", rows, min(rows, int(config.method.options.get("batch", 32))))


def most_steps(config: Config, rounds: int) -> Int[np.ndarray, "R"]:
    """Local steps of the client that makes most, in each of so many rounds."""
    run = config.run
    return growing_steps(most_tau(config), rounds) if run.local_steps is None else np.full(rounds, run.local_steps)


def most_tau(config: Config) -> float:
    return float(np.max(np.asarray(config.run.tau, float)))


def row_steps(config: Config, rounds: int) -> int:
    """The most noisy gradients that any client makes in so many rounds, if it is asked in each."""
    return int(np.sum(most_steps(config, rounds))) * registry.sketch(config.method.entry, config.method.options).solves


def finds_noise(config: Config) -> bool:
    """Whether each client has yet to find the noise that epsilon asks for: nobody else knows how many rows it has."""
    privacy = config.privacy
    return privacy.kind == "rows" and privacy.noise is None and not privacy.by_rows


def promised_sizes(config: Config) -> Int[np.ndarray, "1 groups"]:
    """The numbers of rows that stand for those of clients who do not tell theirs: the fewest for which each noise is given. One
    noise for all must be enough for a single row, which is drawn in every step."""
    return np.asarray([[int(rows) for rows in config.privacy.by_rows] or [1]])


def budgeted(config: Config, clients: int, sizes: np.ndarray | None = None) -> Config:
    """The configuration with the noise that its budget asks for, and no more rounds than the budget pays for. What a run has
    written down reads back as itself: to go on cannot overspend. `sizes` are the clients' rows, for privacy of rows."""
    privacy, run = config.privacy, config.run
    if privacy.kind == "none" or run.rounds == 0:
        return config
    check_clients(config, clients)
    given = privacy.noise is not None or bool(privacy.by_rows)
    with called(NAMES):
        budget = Budget(config, clients, sizes)
        noises = budget.noises if given else budget.calibrated()
        rounds = run.rounds if privacy.epsilon is None or not given else budget.rounds(noises)
    rule = f"is spent in the first round with a noise of {max(noises.values()):.4g}"
    require(rounds > 0, "privacy.epsilon", privacy.epsilon, rule, "raise it, or the noise")
    found: dict[str, object] = {"calibrated": privacy.calibrated or not given}
    if not given:
        by_rows = {str(rows): noise for rows, noise in noises.items() if rows != EVERYBODY}
        found |= {"by_rows": by_rows} if by_rows else {"noise": noises[EVERYBODY]}
    table, runs = privacy.model_copy(update=found), run.model_copy(update={"rounds": rounds})
    return config.model_copy(update={"privacy": table, "run": runs})


def epsilon_after(config: Config, clients: int, sizes: np.ndarray | None, rounds: int) -> float:
    """What is spent after so many rounds, against those who see the models, by the client that has spent most. Before the last
    round by the quicker accountant, which never says too little, and never more than what all rounds will have spent. Of
    clients who find their noise themselves nobody knows more than that they keep within the budget."""
    if finds_noise(config):
        assert config.privacy.epsilon is not None
        return config.privacy.epsilon if rounds else 0.0
    budget, by = Budget(config, clients, sizes), config.privacy.accountant
    at_the_end = max(budget.spent(config.run.rounds, by).values())
    return at_the_end if rounds == config.run.rounds else min(at_the_end, max(budget.spent(rounds, "rdp").values()))


class Budget:
    """The accountant of a configuration: of its cohorts, or of the rows of its clients, by groups of them."""

    def __init__(self, config: Config, clients: int, sizes: np.ndarray | None) -> None:
        self.config, self.privacy = config, config.privacy
        self.cohorts: dict[int, Cohorts] = {}  # of each group, by the least number of rows in it
        if self.privacy.kind == "rows":
            require(sizes is not None, "privacy.kind", "rows", "needs to know how many rows each client has")
            assert sizes is not None
            most, delta = int(np.max(sizes)), self.privacy.delta
            rule = f"must be below 1/{most} for a client with {most} rows: else to publish one of them whole is within it"
            require(delta < 1 / most, "privacy.delta", delta, rule, f"{0.1 / most:.0e}")
            self.cohorts = {key: row_cohorts(config, rows) for key, rows in _groups(config, sizes).items()}
        elif self.privacy.place == "central":
            self.cohorts = {EVERYBODY: cohorts_of(config, clients)}
        else:  # no secret cohorts against a server that asks
            self.cohorts = {EVERYBODY: Cohorts("all", clients, clients)}

    @property
    def noises(self) -> dict[int, float]:
        """The noise of each group, of a configuration that has it."""
        written = {int(rows): noise for rows, noise in self.privacy.by_rows.items()}
        return {key: written.get(key, self.privacy.noise or 0.0) for key in self.cohorts}

    def times(self, rounds: int) -> int:
        return row_steps(self.config, rounds) if self.privacy.kind == "rows" else rounds

    def calibrated(self) -> dict[int, float]:
        """The noise that epsilon asks for, of each group."""
        assert self.privacy.epsilon is not None
        budget, times = self.privacy.epsilon, self.times(self.config.run.rounds)
        needed = {
            key: noise_for(budget, times, cohorts, self.privacy.delta, self.privacy.accountant)
            for key, cohorts in self.cohorts.items()
        }
        return {key: math.ceil(noise * 1e4) / 1e4 for key, noise in needed.items()}

    def rounds(self, noises: dict[int, float]) -> int:
        """How many rounds stay within epsilon for every group."""
        budget, delta, by = self.privacy.epsilon, self.privacy.delta, self.privacy.accountant
        assert budget is not None
        most = self.config.run.rounds
        times = min(
            rounds_within(budget, noises[key], cohorts, delta, self.times(most), by) for key, cohorts in self.cohorts.items()
        )
        return max((r for r in range(most + 1) if self.times(r) <= times), default=0)

    def spent(self, rounds: int, by: str) -> dict[int, float]:
        """Epsilon of each group after so many rounds."""
        times, delta, noises = self.times(rounds), self.privacy.delta, self.noises
        return {key: _epsilon(noises[key], times, cohorts, delta, by) for key, cohorts in self.cohorts.items()}


def _groups(config: Config, sizes: np.ndarray) -> dict[int, int]:
    """Of each group its key, a number of rows, and the fewest rows of a client in it: the worst off. The keys are written ones,
    or the fewest rows of groups whose numbers lie close together."""
    rows = np.unique(sizes[sizes > 0])
    near = 1.05 if len(rows) <= GROUPS else max(1.05, float(rows[-1] / rows[0]) ** (1 / GROUPS))
    keys = sorted(int(key) for key in config.privacy.by_rows)
    if not keys and config.privacy.noise is None:
        for one in rows.tolist():
            keys += [one] if not keys or one > near * keys[-1] else []
    keys = keys or [EVERYBODY]
    rule = f"says nothing for the client with {rows[0]} rows"
    require(keys[0] <= rows[0], "privacy.by_rows", config.privacy.by_rows, rule, f"begin with {rows[0]} rows or fewer")
    which = np.searchsorted(keys, rows, side="right") - 1
    return {keys[k]: int(rows[which == k].min()) for k in np.unique(which)}
