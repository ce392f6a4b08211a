"""[privacy] against the rest of a configuration: what is refused before any work, and what it means once data are known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..errors import called, require
from ..federation import Plan
from ..methods.method import Method
from ..methods.private_rows import RowNoise
from ..methods.summed import sums_of
from ..privacy.accountant import need_accountant
from ..privacy.mechanism import Adaptive, Mechanism
from ..privacy.statement import RowGroup, Statement, rows_statement, statement_of
from .budgets import Budget, budgeted, check_clients, cohorts_of, finds_noise, row_steps

if TYPE_CHECKING:
    from .tables import Config, PrivacyTable

FOR_CLIENTS = ("place", "adaptive", "quorum")
FOR_ROWS = ("by_rows", "public_sizes")
FOREIGN = "fedavg, fedprox, fedadam, zo_hfl, decomfl"


def check_privacy(privacy: PrivacyTable, config: Config, method: Method) -> None:
    """Refuses keys that nothing would read, methods that send more than can be bounded, and budgets without meaning."""
    fields = type(privacy).model_fields
    for key in fields:
        unread = {"clients": FOR_ROWS, "rows": FOR_CLIENTS}.get(privacy.kind, fields)
        idle = key in unread
        given = getattr(privacy, key) != fields[key].default
        rule = f"is not read with privacy.kind = {privacy.kind!r}"
        require(key == "kind" or not idle or not given, f"privacy.{key}", getattr(privacy, key), rule, "leave it out")
    if privacy.kind == "none":
        return
    need_accountant()
    given = privacy.epsilon is not None or privacy.noise is not None or bool(privacy.by_rows)
    require(given, "privacy.epsilon", None, "must be given, or privacy.noise", "privacy.epsilon = 8")
    require(method.buffer == 0, "method.name", method.name, "has no rounds that a budget could count", FOREIGN)
    require(config.attack.kind == "none", "attack.kind", config.attack.kind, "changes what was made private", "none")
    if privacy.kind == "rows":
        _check_by_rows(privacy)
        _check_rows(config, method)
    else:
        with called({"privacy": "privacy.place"}):
            sums_of(method, "privacy", privacy.place)
        _check_quorum(privacy, config)
    natural = config.data.partition == "natural" or config.data.new_clients
    if not natural:
        check_clients(config, config.data.clients)


def _check_by_rows(privacy: PrivacyTable) -> None:
    both = privacy.noise is not None and bool(privacy.by_rows)
    require(not both, "privacy.by_rows", privacy.by_rows, "says what privacy.noise says", "leave out one of the two")
    for rows, noise in privacy.by_rows.items():
        fits = rows.isascii() and rows.isdigit() and 0 < noise < math.inf
        require(fits, "privacy.by_rows", {rows: noise}, "must be noises above 0 by numbers of rows", "{ 30 = 4.0, 200 = 1.5 }")


def _check_rows(config: Config, method: Method) -> None:
    """Row-level noise is in gradients: whatever else is computed from rows and sent would go around it."""
    fits, rule = method.foreign or method.row_noise, "sends more than what noisy steps end at"
    require(fits, "method.name", method.name, rule, FOREIGN)
    options, rule = config.method.options, "looks at rows without noise"
    require(not options.get("bounded"), "method.bounded", True, rule, "bounded = false")
    require(options.get("estimator") != "exact", "method.estimator", "exact", rule, "another estimator")
    probes = options.get("coupled") and options.get("estimator") != "first_order"
    same = "gives two solves the same noise, and their difference has none"
    require(not probes, "method.coupled", True, same, "coupled = false")
    require(config.method.solver is None, "method.local", "a black box", rule, "our local steps")
    require(not config.data.augment, "data.augment", True, "is not there with privacy.kind = 'rows'", "leave it out")
    epochs, rule = config.run.epochs, "is not there with privacy.kind = 'rows': a budget counts steps"
    require(epochs is None, "run.epochs", epochs, rule, "set run.local_steps")


def _check_quorum(privacy: PrivacyTable, config: Config) -> None:
    distributed = privacy.place == "distributed"
    require(distributed or privacy.quorum == 1, "privacy.quorum", privacy.quorum, "is for distributed noise", "leave it out")
    rule = f"run.dropouts = {config.run.dropouts}: too many rounds would have too little noise"
    require(not distributed or privacy.quorum <= 1 - config.run.dropouts, "privacy.quorum", privacy.quorum, rule, "lower it")


def mechanism_of(config: Config, clients: int) -> Mechanism:
    """What is done to replies, of a configuration that has its noise."""
    privacy, cohorts = config.privacy, cohorts_of(config, clients)
    assert privacy.noise is not None
    adaptive = None if privacy.adaptive is None else Adaptive(privacy.adaptive)
    quorum = max(1, math.floor(privacy.quorum * cohorts.size))
    return Mechanism(privacy.place, privacy.clip, privacy.noise, float(cohorts.size), quorum, adaptive)


def row_noise_of(config: Config, sizes: np.ndarray) -> RowNoise:
    """What is done to gradients: each client's noise by its number of rows."""
    noises = Budget(config, sizes.shape[-1], sizes).noises
    return RowNoise(config.privacy.clip, tuple(noises.items()), int(np.max(sizes)))


def _seats(plan: Plan) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each seed: who sits where, and whose reply counts."""
    return list(zip(plan.ids, plan.arrived, strict=True))


def statement(
    config: Config, clients: int, sends: str, plan: Plan | None, sizes: np.ndarray | None, *, least: bool = False
) -> Statement:
    """The page of a configuration that has its noise, or whose clients find theirs; `least`: `sizes` are `promised_sizes`."""
    privacy, run = config.privacy, config.run
    if privacy.kind == "rows":
        config = budgeted(config, clients, sizes) if finds_noise(config) else config
        budget = Budget(config, clients, sizes)
        spent = budget.spent(run.rounds, privacy.accountant)
        groups = [RowGroup(budget.cohorts[key], noise, spent[key], least) for key, noise in budget.noises.items()]
        steps = row_steps(config, run.rounds)
        return rows_statement(groups, privacy.clip, steps, privacy.delta, run.rounds, public_sizes=privacy.public_sizes)
    cohorts = cohorts_of(config, clients)
    asked = None if plan is None else max(int(np.bincount(one.ravel()[come.ravel()]).max()) for one, come in _seats(plan))
    mechanism = mechanism_of(config, clients)
    return statement_of(mechanism, cohorts, run.rounds, privacy.delta, sends=sends, asked=asked, by=privacy.accountant)
