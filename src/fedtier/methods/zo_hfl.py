"""ZO-HFL: the two-level problem solved with the values of f2 at a few probes per client.

Qiu, Kim, Yousefian, "A Randomized Zeroth-Order Hierarchical Framework for Heterogeneous Federated Learning", 2025,
https://arxiv.org/abs/2504.01839

    v_i uniform on the unit sphere;  y± = Algorithm 2 at x ± eta v_i
    g_i = n/(2 eta) (f2(x + eta v_i, y+) - f2(x - eta v_i, y-)) v_i
    x  <- x - gamma_r (grad f1(x, xi_r) + mean of g_i over the replies that arrived)

This is estimator "sphere", the paper's letter; `estimators` has the others. At penalty 0 it is `server_only`. With one
random direction in thousands of dimensions the clients hardly count: use another estimator, or few dimensions.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key, PyTree

from .. import keys, trees
from ..errors import FedtierWarning, choice, positive, require
from ..federation import View, sample
from ..keys import Tag
from ..problem import Bilevel
from ..schedules import StepSize, as_schedule, inverse
from . import estimators
from .estimators import Site
from .method import Method, Round, Turn
from .smoothing import FLOAT32_FLOOR
from .solvers import Descent, descent, lower_level


class Shared(NamedTuple):
    x: PyTree  # x_r [n]
    guide: Any = ()  # guide = "server": grad f1(x_r) on a minibatch [n]; else ()


class Own(NamedTuple):
    key: Key[Array, ""]  # draws v_{i,r}: 8 bytes stand for n numbers


class Client(NamedTuple):
    y: Any  # start = "warm": mean of the last solutions [n]; else ()
    guides: Any  # the last displacements x - y, the latest first [guides, n]; () without guides
    latest: Any  # cohort = "latest": the client's last estimate [n]; else ()


class Server(NamedTuple):
    descent: Descent
    latest: Any  # cohort = "latest": mean of all clients' last estimates [n]; else ()


class Values(NamedTuple):
    plus: Float[Array, "K"]  # f2(x + eta v_k, y+)
    minus: Float[Array, "K"]  # f2(x - eta v_k, y-)


class Models(NamedTuple):
    plus: PyTree  # y+ [K, n]
    minus: PyTree  # y- [K, n]


class Estimate(NamedTuple):
    g: PyTree  # g_i, or its change since the client's last reply when cohort = "latest" [n]


class Info(NamedTuple):
    estimate: Float[Array, ""]  # |mean of g_i|
    step: Float[Array, ""]  # |x_{r+1} - x_r|


RECOMMENDED: dict[str, Any] = {
    "estimator": "auto", "cohort": "latest", "penalty": 30.0, "proximity": 10.0, "server_step": "adam", "server_lr": 0.003,
    "server_steps": 20, "server_batch": 512, "averaging": 3, "fine_tune": 0.1,
}  # fmt: skip
"""What a configuration gets that leaves `estimator` alone: one setting, chosen on validation rows of MNIST and Fashion-MNIST
at two levels of heterogeneity (docs/estimators.md). Penalty and proximity belong to the problem, the rest to the method."""


def zo_hfl(
    problem: Bilevel,
    *,
    estimator: str = "sphere",
    smoothing: float = 0.1,
    directions: int = 1,
    guide: str = "displacement",
    mix: float = 0.0,
    control: bool = False,
    coupled: bool = True,
    uplink: str = "auto",
    start: str = "probe",
    cohort: str = "arrived",
    client_lr: StepSize = 0.1,
    batch: int = 32,
    server_lr: StepSize = 0.01,
    server_batch: int = 128,
    server_steps: int = 1,
    server_step: str | optax.GradientTransformation = "sgd",
    averaging: int = 0,
    trust: float = 0.0,
    fine_tune: StepSize = 0.0,
) -> Method:
    """ZO-HFL on `problem`. Defaults are the paper's, except `coupled` (the paper draws independently).

    estimator     "sphere", "orthogonal", "guided", "first_order", "exact", or "auto": the best by measurement
    smoothing     eta; below 0.01 float32 rounding shows (a warning says so)
    directions    K directions per client and round, 2 K solves; guide, mix, control: see `estimators.make`
    coupled       the 2 K solves share their minibatches: 10 to 100 times less noise in the difference, one gather
    uplink        what leaves a client: "values", 2 K numbers, or "models", its 2 K models (both: sphere, orthogonal), or
                  "estimate", g_i itself (the others); "auto": the least that the estimator needs
    start         "probe": a solve starts at x ± eta v; "warm": at the client's last solution, projected
    cohort        "arrived": mean of g_i over the replies; "latest": over the latest reply of every client, which at low
                  participation trades staleness for variance (needs an estimator that sends g_i; one model of state)
    fine_tune     c > 0: the personal model is not y_i(x) but x after 2 H steps c/(t + 1) on f1, the budget of two solves,
                  inside Y: for a large proximity, which serves the global model and holds y_i(x) close to it
    averaging, trust, server_*    see `solvers.descent`; server_step: sgd, momentum, adam or any optax one
    """
    positive("smoothing", smoothing)
    choice("uplink", uplink, ("auto", *estimators.UPLINKS))
    choice("start", start, ("probe", "warm"))
    choice("cohort", cohort, ("arrived", "latest"))
    if smoothing < FLOAT32_FLOOR and not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        warnings.warn(
            f"smoothing = {smoothing}: float32 rounds x ± eta v; use >= {FLOAT32_FLOOR}", FedtierWarning, stacklevel=2
        )
    chosen = estimators.make(estimator, problem, directions=directions, guide=guide, mix=mix, control=control, uplink=uplink)
    fits = cohort == "arrived" or chosen.private
    require(fits, "cohort", cohort, f"needs an estimator that sends g_i, not {chosen.name}", "estimator = 'guided' does")
    hint = "trust = 0, or give the server rows"
    require(problem.central or not trust, "trust", trust, "measures by f1's gradient, but the server has no rows", hint)
    init, step, model = descent(
        problem.server_loss, server_lr=server_lr, server_batch=server_batch, server_steps=server_steps, server_step=server_step,
        averaging=averaging, trust=trust,
    )  # fmt: skip
    solve = lower_level(problem, client_lr=client_lr, batch=batch)
    alone = problem._replace(h=lambda x, y, rows, spec: problem.f1(y, rows), solve=None)
    tune = None if fine_tune == 0 else lower_level(alone, client_lr=as_schedule("fine_tune", fine_tune, inverse), batch=batch)
    warm, latest, K = start == "warm", cohort == "latest", chosen.directions

    def probes(x: PyTree, v: PyTree) -> PyTree:
        """x + eta v_k and x - eta v_k, leading axes [2, K]."""
        return trees.map(lambda a, b: jnp.stack([a + smoothing * b, a - smoothing * b]), x, v)

    def values(points: PyTree, ys: PyTree, spec: Any) -> Values:
        return Values(*jax.vmap(jax.vmap(lambda x, y: problem.f2(x, y, spec)))(points, ys))

    def slopes(f2: Values) -> Float[Array, "K"]:
        return (f2.plus - f2.minus) / (2.0 * smoothing)  # Alg. 1, line 8, without n and v

    def local(client: Client, shared: Shared, own: Own, view: View, spec: Any, turn: Turn) -> tuple[Client, Any]:
        x, key = shared.x, keys.at(turn.key, Tag.SOLVE)

        def solve_at(point: PyTree, draw: Any, steps: Any) -> PyTree:
            first = trees.where(steps > 0, client.y, point) if warm else point  # H = 0 says nothing new
            return solve(point, first, view, spec, steps, key if coupled else keys.at(key, draw))

        if K:
            v = chosen.propose(own.key, x, known_guides(client, shared))
            points = probes(x, v)
            draws = jnp.arange(2 * K).reshape(2, K)
            ys = jax.vmap(jax.vmap(lambda point, draw: solve_at(point, draw, turn.steps)))(points, draws)
            f2, y = values(points, ys, spec), trees.map(lambda a: jnp.mean(a, axis=(0, 1)), ys)
            if not chosen.private:
                up = Models(*(trees.take(ys, j) for j in range(2))) if uplink == "models" else f2
                return remember(client, x, y, turn), up
            s = slopes(f2)
        else:
            v, s, y = (), (), solve_at(x, 0, 2 * turn.steps)  # one solve with the budget of two
        g = chosen.estimate(s, v, own.key, Site(x, y, view, spec, keys.at(turn.key, Tag.HESSIAN)))
        g = trees.where(turn.steps > 0, g, client.latest if latest else trees.zeros_like(g))
        up = Estimate(trees.sub(g, client.latest) if latest else g)
        return remember(client, x, y, turn)._replace(latest=g if latest else ()), up

    def known_guides(client: Client, shared: Shared) -> PyTree:
        if not chosen.served:
            return client.guides
        first = trees.map(lambda a: a[None], shared.guide)
        return trees.map(lambda a, b: jnp.concatenate([a, b]), first, client.guides) if chosen.guides else first

    def broadcast(server: Server, round: Round) -> Shared:
        x = server.descent.x
        if not chosen.served:
            return Shared(x)
        rows = sample(round.view, keys.at(round.key, Tag.DIRECTION), server_batch)
        return Shared(x, jax.grad(problem.f1)(x, rows))

    def remember(client: Client, x: PyTree, y: PyTree, turn: Turn) -> Client:
        def newer(old: Array, new: Array) -> Array:
            return jnp.where(turn.steps > 0, jnp.concatenate([new[None], old[:-1]]), old)

        guides = trees.map(newer, client.guides, trees.sub(x, y)) if chosen.guides else ()
        return client._replace(y=trees.where(turn.steps > 0, y, client.y) if warm else (), guides=guides)

    def aggregate(server: Server, owns: Own, ups: Any, specs: Any, round: Round) -> tuple[Server, Info]:
        x = server.descent.x

        def one(own: Own, up: Any, spec: Any) -> PyTree:
            v = chosen.propose(own.key, x, ())
            if isinstance(up, Models):
                up = values(probes(x, v), trees.map(lambda a, b: jnp.stack([a, b]), up.plus, up.minus), spec)
            return chosen.estimate(slopes(up), v, own.key, None)

        g = trees.mean_over(round.arrived, ups.g if chosen.private else jax.vmap(one)(owns, ups, specs))
        if latest:
            g = trees.axpy(jnp.sum(round.arrived) / round.clients, g, server.latest)
        after = step(server.descent, g, round.view, round.round, round.key)
        return Server(after, g if latest else ()), Info(trees.norm(g), trees.norm(trees.sub(after.x, x)))

    def client_init(x: PyTree, spec: Any) -> Client:
        guides = trees.map(lambda a: jnp.zeros((chosen.guides, *a.shape), a.dtype), x) if chosen.guides else ()
        return Client(x if warm else (), guides, trees.zeros_like(x) if latest else ())

    def personal_model(client: Client, x: PyTree, view: View, spec: Any, turn: Turn) -> PyTree:
        key = keys.at(turn.key, Tag.PERSONAL)
        first = client.y if warm else x
        return solve(x, first, view, spec, turn.steps, key) if tune is None else tune(x, first, view, spec, 2 * turn.steps, key)

    return Method(
        name="zo_hfl",
        needs_server_data=problem.central or chosen.served,
        server_init=lambda x: Server(init(x), trees.zeros_like(x) if latest else ()),
        client_init=client_init,
        broadcast=broadcast,
        address=lambda server, turn: Own(keys.at(turn.key, Tag.DIRECTION)),
        local=local,
        aggregate=aggregate,
        global_model=lambda server: model(server.descent),
        personal_model=personal_model,
    )
