"""Ditto: a global model by FedAvg, and beside it a personal model that is pulled towards the global one.

Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021,
https://arxiv.org/abs/2012.04221

    y_i <- y_i - tilde_gamma_t grad f1(y_i, zeta_t)                      from y_i = x; averaged as in FedAvg
    v_i <- v_i - tilde_gamma_t (grad f1(v_i, zeta_t) + mu (v_i - x))     from where it stopped; never leaves the client

The H steps of a round are shared: the first half trains y_i, the rest v_i, so its local budget is that of the others. The
pull moves v_i to x, but v_i never pulls x: this is what the upper level of `zo_hfl` adds. State: one model per client.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from ... import keys, trees
from ...errors import not_negative
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL, Shared, Up, fedavg
from ..method import ClientSpec, Method, Turn
from ..solvers import ProjectedSgd


class Client(NamedTuple):
    v: PyTree  # v_i [n]


def ditto(
    problem: Bilevel, *, proximity: float | Float[Array, ""] = 0.1, local: ProjectedSgd = LOCAL, weighting: str = "data"
) -> Method:
    """Ditto on problem.f1 with mu = `proximity`; the rest is FedAvg's."""
    not_negative("proximity", proximity)
    base = fedavg(problem, local=local, weighting=weighting)
    gradient = jax.grad(problem.f1)

    def personal(v: PyTree, x: PyTree, view: View, spec: ClientSpec, steps: ArrayLike, key: Key[Array, ""]) -> PyTree:
        def pulled(v: PyTree, rows: PyTree) -> PyTree:
            return trees.axpy(proximity, trees.sub(v, x), gradient(v, rows))

        return local.descend(pulled, v, view, spec, steps, key)

    def at_client(client: Client, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[Client, Up]:
        half = (turn.steps + 1) // 2
        _, up = base.local((), shared, own, view, spec, turn._replace(steps=half))
        v = personal(client.v, shared.x, view, spec, turn.steps - half, keys.at(turn.key, Tag.PERSONAL))
        return Client(v), up

    def personal_model(client: Client, x: PyTree, view: View, spec: ClientSpec, turn: Turn) -> PyTree:
        return personal(client.v, x, view, spec, turn.steps, keys.at(turn.key, Tag.PERSONAL))

    return base._replace(
        name="ditto",
        client_init=lambda x, spec: Client(x),
        local=at_client,
        personal_model=personal_model,
        foreign=False,
    )
