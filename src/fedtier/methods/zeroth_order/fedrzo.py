"""FedRZO: local zeroth-order descent with one-sided differences, where limits are a penalty; of one level or of two.

Qiu, Shanbhag, Yousefian, "Zeroth-Order Methods for Nondifferentiable, Nonconvex, and Hierarchical Federated Optimization",
NeurIPS 2023, https://arxiv.org/abs/2309.13024

    g <- (n/eta) (f_i(z + eta v, zeta_t) - f_i(z, zeta_t)) v     v uniform on the unit sphere
    z <- z - tilde_gamma_t (g + (1/eta) (z - Pi_i(z)))     from z = x, H_i times
    x <- x + sum_i (z_i - x) / S     over the S replies that arrived

Form "nn": f_i = f1 on the client's rows, a new v in every step. Form "bl": one v a round, and the lower level is solved twice
a round, at x and at x + eta v with the same draws, not anew in every step: the difference is
f_i(z + eta v, y_i(x + eta v)) - f_i(z, y_i(x)) with f_i(z, y) = f1(z) + f2(z, y).

Differences from the paper: here each client has a lower level of its own and solves it itself, where the paper's is shared and
solved by an inner FedAvg; the penalty's set is the problem's Y_i(x) in form "nn", where the paper's does not move with x; in
form "bl" Y_i(x) belongs to the lower level, and there is no penalty. For n = 1 g is a one-sided difference; without limits
"nn" is zeroth-order local SGD; for a linear f_i g is the gradient on average. It wants few dimensions or short steps, as all
random directions do; and a penalty only pulls: where x must lie inside Y_i, use a method that projects. State: none.
"""

from __future__ import annotations

import jax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from ... import keys, trees
from ...errors import choice
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL, PERSONAL, Info, Server, Shared, Up, share_of
from ..method import ClientSpec, Method, Round, Sums, Turn
from ..parts import check_parts, check_plain
from ..personal import PersonalRule, with_lower_level, without_lower_level
from ..solvers import ProjectedSgd
from ..two_levels.smoothing import check_probes, sphere

FORMS = ("nn", "bl")


def fedrzo(
    problem: Bilevel,
    *,
    form: str = "nn",
    smoothing: float = 0.1,
    local: ProjectedSgd = LOCAL,
    personal: PersonalRule = PERSONAL,
) -> Method:
    """FedRZO on problem.f1 (form "nn") or on f1 + f2 at the solution of the lower level (form "bl"), eta = `smoothing`, every
    client counted alike as published."""
    check_parts(local=local, personal=personal)
    check_plain(local)
    choice("form", form, FORMS)
    check_probes(smoothing, 1)
    eta, two, solve = smoothing, form == "bl", local.lower_level(problem)

    def value(z: PyTree, y: PyTree, rows: PyTree, spec: ClientSpec) -> Float[Array, ""]:
        return problem.f1(z, rows) + (problem.f2(z, y, spec) if two else 0.0)

    def at_client(client: tuple, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[tuple, Up]:
        x, key, aim = shared.x, keys.at(turn.key, Tag.SOLVE), keys.at(turn.key, Tag.DIRECTION)

        def solved(point: PyTree) -> PyTree:
            return solve(point, point, view, spec, turn.steps, key)

        v = sphere(aim, x)
        ahead, here = (solved(trees.axpy(eta, v, x)), solved(x)) if two else ((), ())

        def step(t: ArrayLike, z: PyTree) -> PyTree:
            u = v if two else sphere(keys.at(aim, t), x)
            rows = local.sample(view, keys.at(key, t))
            rise = value(trees.axpy(eta, u, z), ahead, rows, spec) - value(z, here, rows, spec)
            g = trees.scale(trees.size(x) / eta * rise, u)
            if not two:
                g = trees.axpy(1.0 / eta, trees.sub(z, problem.Y.project(z, x, spec)), g)
            return trees.axpy(-local.step(t) * spec.step_scale, g, z)

        return client, Up(trees.sub(jax.lax.fori_loop(0, turn.steps, step, x), x))

    def aggregate(server: Server, owns: tuple, ups: Up, specs: PyTree, round: Round) -> tuple[Server, Info]:
        return moved(server, trees.mean_over(round.arrived, ups.delta))

    def moved(server: Server, delta: PyTree) -> tuple[Server, Info]:
        return Server(trees.add(server.x, delta)), Info(trees.norm(delta))

    return Method(
        name="fedrzo",
        differences=True,
        server_init=Server,
        broadcast=lambda server, opening: Shared(server.x),
        local=at_client,
        aggregate=aggregate,
        global_model=lambda server: server.x,
        personal_model=with_lower_level(personal, problem, solve) if two else without_lower_level(personal, problem),
        solves=3 if two else 1,
        seat=True,
        lower_level=personal.name == "lower_level",
        sums=Sums(share_of("uniform"), lambda server, total, opening: moved(server, total.mean)),
    )
