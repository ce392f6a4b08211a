"""ZooPFL: what stands before a black box is tuned by values, what stands behind it by gradients and for each client alone.

Lu et al., "ZooPFL: Exploring Black-box Foundation Models for Personalized Federated Learning", 2023,
https://arxiv.org/abs/2310.05143

    c_p = (f1(q_i + mu z_p, s_i, zeta_t) - f1(q_i - mu z_p, s_i, zeta_t)) / (2 mu)     p = 1 ... P
    q_i <- q_i - tilde_gamma_t rho (1/P) sum_p c_p z_p     from q_i = x
    s_i <- s_i - tilde_gamma_t grad_s f1(q_i, s_i, zeta_t)     from where it stopped, both at once, H_i times
    x <- x + sum_i w_i (q_i - x) / sum_i w_i     over the replies that arrived; s_i never leaves the client

A model is a pair for it: its first leaf is q, the remapping of the inputs, with few numbers; all other leaves are s_i.
`problem.remapped` puts such a model around any black box. Differences from the paper: q is a shift within a basis, not the code
of an auto-encoder that is trained first; normal directions in place of coordinates. The global model is q with the first s:
only personal models predict. With one leaf, P = n orthogonal directions and a quadratic loss it is FedAvg. Not where gradients
can be had, nor with many numbers in q. State: s_i.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from ... import keys, trees
from ...errors import choice, positive, whole
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL, Info, Up, share_of, weights_of
from ..method import ClientSpec, Method, Round, Sums, Turn
from ..parts import check_parts, check_plain
from ..solvers import ProjectedSgd
from .directions import PROBES, directions, mean_slope
from .pair import first, with_first

Real = float | Float[Array, ""]


class Server(NamedTuple):
    x: PyTree  # q_r in the first leaf, the first s in the others


class Shared(NamedTuple):
    q: Array  # q_r [d]


class Client(NamedTuple):
    y: PyTree  # s_i in the leaves after the first, which does not change


def zoopfl(
    problem: Bilevel,
    *,
    local: ProjectedSgd = LOCAL,
    perturbations: int = 10,
    smoothing: Real = 0.1,
    remap_rate: Real = 1.0,
    probes: str = "normal",
    weighting: str = "data",
) -> Method:
    """ZooPFL on problem.f1: P = `perturbations` directions a step, mu = `smoothing`, rho = `remap_rate`, directions as `probes`
    says ("normal" or "orthogonal"); `weighting` as in FedAvg."""
    check_parts(local=local)
    check_plain(local)
    whole("perturbations", perturbations)
    positive("smoothing", smoothing)
    positive("remap_rate", remap_rate)
    choice("probes", probes, PROBES)
    choice("weighting", weighting, ("data", "uniform"))
    gradient = jax.grad(problem.f1)

    def at_client(client: Client, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[Client, Up]:
        key, aim = keys.at(turn.key, Tag.SOLVE), keys.at(turn.key, Tag.DIRECTION)

        def step(t: ArrayLike, y: PyTree) -> PyTree:
            rows, q = local.sample(view, keys.at(key, t)), first(y)
            z = directions(probes, keys.at(aim, t), q, perturbations)
            g = mean_slope(lambda shift: problem.f1(with_first(y, q + shift), rows), z, q, perturbations, smoothing)
            slope = with_first(gradient(y, rows), jnp.asarray(remap_rate, q.dtype) * g)
            return trees.axpy(-local.step(t) * spec.step_scale, slope, y)

        y = jax.lax.fori_loop(0, turn.steps, step, with_first(client.y, shared.q))
        return Client(with_first(y, first(client.y))), Up(first(y) - shared.q)  # q_i - q_r [d]

    def aggregate(server: Server, owns: tuple, ups: Up, specs: PyTree, round: Round) -> tuple[Server, Info]:
        return moved(server, trees.mean_over(round.arrived, ups.delta, weights_of(specs, weighting)))

    def moved(server: Server, delta: Array) -> tuple[Server, Info]:
        return Server(with_first(server.x, first(server.x) + delta)), Info(trees.norm(delta))

    def personal_model(client: Client, x: PyTree, view: View, spec: ClientSpec, turn: Turn) -> PyTree:
        def behind(y: PyTree, rows: PyTree) -> PyTree:
            return with_first(gradient(y, rows), jnp.zeros_like(first(y)))

        start = with_first(client.y, first(x))
        return local.descend(behind, start, view, spec, turn.steps, keys.at(turn.key, Tag.PERSONAL))

    return Method(
        name="zoopfl",
        differences=True,
        server_init=Server,
        client_init=lambda x, spec: Client(x),
        broadcast=lambda server, opening: Shared(first(server.x)),
        local=at_client,
        aggregate=aggregate,
        global_model=lambda server: server.x,
        personal_model=personal_model,
        seat=True,
        partial=True,
        sums=Sums(share_of(weighting), lambda server, total, opening: moved(server, total.mean)),
    )
