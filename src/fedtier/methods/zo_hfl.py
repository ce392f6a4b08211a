"""ZO-HFL: the two-level problem solved with two values of f2 per client and direction.

Qiu, Kim, Yousefian, "A Randomized Zeroth-Order Hierarchical Framework for Heterogeneous Federated Learning", 2025,
https://arxiv.org/abs/2504.01839

    v_i uniform on the unit sphere;  y± = Algorithm 2 at x ± eta v_i
    g_i = n/(2 eta) (f2(x + eta v_i, y+) - f2(x - eta v_i, y-)) v_i
    x  <- x - gamma_r (grad f1(x, xi_r) + mean of g_i over the replies that arrived)

At penalty 0 it is `server_only`. The estimate is unbiased for the gradient of the smoothed implicit function, and its
second moment grows like n: with one direction in thousands of dimensions the clients hardly count.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key, PyTree

from .. import keys, trees
from ..errors import FedtierWarning, choice, positive, whole
from ..federation import View
from ..keys import Tag
from ..problem import Bilevel
from ..schedules import StepSize
from .method import Method, Round, Turn
from .smoothing import FLOAT32_FLOOR, estimate, spheres
from .solvers import Descent, descent, lower_level


class Shared(NamedTuple):
    x: PyTree  # x_r [n]


class Own(NamedTuple):
    key: Key[Array, ""]  # draws v_{i,r}: 8 bytes stand for n numbers


class Warm(NamedTuple):
    y: PyTree  # mean of the client's last solutions [n]


class Values(NamedTuple):
    plus: Float[Array, "K"]  # f2(x + eta v_k, y+)
    minus: Float[Array, "K"]  # f2(x - eta v_k, y-)


class Models(NamedTuple):
    plus: PyTree  # y+ [K, n]
    minus: PyTree  # y- [K, n]


class Info(NamedTuple):
    coupling: Float[Array, ""]  # mean of f2 over the probes
    estimate: Float[Array, ""]  # |mean of g_i|


def zo_hfl(
    problem: Bilevel,
    *,
    smoothing: float = 0.1,
    server_lr: StepSize = 0.01,
    client_lr: StepSize = 0.1,
    batch: int = 32,
    server_batch: int = 128,
    directions: int = 1,
    coupled: bool = True,
    uplink: str = "values",
    start: str = "probe",
    server_steps: int = 1,
    server_step: str | optax.GradientTransformation = "sgd",
) -> Method:
    """ZO-HFL on `problem`. Defaults are the paper's, except `coupled` (the paper draws independently).

    smoothing     eta; below 0.01 float32 rounding shows (a warning says so)
    directions    K directions per client and round, 2 K solves
    coupled       the 2 K solves share their minibatches: 10 to 100 times less noise in the difference, one gather
    uplink        "values": 2 K numbers leave the client; "models": the 2 K models do, and the server applies f2
    start         "probe": a solve starts at x ± eta v; "warm": at the client's last solution, projected
    server_steps  steps on f1 a round, all with the same estimate; server_step: sgd, momentum, adam or any optax one
    """
    positive("smoothing", smoothing)
    whole("directions", directions)
    choice("uplink", uplink, ("values", "models"))
    choice("start", start, ("probe", "warm"))
    if smoothing < FLOAT32_FLOOR and not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        warnings.warn(
            f"smoothing = {smoothing}: float32 rounds x ± eta v; use >= {FLOAT32_FLOOR}", FedtierWarning, stacklevel=2
        )
    init, step = descent(
        problem.f1, server_lr=server_lr, server_batch=server_batch, server_steps=server_steps, server_step=server_step
    )
    solve = lower_level(problem, client_lr=client_lr, batch=batch)

    def probes(x: PyTree, v: PyTree) -> PyTree:
        """x + eta v_k and x - eta v_k, leading axes [2, K]."""
        return trees.map(lambda a, b: jnp.stack([a + smoothing * b, a - smoothing * b]), x, v)

    def values(points: PyTree, ys: PyTree, spec: Any) -> Values:
        f2 = jax.vmap(jax.vmap(lambda x, y: problem.f2(x, y, spec)))(points, ys)
        return Values(*f2)

    def local(client: Any, shared: Shared, own: Own, view: View, spec: Any, turn: Turn) -> tuple[Any, Values | Models]:
        points = probes(shared.x, spheres(own.key, shared.x, directions))
        key = keys.at(turn.key, Tag.SOLVE)

        def solve_at(point: PyTree, draw: Any) -> PyTree:
            first = trees.where(turn.steps > 0, client.y, point) if start == "warm" else point  # H = 0 says nothing new
            return solve(point, first, view, spec, turn.steps, key if coupled else keys.at(key, draw))

        draws = jnp.arange(2 * directions).reshape(2, directions)
        ys = jax.vmap(jax.vmap(solve_at))(points, draws)
        if start == "warm":
            mean = trees.map(lambda a: jnp.mean(a, axis=(0, 1)), ys)
            client = Warm(trees.where(turn.steps > 0, mean, client.y))
        if uplink == "models":
            return client, Models(*(trees.take(ys, j) for j in range(2)))
        return client, values(points, ys, spec)

    def aggregate(server: Descent, owns: Own, ups: Values | Models, specs: Any, round: Round) -> tuple[Descent, Info]:
        def one(own: Own, up: Values | Models, spec: Any) -> tuple[PyTree, Values]:
            v = spheres(own.key, server.x, directions)
            if isinstance(up, Models):
                up = values(probes(server.x, v), trees.map(lambda a, b: jnp.stack([a, b]), up.plus, up.minus), spec)
            return estimate(up.plus, up.minus, v, smoothing, trees.size(server.x)), up

        g, f2 = jax.vmap(one)(owns, ups, specs)
        g = trees.mean_over(round.arrived, g)
        coupling = jnp.mean(trees.mean_over(round.arrived, jnp.stack([f2.plus, f2.minus], axis=1)))
        return step(server, g, round.view, round.round, round.key), Info(coupling, trees.norm(g))

    return Method(
        name="zo_hfl",
        server_init=init,
        client_init=lambda x, spec: Warm(x) if start == "warm" else (),
        broadcast=lambda server, round: Shared(server.x),
        address=lambda server, turn: Own(keys.at(turn.key, Tag.DIRECTION)),
        local=local,
        aggregate=aggregate,
        global_model=lambda server: server.x,
        personal_model=lambda client, x, view, spec, turn: solve(
            x, client.y if start == "warm" else x, view, spec, turn.steps, keys.at(turn.key, Tag.PERSONAL)
        ),
    )
