"""What a run under privacy says about itself: a page, one line, and refusals of what the budget does not pay for."""

from __future__ import annotations

import math

import numpy as np

from .. import trees
from ..errors import require
from ..federation import View
from ..privacy.statement import Statement
from ..protocol import message_shapes
from ..storage.json_value import Json
from .assemble import Experiment, assemble
from .privacy_rules import statement
from .tables import Config


def stated(experiment: Experiment, *, least: bool = False) -> Statement:
    """The statement of an experiment whose budget is settled; `least`: its clients have at least as many rows as it says."""
    config, plan = experiment.config, experiment.plan
    return statement(config, experiment.clients, _sent(experiment), plan, experiment.sizes, least=least)


def _sent(experiment: Experiment) -> str:
    """What a reply is, in words: how many numbers."""
    import jax

    method, federation = experiment.method, experiment.federation
    one = jax.eval_shape(lambda: trees.map(lambda a: a[0], federation._replace(arrays=())))
    x = jax.eval_shape(lambda: trees.map(lambda a: a[0], experiment.x))
    server = jax.eval_shape(method.server_init, x)
    spec = trees.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), one.spec)
    client = jax.eval_shape(method.client_init, x, spec)
    view = View(federation.arrays, one.index, one.server.start, one.server.size)
    up = message_shapes(method, server, client, view, spec, experiment.clients).up
    numbers = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(up))
    return "one number" if numbers == 1 else f"{numbers:,} numbers"


def short_words(found: Statement) -> str:
    """One line: what holds against whom."""
    parts = [f"{viewer.who}: {_number(viewer.epsilon)}" for viewer in found.viewers]
    return f"epsilon for {found.unit} at delta = {found.delta:g} after {found.rounds} rounds, {', '.join(parts)}"


def _number(epsilon: float) -> str:
    return "no bound, it is trusted" if math.isinf(epsilon) else f"{epsilon:.3g}"


def page_words(found: Statement) -> str:
    """The page for a terminal or a file."""
    lines = [short_words(found), "", "who sees what"]
    for viewer in found.viewers:
        lines += [f"  {viewer.who}: {viewer.sees}", f"    epsilon {_number(viewer.epsilon)}: {viewer.why}"]
    if found.groups:
        lines += ["", "what each client spends", *(f"  {line}" for line in found.groups)]
    lines += ["", "assumed", *(f"  {line}" for line in found.assumptions)]
    return "\n".join([*lines, "", "not covered", *(f"  {line}" for line in found.uncovered)])


def as_object(found: Statement) -> dict[str, Json]:
    """For JSON; an epsilon that has no bound is null."""
    viewers: list[Json] = [
        one._asdict() | {"epsilon": None if math.isinf(one.epsilon) else one.epsilon} for one in found.viewers
    ]
    return {
        "unit": found.unit, "delta": found.delta, "noise": found.noise, "clip": found.clip, "rounds": found.rounds,
        "viewers": viewers, "assumptions": list(found.assumptions), "uncovered": list(found.uncovered),
        "groups": list(found.groups),
    }  # fmt: skip


def ended_early(asked: Config, got: Config) -> str:
    """Why a run has fewer rounds than it was asked for."""
    noise = f"privacy.noise = {got.privacy.noise:.4g}" if got.privacy.noise is not None else "the noise of privacy.by_rows"
    budget = f"privacy.epsilon = {asked.privacy.epsilon:g} at {noise}"
    return f"the budget is spent after {got.run.rounds} of {asked.run.rounds} rounds ({budget}): the run ends there"


def refuse_overspending(longer: Config) -> None:
    """Refuses more rounds than the budget of a run pays for."""
    if longer.privacy.kind == "none" or longer.privacy.epsilon is None:
        return
    paid = assemble(longer).config.run.rounds
    rule = f"privacy.epsilon = {longer.privacy.epsilon:g} pays for {paid} rounds with the run's noise"
    require(paid >= longer.run.rounds, "--rounds", longer.run.rounds, rule, "a run of its own, with a budget of its own")
