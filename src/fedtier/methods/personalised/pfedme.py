"""pFedMe: the global model minimises the clients' Moreau envelopes, and a client's model is where its envelope is attained.

T. Dinh, Tran, Nguyen, "Personalized Federated Learning with Moreau Envelopes", NeurIPS 2020, https://arxiv.org/abs/2006.08848

    theta_i <- theta_i - tilde_gamma_t (grad f1(theta_i, zeta_t) + lambda (theta_i - w_i))     K times, same rows
    w_i <- w_i - eta lambda (w_i - theta_i)     then, from w_i = x, H_i times
    x <- x + (beta/|S|) sum_S (w_i - x)     over the replies that arrived

theta_i goes on from where it stopped, in the next round too. The envelope is the least f_i(theta) + lambda/2 |theta - w|^2 over
theta; its gradient is lambda (w - theta_i(w)), without a derivative of theta_i. At lambda = 0 x never moves and theta_i is the
model of a client alone. The published algorithm lets all m clients train and averages some; here those train who are asked.

A local step costs K gradients, so `solves` is K. State: one model per client. Do not use it for the global model alone: with a
small eta lambda, x follows the clients slowly. `envelope` below is the loop with any h in place of f1 + lambda/2 |theta - w|^2.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from ... import keys, trees
from ...errors import not_negative, positive, whole
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL, Info, Server, Shared, Up, fedavg
from ..method import ClientSpec, Contribution, Method, Opening, Round, Sums, Turn
from ..solvers import ProjectedSgd, walk
from ..summed import known_sums

Real = float | Float[Array, ""]


class Client(NamedTuple):
    theta: PyTree  # theta_i [n]


class Pair(NamedTuple):
    w: PyTree  # w_i [n]
    theta: PyTree  # theta_i [n]


def pfedme(
    problem: Bilevel,
    *,
    proximity: Real = 15.0,
    inner_steps: int = 5,
    outer_lr: Real = 0.005,
    server_rate: Real = 1.0,
    local: ProjectedSgd = LOCAL,
    weighting: str = "uniform",
) -> Method:
    """pFedMe on problem.f1: lambda = `proximity`, K = `inner_steps`, eta = `outer_lr`, beta = `server_rate`; `local` has the
    step of theta_i and the minibatch. Clients count alike as published; "data" counts them by their rows."""
    not_negative("proximity", proximity)

    def half_squared(x: PyTree, y: PyTree) -> Float[Array, ""]:
        d = trees.sub(x, y)
        return 0.5 * proximity * trees.dot(d, d)

    moreau = problem._replace(
        f2=lambda x, y, spec: half_squared(x, y), h=lambda x, y, rows, spec: problem.f1(y, rows) + half_squared(x, y)
    )
    return envelope("pfedme", moreau, inner_steps, outer_lr, server_rate, local, weighting)


def envelope(
    name: str, problem: Bilevel, inner_steps: int, outer_lr: Real, server_rate: Real, local: ProjectedSgd, weighting: str
) -> Method:
    """The loop above for any problem: theta_i moves along the gradient of h(w_i, theta_i) in theta_i, w_i along that of
    f2(w_i, theta_i) in w_i alone."""
    whole("inner_steps", inner_steps)
    positive("outer_lr", outer_lr)
    positive("server_rate", server_rate)
    base = fedavg(problem, local=local, weighting=weighting)
    lower, upper = jax.grad(problem.h, argnums=1), jax.grad(problem.f2)

    def at_client(client: Client, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[Client, Up]:
        def move(t: ArrayLike, y: Pair, rows: PyTree) -> Pair:
            def inner(_: ArrayLike, theta: PyTree) -> PyTree:
                return trees.axpy(-jnp.asarray(spec.step_scale) * local.step(t), lower(y.w, theta, rows, spec), theta)

            theta = jax.lax.fori_loop(0, inner_steps, inner, y.theta)
            return Pair(trees.axpy(-jnp.asarray(spec.step_scale) * outer_lr, upper(y.w, theta, spec), y.w), theta)

        start, key = Pair(shared.x, client.theta), keys.at(turn.key, Tag.SOLVE)
        y = walk(move, start, view, turn.steps, key, batch=local.batch, augment=local.augment)
        return Client(y.theta), Up(trees.sub(y.w, shared.x))

    def aggregate(server: Server, owns: tuple, ups: Up, specs: PyTree, round: Round) -> tuple[Server, Info]:
        return base.aggregate(server, owns, Up(trees.scale(server_rate, ups.delta)), specs, round)

    def conclude(server: Server, total: Contribution, opening: Opening) -> tuple[Server, Info]:
        return known_sums(base).conclude(server, total._replace(value=trees.scale(server_rate, total.value)), opening)

    def personal_model(client: Client, x: PyTree, view: View, spec: ClientSpec, turn: Turn) -> PyTree:
        steps, key = inner_steps * turn.steps, keys.at(turn.key, Tag.PERSONAL)
        return local.descend(lambda theta, rows: lower(x, theta, rows, spec), client.theta, view, spec, steps, key)

    return base._replace(
        name=name,
        client_init=lambda x, spec: Client(x),
        local=at_client,
        aggregate=aggregate,
        personal_model=personal_model,
        solves=inner_steps,
        foreign=False,
        sums=Sums(known_sums(base).share, conclude),
    )
