"""What the server does in ZO-HFL: what it sends, and its descent on f1 plus the pull of the clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
from jaxtyping import Array, Float, PyTree

from ... import keys, trees
from ...federation import sample
from ...keys import Tag
from ...problem import Bilevel
from ..descent import Descent, ServerDescent
from ..method import Opening, Round
from . import pull
from .estimator import Estimator
from .probes import Models, Own, Probes, Values
from .pull import Estimate, Replies


class Shared(NamedTuple):
    x: PyTree  # x_r [n]
    guide: PyTree = ()  # where the server guides: grad f1(x_r) on a minibatch [n]


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

    def init(self, x: PyTree) -> Server:
        return Server(self.descent.init(x), pull.none(x, self.remembered) if self.remembered else ())

    def broadcast(self, server: Server, opening: Opening) -> Shared:
        x = server.descent.x
        if not self.estimator.served:
            return Shared(x)
        rows = sample(opening.view, keys.at(opening.key, Tag.DIRECTION), self.descent.batch)
        return Shared(x, jax.grad(self.problem.f1)(x, rows))

    def aggregate(
        self, server: Server, owns: Own, ups: Values | Models | Estimate, specs: PyTree, round: Round
    ) -> tuple[Server, Info]:
        x = server.descent.x
        each = ups if isinstance(ups, Estimate) else jax.vmap(lambda *one: self.probes.read(x, *one))(owns, ups, specs)
        pulls, memory = pull.pull_of(each, x, server.memory, round, self.fading)
        after = self.descent.step(self.problem.server_loss, server.descent, pulls, round.view, round.round, round.key)
        return Server(after, memory), Info(trees.norm(pulls(x)), trees.norm(trees.sub(after.x, x)))
