"""Replies projected on random directions that both sides draw from one seed: K numbers go up instead of a model.

Shu, Hu, Ng, Low, Yu, "Ferret: Federated Full-Parameter Tuning at Scale for Large Language Models", 2024,
https://arxiv.org/abs/2409.06277

    c_k = <D_i, z_k>     at client i, D_i = y_i - x
    D_i ~ (1/K) sum_k c_k z_k     at the server, which then goes on as the method does

E z z^T = I makes the server's D_i right on average, with the squared error |D_i|^2 (n + 1)/K for normal directions and |D_i|^2
(n/K - 1) for orthogonal ones: K = n orthogonal directions give D_i back. All clients of a round share the directions, so the
mean over clients does not average that error, and rounds must be short: a move that goes the share a of the way to an optimum
contracts only for a < 2 K/n or so. Ferret solves a least squares problem for c and rescales it; here c is the plain product,
whose scale is known. For methods whose reply is the move of a model (`fedavg.Up`), such as `fedavg` and `fedprox`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from .. import keys, trees
from ..errors import FedtierError, choice, whole
from ..federation import View
from ..keys import Tag
from .averaging import fedavg
from .method import ClientSpec, Contribution, Method, Opening, Round, Sums, Turn
from .summed import known_sums
from .zeroth_order.directions import PROBES, Directions, Seed, directions, key_of, seed_of


class Shared(NamedTuple):
    seed: Seed
    inner: PyTree  # the method's own message


class Up(NamedTuple):
    c: Float[Array, "K"]


def projected(method: Method, count: int, *, probes: str = "normal") -> Method:
    """`method` with replies of K = `count` numbers; as it is for 0. `probes`: "normal" or "orthogonal" (K models of memory)."""
    whole("projection", count, 0)
    choice("probes", probes, PROBES)
    if count == 0:
        return method

    def seed(opening: Opening) -> Seed:
        return seed_of(keys.at(opening.key, Tag.DIRECTION))

    def drawn(seed: Seed, like: PyTree) -> Directions:
        return directions(probes, key_of(seed), like, count)

    def local(client: PyTree, shared: Shared, own: PyTree, view: View, spec: ClientSpec, turn: Turn) -> tuple[PyTree, Up]:
        after, up = method.local(client, shared.inner, own, view, spec, turn)
        if not isinstance(up, fedavg.Up):
            rule = f"is for replies that are the move of a model; {method.name} sends something else"
            raise FedtierError("projection", count, rule, "projection = 0")
        z = drawn(shared.seed, up.delta)
        return after, Up(jax.lax.map(lambda k: trees.dot(up.delta, z(k)), jnp.arange(count)))

    def aggregate(server: PyTree, owns: PyTree, ups: Up, specs: PyTree, round: Round) -> tuple[PyTree, PyTree]:
        return method.aggregate(server, owns, fedavg.Up(moves(server, ups.c, round.opening)), specs, round)

    def moves(server: PyTree, c: Float[Array, "S K"], opening: Opening) -> PyTree:
        """The moves that the numbers stand for, leading axis S."""
        x, replies = method.global_model(server), c.shape[0]
        z, none = drawn(seed(opening), x), trees.map(lambda a: jnp.zeros((replies, *a.shape), a.dtype), x)

        def along(c: Float[Array, "S"], direction: PyTree) -> PyTree:
            return jax.vmap(trees.scale, in_axes=(0, None))(c / count, direction)

        return jax.lax.fori_loop(0, count, lambda k, moves: trees.add(moves, along(c[:, k], z(k))), none)

    def share(up: Up, spec: ClientSpec) -> Contribution:
        return known_sums(method).share(fedavg.Up(up.c), spec)  # linear in its one argument, whatever that stands for

    def conclude(server: PyTree, total: Contribution, opening: Opening) -> tuple[PyTree, PyTree]:
        whole = trees.take(moves(server, total.value[None], opening), 0)
        return known_sums(method).conclude(server, total._replace(value=whole), opening)

    return method._replace(
        broadcast=lambda server, opening: Shared(seed(opening), method.broadcast(server, opening)),
        local=local,
        aggregate=aggregate,
        sums=None if method.sums is None else Sums(share, conclude),
    )
