"""APFL: adaptive personalised federated learning. A client's model is a mixture of the global one and its own.

Deng, Kamani, Mahdavi, "Adaptive Personalized Federated Learning", 2020, https://arxiv.org/abs/2003.13461

    w_i <- w_i - tilde_gamma_t grad f1(w_i, zeta_t)                       from w_i = x; averaged as in FedAvg
    v_i <- v_i - tilde_gamma_t alpha_i grad f1(u_i, zeta_t)               where u_i = alpha_i v_i + (1 - alpha_i) w_i
    alpha_i <- alpha_i - tilde_gamma_t rate (v_i - w_i) grad f1(u_i, zeta_t)      an inner product; kept inside [0, 1]

The three move at once, with the same rows. The factor alpha_i in the step of v_i is the chain rule's: the step is along the
gradient of f1(u_i) in v_i. With alpha = 0 and rate = 0 it is FedAvg and v_i stands still; with alpha = 1 and rate = 0 v_i is
the model of `local_only`. The personal model is u_i with w_i = x, after further steps of v_i and alpha_i.

A local step costs two gradients, so `solves` is 2. State: one model and one number per client. Do not use it where a client has
a few rows only: v_i then learns them by heart, and alpha_i, which is fitted on the same rows, trusts it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ... import keys, trees
from ...errors import not_negative, share
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL, Shared, Up, fedavg
from ..method import ClientSpec, Method, Turn
from ..solvers import ProjectedSgd

SOLVES = 2  # gradients of a local step: at w_i and at u_i


class Client(NamedTuple):
    v: PyTree  # v_i [n]
    alpha: Float[Array, ""]  # alpha_i


class Moving(NamedTuple):
    w: PyTree  # w_i [n]
    own: Client


def apfl(
    problem: Bilevel,
    *,
    mixing: float = 0.5,
    mixing_rate: float | Float[Array, ""] = 1.0,
    local: ProjectedSgd = LOCAL,
    weighting: str = "uniform",
) -> Method:
    """APFL on problem.f1. alpha_i starts at `mixing` and learns with `mixing_rate` times the client's step, 1 as published; 0
    keeps it where it is. `weighting` is as in FedAvg, here "uniform" as published."""
    share("mixing", mixing, one=True)
    not_negative("mixing_rate", mixing_rate)
    base = fedavg(problem, local=local, weighting=weighting)
    gradient = jax.grad(problem.f1)

    def mixture(own: Client, w: PyTree) -> PyTree:
        return trees.axpy(own.alpha, trees.sub(own.v, w), w)

    def slope(own: Client, w: PyTree, rows: PyTree) -> Client:
        """The gradient of f1(u) in v and, times the rate, in alpha."""
        g = gradient(mixture(own, w), rows)
        along = trees.dot(trees.sub(own.v, w), g)
        return Client(trees.scale(own.alpha, g), jnp.asarray(mixing_rate * along, own.alpha.dtype))

    def inside(own: Client) -> Client:
        return own._replace(alpha=jnp.clip(own.alpha, 0.0, 1.0))

    def at_client(client: Client, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[Client, Up]:
        def joint(y: Moving, rows: PyTree) -> Moving:
            return Moving(gradient(y.w, rows), slope(y.own, y.w, rows))

        y, key = Moving(shared.x, client), keys.at(turn.key, Tag.SOLVE)
        y = local.descend(joint, y, view, spec, turn.steps, key, lambda y: y._replace(own=inside(y.own)))
        return y.own, Up(trees.sub(y.w, shared.x))

    def personal_model(client: Client, x: PyTree, view: View, spec: ClientSpec, turn: Turn) -> PyTree:
        steps, key = SOLVES * turn.steps, keys.at(turn.key, Tag.PERSONAL)  # one gradient a step while x stands still
        own = local.descend(lambda own, rows: slope(own, x, rows), client, view, spec, steps, key, inside)
        return mixture(own, x)

    return base._replace(
        name="apfl",
        client_init=lambda x, spec: Client(x, jnp.asarray(mixing, jnp.result_type(*jax.tree.leaves(x)))),
        local=at_client,
        personal_model=personal_model,
        solves=SOLVES,
        foreign=False,
    )
