"""FedAsync: each reply is mixed into the global model as it comes.

Xie, Koyejo, Gupta, "Asynchronous Federated Optimization", OPT 2020, https://arxiv.org/abs/1903.03934

    y <- y - tilde_gamma_t (grad f1(y, zeta_t) + rho (y - x_{r - tau}))     from y = x_{r - tau}, H times
    x <- (1 - alpha s(tau)) x + alpha s(tau) y     with one reply a server step

    s(tau) = 1, (1 + tau)^(-a), or 1 where tau <= b and 1/(a (tau - b) + 1) above

With a stale reply the second line also pulls x back towards x_{r - tau}. The delta form leaves that out, and is FedBuff with
B = 1 where s is the same:

    x <- x + alpha s(tau) (y - x_{r - tau})

At tau = 0 both are the same, and with alpha = 1 and rho = 0 they are FedAvg with one client a round. Several replies in a step,
such as the one of the server's own rows, are averaged. A reply without a step says nothing and moves nothing. Clients keep no
state. Do not use it with very different clients and alpha near 1: x then follows whoever replied last.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ... import trees
from ...errors import choice, not_negative, positive
from ...federation import View
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL, PERSONAL, Server, Shared, averaging
from ..method import ClientSpec, Method, Round, Turn
from ..personal import PersonalRule
from ..solvers import ProjectedSgd
from .discounts import discount, discounted_mean
from .fedbuff import Info

FORMS = ("model", "delta")
Number = float | Float[Array, ""]


class Up(NamedTuple):
    sent: PyTree  # y [n], or y - x_{r - tau} in the delta form
    moved: Bool[Array, ""]  # has the client made a step?


def fedasync(
    problem: Bilevel,
    *,
    blending: Number = 0.6,
    anchor: Number = 0.005,
    blended: str = "model",
    discounting: str = "polynomial",
    exponent: Number = 0.5,
    hinge_slope: Number = 10.0,
    hinge_after: Number = 4.0,
    local: ProjectedSgd = LOCAL,
    personal: PersonalRule = PERSONAL,
) -> Method:
    """FedAsync on problem.f1 with alpha = `blending` and rho = `anchor`; `blended` "model" as published, or "delta".
    `discounting` names s, `exponent` is the a of the polynomial, `hinge_slope` and `hinge_after` are the hinge's a and b."""
    positive("blending", blending)
    not_negative("anchor", anchor)
    choice("blended", blended, FORMS)
    s = discount(discounting, exponent, hinge_slope, hinge_after)

    def pull(y: PyTree, x: PyTree) -> PyTree:
        return trees.scale(anchor, trees.sub(y, x))

    plain = averaging("fedasync", problem, pull, local, "uniform", personal)

    def at_client(client: tuple, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[tuple, Up]:
        client, up = plain.local(client, shared, own, view, spec, turn)
        return client, Up(trees.add(shared.x, up.delta) if blended == "model" else up.delta, turn.steps > 0)

    def aggregate(server: Server, owns: tuple, ups: Up, specs: PyTree, round: Round) -> tuple[Server, Info]:
        moves = trees.map(lambda y, x: y - x[None], ups.sent, server.x) if blended == "model" else ups.sent
        discounts = jnp.where(ups.moved, s(round.ages), 0.0)
        delta = trees.scale(blending, discounted_mean(round, moves, jnp.ones_like(specs.weight), discounts))
        return Server(trees.add(server.x, delta)), Info(trees.norm(delta), jnp.mean(round.ages.astype(jnp.float32)))

    return plain._replace(local=at_client, aggregate=aggregate, buffer=1, foreign=False, sums=None)
