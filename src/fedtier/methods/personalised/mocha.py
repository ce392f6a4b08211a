"""MOCHA: federated multi-task learning with linear models: every client has its own, and which clients are alike is learnt.

Smith, Chiang, Sanjabi, Talwalkar, "Federated Multi-Task Learning", NeurIPS 2017, https://arxiv.org/abs/1705.10467

    min over W, Omega   sum_t (1/N_t) sum_j l(<w_t, u_j>, y_j) + lam/2 tr(W Omega W^T)        Sigma = Omega^-1, tr Sigma = m
    alpha_t <- H_t steps of dual coordinate ascent on client t's rows, at q = rho Sigma_tt/lam (see `dual`)
    b_t <- b_t + db_t                          the replies that arrived
    w_t  = (1/lam) sum_s Sigma_ts b_s          sent to client t alone
    Sigma <- (1 - s) m (W^T W)^{1/2}/tr(W^T W)^{1/2} + s I      every few rounds, where lam/2 tr(W Omega W^T) is least
    rho  = max_t sum_s |Sigma_ts| / Sigma_tt   with which all clients may move at once and the dual never falls

A client may make few steps or none, and its reply may be lost: alpha_t then stays. l is the hinge, one output against the
rest, or the squared error; the problem's own losses have no part in it, and no step size has. With Sigma = I every client has
its own support vector machine, or its own ridge regression. Differences from the paper: tr Sigma = m, so that lam is that of
one client whatever m is (there tr Sigma = 1), and s > 0: while some w_t is 0, (W^T W)^{1/2} has no inverse, and client t could
never move. There is no global model. The personal model is w_t after H_t steps more; a client that was never heard begins at
the mean of the others. Not for nets, nor for more than some hundred clients: Sigma has m^2 numbers. State: a number for each
output and row, for the first `stored` rows of a client; the others are not used, and a warning says so.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ... import keys, trees
from ...errors import FedtierError, choice, positive, require, share, whole
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel
from ...problem.models import Linear
from ..averaging.fedavg import Info
from ..method import Briefed, ClientSpec, Method, Round, Turn
from .dual import LOSSES, Ascent, ascended
from .tasks import Own, Tasks, independent


class Client(NamedTuple):
    alpha: Float[Array, "rows K"]


class Up(NamedTuple):
    db: Linear  # db_t [n]
    solved: Bool[Array, ""]  # is H_t > 0?


def mocha(
    problem: Bilevel,
    *,
    loss: str = "auto",
    ridge: float | Float[Array, ""] = 0.01,
    relate_every: int = 10,
    shrinkage: float = 0.1,
    members: int = 100,
    stored: int = 1000,
    batch: int = 32,
) -> Method:
    """MOCHA on problem.model, which must be linear: l = `loss` ("auto": hinge for classes, squared for numbers), lam = `ridge`,
    Sigma anew every `relate_every` rounds (0: it stays I), s = `shrinkage`, at most `members` clients with dual variables for
    `stored` rows each; a step goes over `batch` rows."""
    choice("loss", loss, LOSSES)
    positive("ridge", ridge)
    share("shrinkage", shrinkage)
    whole("relate_every", relate_every, 0)
    whole("members", members)
    whole("stored", stored)
    whole("batch", batch)
    model = problem.model
    if model is None:
        raise FedtierError("model", "none", "mocha needs a linear model", "softmax, or linear for numbers")

    def server_init(x: PyTree) -> Tasks:
        require(isinstance(x, Linear), "model", model.name, "mocha needs a linear model", "softmax, or linear for numbers")
        return independent(x, members)

    def ascent(client: Client, own: Own, view: View, turn: Turn, tag: Tag) -> Ascent:
        return ascended(model, loss, client.alpha, own.w, own.q, view, turn.steps, keys.at(turn.key, tag), batch=batch)

    def at_client(client: Client, shared: tuple, own: Own, view: View, spec: ClientSpec, turn: Turn) -> tuple[Client, Up]:
        made = ascent(client, own, view, turn, Tag.SOLVE)
        return Client(made.alpha), Up(made.db, turn.steps > 0)

    def aggregate(server: Tasks, owns: Own, ups: Up, specs: PyTree, round: Round) -> tuple[Tasks, Info]:
        m, enough = round.clients, "must be at least the number of clients"
        require(m <= members, "members", members, enough, f"members = {m}")
        said = round.arrived & ups.solved
        after = server.moved(round.ids, said, ups.db)
        step = trees.norm(trees.sub(after.b, server.b))
        if relate_every:
            due = jnp.any(said) & ((round.round + 1) % relate_every == 0)
            after = jax.lax.cond(due, lambda tasks: tasks.related(m, ridge, shrinkage), lambda tasks: tasks, after)
        return after, Info(step)

    def personal_model(told: Briefed, x: None, view: View, spec: ClientSpec, turn: Turn) -> Linear:
        made = ascent(told.client, told.offer, view, turn, Tag.PERSONAL)
        return trees.axpy(told.offer.q, made.db, told.offer.w)

    return Method(
        name="mocha",
        server_init=server_init,
        client_init=lambda x, spec: Client(jnp.zeros((stored, x.weight.shape[0]), x.weight.dtype)),
        broadcast=lambda server, opening: (),
        address=lambda server, turn: server.own(turn.client, ridge),
        local=at_client,
        aggregate=aggregate,
        global_model=lambda server: None,
        personal_model=personal_model,
        offer=lambda server, turn: server.start(turn.client, ridge),
        stored=stored,
    )
