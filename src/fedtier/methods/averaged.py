"""The running average of a method's global models, for methods whose server takes no steps of its own.

    a_{r+1} = a_r + (s + 1)/(r + s + 1) (x_{r+1} - a_r)

gives x_r a weight that grows like r^s, so the average forgets the start (Shamir, Zhang, 2013). The method goes on from x as
before; only what it calls its global model changes. `descent` has the same average for methods with a server's descent.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Int, PyTree

from .. import trees
from ..errors import whole
from .method import Contribution, Method, Opening, Round, Sums, Turn
from .summed import known_sums


class Server(NamedTuple):
    inner: PyTree  # the method's own state
    average: PyTree  # a_r [n]


def averaged(method: Method, power: int) -> Method:
    """`method` with the average of its global models in place of the last; as it is for power s = 0."""
    whole("averaging", power, 0)
    if power == 0:
        return method

    def aggregate(server: Server, owns: PyTree, ups: PyTree, specs: PyTree, round: Round) -> tuple[Server, PyTree]:
        inner, info = method.aggregate(server.inner, owns, ups, specs, round)
        return after(server, inner, round.round), info

    def conclude(server: Server, total: Contribution, opening: Opening) -> tuple[Server, PyTree]:
        inner, info = known_sums(method).conclude(server.inner, total, opening)
        return after(server, inner, opening.round), info

    def after(server: Server, inner: PyTree, number: Int[Array, ""]) -> Server:
        share = (power + 1.0) / (number + power + 1.0)
        x = method.global_model(inner)
        return Server(inner, trees.axpy(share, trees.sub(x, server.average), server.average))

    def broadcast(server: Server, opening: Opening) -> PyTree:
        return method.broadcast(server.inner, opening)

    def address(server: Server, turn: Turn) -> PyTree:
        return method.address(server.inner, turn)

    def offer(server: Server, turn: Turn) -> PyTree:
        assert method.offer is not None
        return method.offer(server.inner, turn)

    return method._replace(
        server_init=lambda x: Server(method.server_init(x), x),
        broadcast=broadcast,
        address=address,
        offer=None if method.offer is None else offer,
        aggregate=aggregate,
        global_model=lambda server: server.average,
        sums=None if method.sums is None else Sums(method.sums.share, conclude),
    )
