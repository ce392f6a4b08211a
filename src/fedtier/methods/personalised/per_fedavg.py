"""Per-FedAvg: the global model from which one step leads to a good personal one.

Fallah, Mokhtari, Ozdaglar, "Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic Meta-Learning
Approach", NeurIPS 2020, https://arxiv.org/abs/2002.07948

    u_i <- y_i - alpha grad f1(y_i, zeta_t)                                      from y_i = x, H_i times
    y_i <- y_i - tilde_gamma_t (grad f1(u_i, xi_t) - alpha B_t grad f1(u_i, xi_t))      averaged as in FedAvg

with B_t the Hessian of f1 at y_i on a third minibatch: a product, by differentiating the gradient once more, so that no
difference quotient and no matrix is formed. The first-order form leaves it out. At alpha = 0 it is FedAvg. On quadratics with
curvatures a_i and optima b_i it ends at sum k_i b_i / sum k_i, k_i = a_i (1 - alpha a_i)^2, or a_i (1 - alpha a_i) in first
order. The personal model is x after steps of size alpha on the client's rows, by the rule `fine_tune`.

A local step costs four gradients (the product as much as two), in first order two, and `solves` says so. No state at the
clients. Do not use it where alpha times the curvature reaches 1: the step then leads past a client's own optimum.
"""

from __future__ import annotations

import jax
from jaxtyping import PyTree

from ... import keys, trees
from ...errors import require
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel, second_slopes
from ..averaging.fedavg import LOCAL, Shared, Up, fedavg
from ..method import ClientSpec, Method, Turn
from ..parts import check_parts
from ..personal import PersonalRule, fine_tune, without_lower_level
from ..solvers import ProjectedSgd

PERSONAL = fine_tune(0.01)


def per_fedavg(
    problem: Bilevel,
    *,
    first_order: bool = False,
    local: ProjectedSgd = LOCAL,
    weighting: str = "uniform",
    personal: PersonalRule = PERSONAL,
) -> Method:
    """Per-FedAvg on problem.f1. alpha is the first step of the rule `personal`, for which it trains; with the rule
    `global_model` alpha is 0. `local` has the step of y_i and the rows of each of its minibatches, two or three a step."""
    check_parts(personal=personal)
    require(isinstance(first_order, bool), "first_order", first_order, "must be true or false")
    base = fedavg(problem, local=local, weighting=weighting)
    alpha = personal.local.step(0) if personal.local else 0.0
    gradient = jax.grad(problem.f1)
    several = local._replace(batch=(2 if first_order else 3) * local.batch)
    solves = 2 if first_order else 4

    def meta(y: PyTree, rows: PyTree) -> PyTree:
        first, second, third = (_part(rows, k, local.batch) for k in range(3))
        g = gradient(trees.axpy(-alpha, gradient(y, first), y), second)
        if first_order:
            return g
        with second_slopes():
            _, product = jax.jvp(lambda y: gradient(y, third), (y,), (g,))  # the Hessian at y, not at u
        return trees.axpy(-alpha, product, g)

    def at_client(client: tuple, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[tuple, Up]:
        y = several.descend(meta, shared.x, view, spec, turn.steps, keys.at(turn.key, Tag.SOLVE))
        return client, Up(trees.sub(y, shared.x))

    return base._replace(
        name="per_fedavg",
        local=at_client,
        personal_model=without_lower_level(personal, problem, solves),
        solves=solves,
        foreign=False,
    )


def _part(rows: PyTree, k: int, batch: int) -> PyTree:
    """Minibatch k of those that were drawn at once."""
    return trees.map(lambda a: a[k * batch : (k + 1) * batch], rows)
