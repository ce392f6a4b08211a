"""What the server does in ZO-HFL: what it sends, and its descent on f1 plus the pull of the clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
from jaxtyping import Array, Float, PyTree

from ... import keys, trees
from ...federation import gradient_over_rows
from ...keys import Tag
from ...problem import Bilevel
from ..descent import Descent, ServerDescent
from ..method import Opening, Round
from . import pull
from .estimator import Estimator
from .probes import Models, Own, Probes, Slopes, Values
from .pull import Estimate, Replies


class Shared(NamedTuple):
    x: PyTree  # x_r [n]
    guide: PyTree = ()  # where the server guides: grad f1(x_r) on a minibatch [n]
    key: PyTree = ()  # with shared directions: the key that draws v_r


class Server(NamedTuple):
    descent: Descent
    memory: Replies | tuple[()]  # the replies that the server remembers; () where it remembers none


class Info(NamedTuple):
    estimate: Float[Array, ""]  # the length of the clients' pull at x_r
    step: Float[Array, ""]  # |x_{r+1} - x_r|


@dataclass(frozen=True, eq=False)
class AtServer:
    """The functions of the server, over the method's parts."""

    problem: Bilevel
    estimator: Estimator
    probes: Probes
    descent: ServerDescent
    remembered: int
    fading: bool
    spread: float
    common: bool  # are the directions those of the round?

    def init(self, x: PyTree) -> Server:
        return Server(self.descent.init(x), pull.none(x, self.remembered) if self.remembered else ())

    def broadcast(self, server: Server, opening: Opening) -> Shared:
        x, key = server.descent.x, keys.at(opening.key, Tag.DIRECTION)
        drawn = keys.at(key, 1) if self.common else ()
        if not self.estimator.served:
            return Shared(x, (), drawn)
        return Shared(x, gradient_over_rows(self.problem.f1, x, self.descent.sample(opening.view, key)), drawn)

    def aggregate(
        self, server: Server, owns: Own | tuple[()], ups: Values | Models | Estimate | Slopes, specs: PyTree, round: Round
    ) -> tuple[Server, Info]:
        if isinstance(ups, Slopes):
            return self.along(server, trees.mean_over(round.arrived, ups.s), round.opening)
        x = server.descent.x
        each = ups if isinstance(ups, Estimate) else jax.vmap(lambda *one: self.probes.read(x, *one))(owns, ups, specs)
        pulls, memory = pull.pull_of(each, x, server.memory, round, self.fading, self.spread)
        after = self.descent.step(self.problem.server_loss, server.descent, pulls, round.view, round.round, round.key)
        return Server(after, memory), Info(trees.norm(pulls(x)), trees.norm(trees.sub(after.x, x)))

    def along(self, server: Server, slopes: Float[Array, "K"], opening: Opening) -> tuple[Server, Info]:
        """The server's step from the mean slopes along the directions that all clients of the round share."""
        x, shared = server.descent.x, self.broadcast(server, opening)
        guides = trees.map(lambda a: a[None], shared.guide) if self.estimator.served else ()
        v = self.estimator.propose(shared.key, x, guides)
        g = self.estimator.estimate(slopes, v, shared.key, None)
        step = self.descent.step
        after = step(self.problem.server_loss, server.descent, lambda x: g, opening.view, opening.round, opening.key)
        return Server(after, ()), Info(trees.norm(g), trees.norm(trees.sub(after.x, x)))
