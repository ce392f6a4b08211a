"""DeComFL: a client sends a few numbers a round, however large the model is.

Li, Ying, Liu, Dong, Yang, "Achieving Dimension-Free Communication in Federated Learning via Zeroth-Order Optimization",
ICLR 2025, https://arxiv.org/abs/2405.15861

    c_{k,p} <- (f1(y_i + mu z_{k,p}, zeta_k) - f1(y_i - mu z_{k,p}, zeta_k)) / (2 mu)     p = 1 ... P
    y_i <- y_i - tilde_gamma_k (1/P) sum_p c_{k,p} z_{k,p}     from y_i = x, for k = 1 ... min(H_i, K)
    x <- x - sum_k tilde_gamma_k (1/P) sum_p cbar_{k,p} z_{k,p}     cbar = mean of c over the replies that arrived

With momentum rho a step is along m <- rho m + (1/P) sum_p c_{k,p} z_{k,p}, at a client and at the server; m stands beside x,
a client starts from it, and it goes on from round to round, as in the authors' code. z_{k,p} come from a seed that all
parties share. A client sends c, K P numbers with its factor on the steps in them and 0 for steps that it did not make, and
forgets y_i. With replay = 0 the server sends x and a seed. With replay = W > 0 it sends the seeds and cbar of the W latest
rounds, W (K P + 2) numbers, and never x (see `replay`): a client's state then is one model and a round, and the replies of a
client that is more than W rounds behind are not finite, hence lost, counted and named. With K = 1 it is the mean of the
clients' updates; with P = n orthogonal directions and mu -> 0 these are gradient steps. An estimate has the noise of n/P
gradients: use it where the uplink cannot carry a model, with short steps.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ... import keys, trees
from ...errors import choice, positive, whole
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL, PERSONAL, Info
from ..method import ClientSpec, Method, Opening, Round, Sums, Turn, counted_alike
from ..parts import check_parts, check_plain
from ..personal import PersonalRule, without_lower_level
from ..solvers import ProjectedSgd
from . import replay as replays
from .directions import PROBES, Seed, seed_of
from .replay import Client, Ring
from .scalars import Scalars, model_of


class Server(NamedTuple):
    x: PyTree  # x_r [n]; with momentum Moving(x_r, m_r)
    ring: Ring | tuple[()]  # () without replay


class Shared(NamedTuple):
    seed: Seed  # of this round's directions
    x: PyTree  # as at the server; () with replay
    ring: Ring | tuple[()]


class Up(NamedTuple):
    c: Float[Array, "K P"]


def decomfl(
    problem: Bilevel,
    *,
    local: ProjectedSgd = LOCAL,
    updates: int = 1,
    perturbations: int = 10,
    smoothing: float | Float[Array, ""] = 0.01,
    probes: str = "normal",
    replay: int = 0,
    personal: PersonalRule = PERSONAL,
) -> Method:
    """DeComFL on problem.f1, every client counted alike: K = `updates` local steps at most, P = `perturbations` directions a
    step, mu = `smoothing` (published 0.001, with which float32 leaves four digits of a slope), directions as `probes` says
    ("normal" as published, or "orthogonal"), W = `replay`."""
    check_parts(local=local, personal=personal)
    check_plain(local._replace(momentum=0.0))
    whole("updates", updates)
    whole("perturbations", perturbations)
    positive("smoothing", smoothing)
    choice("probes", probes, PROBES)
    whole("replay", replay, 0)
    by = Scalars(problem.f1, local, updates, perturbations, smoothing, probes)

    def broadcast(server: Server, opening: Opening) -> Shared:
        return Shared(seed_of(keys.at(opening.key, Tag.DIRECTION)), () if server.ring else server.x, server.ring)

    def at_client(
        client: Client | tuple[()], shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn
    ) -> tuple[Client | tuple[()], Up]:
        stays, x, known, after = turn.steps == 0, shared.x, jnp.asarray(True), client
        if isinstance(client, Client) and isinstance(shared.ring, Ring):
            now, known = replays.rebuilt(client, shared.ring, turn.round, by.move)
            x, after = now.x, trees.where(stays, client, now)
        c = by.measured(x, shared.seed, view, spec, turn.steps, keys.at(turn.key, Tag.SOLVE))
        return after, Up(jnp.where(known | stays, c, jnp.nan))

    def aggregate(server: Server, owns: tuple, ups: Up, specs: PyTree, round: Round) -> tuple[Server, Info]:
        return moved(server, trees.mean_over(round.arrived, ups.c), round.opening)

    def moved(server: Server, c: Float[Array, "K P"], opening: Opening) -> tuple[Server, Info]:
        seed, ring = seed_of(keys.at(opening.key, Tag.DIRECTION)), server.ring
        x = by.move(server.x, seed, c)
        kept = ring.with_round(opening.round, seed, c) if isinstance(ring, Ring) else ()
        return Server(x, kept), Info(trees.norm(trees.sub(model_of(x), model_of(server.x))))

    return Method(
        name="decomfl",
        differences=True,
        server_init=lambda x: Server(by.first(x), Ring.empty(replay, (updates, perturbations)) if replay else ()),
        client_init=lambda x, spec: replays.first(by.first(x)) if replay else (),
        broadcast=broadcast,
        local=at_client,
        aggregate=aggregate,
        global_model=lambda server: model_of(server.x),
        personal_model=without_lower_level(personal, problem),
        seat=True,
        row_noise=True,
        sums=Sums(lambda up, spec: counted_alike(up.c), lambda server, total, at: moved(server, total.mean, at)),
    )
