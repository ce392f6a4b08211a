"""A client chooses between a model that has learnt alone and what the others know, by rows of its own that neither has seen.

    y_i       by the method, as without a choice: what the others hear is y_i's
    a_i       by the same learner, told nothing: the rows, draws and fits that it would have without the others
    personal  with models of clients' own, where there is a global model x:  a_i's word and x's together (`mixture`), x counting
              0, 0.1, ... 1 as the client chooses; else y_i or a_i itself
    trials    of a_i, and of y_i where the client may take it, one for each part of the rows, which it does not see (`choice`)

A client that takes nothing of the others ends with the model that it would have alone, to the bit. x has seen the rows
kept back in so far as y_i has; what doubt there is speaks for a_i. Costs 1 + K further fits a round and in the end, twice
as many where y_i may be taken, with K = 1/share parts.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from ... import keys, trees
from ...errors import share as open_share
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel, Rows
from ..method import ClientSpec, Method, Turn
from .choice import Evidence, dealt, decided, evidence, evidence_asked, losses
from .divergences import Outputs
from .learners import Learner, Lesson, model_of, shown_to
from .mixture import Mixed, mixed, predicting

SHARES = np.arange(11) / 10  # of the global model's word, from which a client chooses


class Trial(NamedTuple):
    alone: PyTree  # a_i without a part of the rows
    client: PyTree  # y_i, likewise; () where it is none of the choices


class Guarded(NamedTuple):
    client: PyTree  # y_i: the method's own state
    alone: PyTree  # a_i: what the learner keeps that is told nothing
    trials: Trial  # [K]


def guarded(method: Method, problem: Bilevel, learner: Learner, share: float, *, shares_model: bool = True) -> Method:
    """The method with this choice at every client; the method itself at share = 0. `shares_model`: has it a global model?"""
    open_share("check", share)
    if not share:
        return method
    parts, mixes = max(2, round(1 / share)), shares_model and learner.predict is not None
    rules = Guard(method, problem, learner, parts, mixes)
    guard = method._replace(
        client_init=rules.init,
        local=rules.local,
        personal_model=rules.personal_model,
        solves=(method.solves + 1) * (1 + parts),  # whatever the models: a server does not know those of its sites
    )
    if not mixes or learner.predict is None:
        return guard
    coupling = method.coupling
    return guard._replace(
        predict=predicting(model_of(problem, "check"), learner.predict),
        coupling=None if coupling is None else lambda y, x, view, spec: coupling(y.own, x, view, spec),
    )


class Guard(NamedTuple):
    """The functions of a guarded method, over its parts."""

    method: Method
    problem: Bilevel
    learner: Learner
    parts: int  # K
    mixes: bool  # may the client take the global model's word, or y_i?

    def init(self, x: PyTree, spec: ClientSpec) -> Guarded:
        client, alone = self.method.client_init(x, spec), self.learner.init(x, spec)
        trial = Trial(alone, () if self.mixes else client)
        return Guarded(client, alone, jax.tree.map(lambda a: jnp.stack([a] * self.parts), trial))

    def local(
        self, state: Guarded, shared: PyTree, own: PyTree, view: View, spec: ClientSpec, turn: Turn
    ) -> tuple[Guarded, PyTree]:
        client, up = self.method.local(state.client, shared, own, view, spec, turn)

        def trial(part: Int[Array, ""], kept: Trial) -> Trial:
            rest, there = dealt(view, part, self.parts)[0], _trial_turn(turn, part)
            y = () if self.mixes else self.method.local(kept.client, shared, own, rest, spec, there)[0]
            return Trial(self._alone(kept.alone, rest, spec, there, Tag.SOLVE), y)

        trials = jax.vmap(trial)(jnp.arange(self.parts), state.trials)
        return Guarded(client, self._alone(state.alone, view, spec, turn, Tag.SOLVE), trials), up

    def personal_model(self, state: Guarded, x: PyTree | None, view: View, spec: ClientSpec, turn: Turn) -> PyTree:
        alone = self._alone(state.alone, view, spec, turn, Tag.PERSONAL)
        taken = decided(self._evidence(self._tried(state.trials, x, view, spec, turn), x, view))
        if self.mixes:
            return Mixed(alone, x, jnp.asarray(SHARES, jnp.float32)[taken])
        return trees.where(taken > 0, self.method.personal_model(state.client, x, view, spec, turn), alone)

    def _alone(self, state: PyTree, view: View, spec: ClientSpec, turn: Turn, tag: Tag) -> PyTree:
        nothing = Lesson(jnp.zeros((shown_to(view).known.shape[0], max(self.problem.outputs, 1))), 0.0)
        return self.learner.learn(state, nothing, view, spec, turn, keys.at(turn.key, tag))[0]

    def _tried(self, trials: Trial, x: PyTree | None, view: View, spec: ClientSpec, turn: Turn) -> Trial:
        """The trials as personal models."""

        def one(part: Int[Array, ""], kept: Trial) -> Trial:
            rest, there = dealt(view, part, self.parts)[0], _trial_turn(turn, part)
            y = () if self.mixes else self.method.personal_model(kept.client, x, rest, spec, there)
            return Trial(self._alone(kept.alone, rest, spec, there, Tag.PERSONAL), y)

        return jax.vmap(one)(jnp.arange(self.parts), trials)

    def _evidence(self, tried: Trial, x: PyTree | None, view: View) -> Evidence:
        def of(part: Int[Array, ""], one: Trial) -> Evidence:
            kept = dealt(view, part, self.parts)[1]

            def lost(rows: Rows) -> Float[Array, "A B"]:
                own = self._outputs(one.alone, kept, rows)
                if not self.mixes:
                    return jnp.stack([losses(own, rows), losses(self._outputs(one.client, kept, rows), rows)])
                said = model_of(self.problem, "check").apply(x, rows.inputs)
                return jnp.stack([losses(mixed(own, said, a), rows) for a in SHARES.tolist()])

            return evidence(lost, kept) if self.learner.predict is None else evidence_asked(lost, kept, 2 + 9 * self.mixes)

        places = jnp.arange(self.parts)
        if self.learner.predict is None:
            return jax.vmap(of)(places, tried)
        return trees.stack([of(part, trees.take(tried, k)) for k, part in enumerate(places)])

    def _outputs(self, y: PyTree, view: View, rows: Rows) -> Outputs:
        if self.learner.predict is None:
            return model_of(self.problem, "check").apply(y, rows.inputs)
        return self.learner.predict(y, view)(rows.inputs)


def _trial_turn(turn: Turn, part: Int[Array, ""]) -> Turn:
    """The turn with draws, hence names, of a trial's own."""
    return turn._replace(key=keys.at(turn.key, Tag.TRIAL, part))
