"""FedAvg: federated averaging.

McMahan, Moore, Ramage, Hampson, Agüera y Arcas, "Communication-Efficient Learning of Deep Networks from Decentralized
Data", AISTATS 2017, https://arxiv.org/abs/1602.05629

    y_i <- y_i - tilde_gamma_t grad f1(y_i, zeta_t)     from y_i = x, H_i times
    x   <- x + sum_i w_i (y_i - x) / sum_i w_i           over the replies that arrived, w_i = N_i

With H = 1 and full participation it is gradient descent on the pooled client data. Do not expect it to converge to
the right point when clients differ and H is large: each y_i drifts to its own optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ... import keys, trees
from ...errors import choice, not_negative
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel
from ..method import ClientSpec, Contribution, Method, Round, Share, Sums, Turn, counted_alike
from ..parts import check_parts
from ..personal import PersonalRule, global_model, without_lower_level
from ..solvers import ProjectedSgd, projected_sgd

Combine = Callable[[Bool[Array, "S"], PyTree, Float[Array, "S"]], PyTree]
LOCAL, PERSONAL = projected_sgd("inverse(0.1)"), global_model()


class Server(NamedTuple):
    x: PyTree  # x_r [n]


class Shared(NamedTuple):
    x: PyTree  # x_r [n]


class Up(NamedTuple):
    delta: PyTree  # y_i - x_r [n]


class Info(NamedTuple):
    step: Float[Array, ""]  # |x_{r+1} - x_r|


def fedavg(
    problem: Bilevel, *, local: ProjectedSgd = LOCAL, weighting: str = "data", personal: PersonalRule = PERSONAL
) -> Method:
    """FedAvg on problem.f1; Y and f2 play no part. `local` is the step and the minibatch of its SGD; `weighting` "data"
    averages by rows as published, "uniform" by clients."""
    return averaging("fedavg", problem, lambda y, x: trees.zeros_like(y), local, weighting, personal)


def towards(proximity: float | Float[Array, ""]) -> Callable[[PyTree, PyTree], PyTree]:
    """The pull mu (y - x) with mu = `proximity`, for `averaging`."""
    not_negative("proximity", proximity)
    return lambda y, x: trees.scale(proximity, trees.sub(y, x))


def weights_of(specs: PyTree, weighting: str) -> Float[Array, "*S"]:
    """w_i of the clients of a round, or of one: N_i up to a factor, or 1."""
    return specs.weight if weighting == "data" else jnp.ones_like(specs.weight)


def share_of(weighting: str) -> Share:
    """The share of a reply that is `Up`: its move, by the client's weight."""

    def share(up: Up, spec: ClientSpec) -> Contribution:
        return counted_alike(up.delta).times(jnp.asarray(weights_of(spec, weighting), jnp.float32))

    return share


def averaging(
    name: str,
    problem: Bilevel,
    pull: Callable[[PyTree, PyTree], PyTree],
    local: ProjectedSgd,
    weighting: str,
    personal: PersonalRule,
    combine: Combine = trees.mean_over,
) -> Method:
    """FedAvg whose local gradient has `pull(y, x)` added to it, and whose server moves by what `combine` makes of the replies:
    (arrived, the y_i - x, their weights) -> one of them."""
    check_parts(local=local, personal=personal)
    choice("weighting", weighting, ("data", "uniform"))
    gradient = jax.grad(problem.f1)

    def at_client(client: tuple, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[tuple, Up]:
        key, x = keys.at(turn.key, Tag.SOLVE), shared.x
        if problem.solve is not None:
            return client, Up(trees.sub(problem.solve(x, x, view, spec, turn.steps, key), x))
        y = local.descend(lambda y, rows: trees.add(gradient(y, rows), pull(y, x)), x, view, spec, turn.steps, key)
        return client, Up(trees.sub(y, x))

    def aggregate(server: PyTree, owns: tuple, ups: PyTree, specs: PyTree, round: Round) -> tuple[PyTree, Info]:
        return moved(server, combine(round.arrived, ups.delta, weights_of(specs, weighting)))

    def moved(server: PyTree, delta: PyTree) -> tuple[PyTree, Info]:  # `Server`, or one that has more than x
        return server._replace(x=trees.add(server.x, delta)), Info(trees.norm(delta))

    sums = Sums(share_of(weighting), lambda server, total, at: moved(server, total.mean))
    return Method(
        name=name,
        server_init=Server,
        broadcast=lambda server, opening: Shared(server.x),
        local=at_client,
        aggregate=aggregate,
        global_model=lambda server: server.x,
        personal_model=without_lower_level(personal, problem),
        seat=True,
        foreign=True,
        sums=sums if combine is trees.mean_over else None,
    )
