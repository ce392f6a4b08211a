"""ZO-HFL: the two-level problem solved with the values of f2 at a few probes per client.

Qiu, Kim, Yousefian, "A Randomized Zeroth-Order Hierarchical Framework for Heterogeneous Federated Learning", 2025,
https://arxiv.org/abs/2504.01839

    v_i uniform on the unit sphere;  y± = Algorithm 2 at x ± eta v_i
    g_i = n/(2 eta) (f2(x + eta v_i, y+) - f2(x - eta v_i, y-)) v_i
    x  <- x - gamma_r (grad f1(x, xi_r) + mean of g_i over the replies that arrived)

This is the estimator `sphere`, the paper's; `estimators` has the others. A client with H_i = 0 has g_i = 0. At penalty 0 it is
`server_only`. With one random direction in thousands of dimensions the clients hardly count: use another estimator, or few
dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Key, PyTree

from ... import keys, trees
from ...errors import choice, require, whole
from ...federation import View, sample
from ...keys import Tag
from ...problem import Bilevel
from ..descent import Descent, ServerDescent, descent
from ..method import ClientSpec, Method, Opening, Round, Turn
from ..parts import check_parts
from ..personal import PersonalRule, lower_level
from ..solvers import LowerLevel, ProjectedSgd, projected_sgd
from . import pull
from .estimator import ClientSide, Estimator
from .estimators import sphere
from .pull import Estimate, Replies, measured_share

UPLINKS = ("values", "models", "estimate")
TUNING = 2  # a fine-tuned personal model has the steps of two solves
PAPER = (sphere(), projected_sgd("inverse(0.1)"), descent("inverse_sqrt(0.01)"), lower_level())  # the parts of the paper


class Shared(NamedTuple):
    x: PyTree  # x_r [n]
    guide: PyTree = ()  # where the server guides: grad f1(x_r) on a minibatch [n]


class Own(NamedTuple):
    key: Key[Array, ""]  # draws v_{i,r}: 8 bytes stand for n numbers


class Client(NamedTuple):
    y: PyTree  # start = "warm": mean of the last solutions [n]; else ()
    guides: PyTree  # the last displacements x - y, the latest first [guides, n]; () without guides


class Server(NamedTuple):
    descent: Descent
    memory: Replies | tuple[()]  # the replies that the server remembers; () where it remembers none


class Values(NamedTuple):
    plus: Float[Array, "K"]  # f2(x + eta v_k, y+); 0 where H_i = 0
    minus: Float[Array, "K"]  # f2(x - eta v_k, y-); 0 where H_i = 0


class Models(NamedTuple):
    plus: PyTree  # y+ [K, n]
    minus: PyTree  # y- [K, n]
    solved: Bool[Array, ""]  # is H_i > 0?


class Info(NamedTuple):
    estimate: Float[Array, ""]  # the length of the clients' pull at x_r
    step: Float[Array, ""]  # |x_{r+1} - x_r|


def zo_hfl(
    problem: Bilevel,
    *,
    estimator: Estimator = PAPER[0],
    local: ProjectedSgd = PAPER[1],
    server: ServerDescent = PAPER[2],
    personal: PersonalRule = PAPER[3],
    coupled: bool = True,
    uplink: str = "auto",
    start: str = "probe",
    remembered: int = 0,
    fading: bool = False,
) -> Method:
    """ZO-HFL on `problem`. Defaults are the paper's, except `coupled` (the paper draws independently).

    estimator     of a client's hypergradient: `sphere`, `orthogonal`, `guided`, `first_order` or `exact`, see `estimators`
    local         a client's solver of the lower level
    server        the server's descent on f1 plus the mean estimate
    personal      what the personal model is; a fine-tuned one has the steps of two solves
    coupled       the 2 K solves share their minibatches: 10 to 100 times less noise in the difference, one gather
    uplink        what leaves a client: "values", 2 K numbers, or "models", its 2 K models (both: sphere, orthogonal), or
                  "estimate", g_i itself (the others); "auto": the least that the estimator needs
    start         "probe": a solve starts at x ± eta v; "warm": at the client's last solution, projected
    remembered    k > 0: beside the replies of the round, the latest of up to k other clients count, which at low
                  participation trades staleness for variance (k models of state at the server); 0: the mean of the round's
    fading        an estimate pulls as far as it says anything about and no further: see `pull`
    """
    check_parts(estimator=estimator, local=local, server=server, personal=personal)
    choice("uplink", uplink, ("auto", *UPLINKS))
    choice("start", start, ("probe", "warm"))
    whole("remembered", remembered, 0)
    sends = "g_i: uplink = 'estimate'" if estimator.private else "values or models"
    fits = uplink == "auto" or (uplink == "estimate") == estimator.private
    require(fits, "uplink", uplink, f"the estimator {estimator.name} sends {sends}", "or leave the uplink out")
    rule = "measures by f1's gradient, but the server has no rows"
    require(problem.central or not server.trust, "trust", server.trust, rule, "trust = 0, or give the server rows")
    rules = _ZoHfl(
        problem, estimator, local, server, personal.on(problem, local.lower_level(problem), TUNING),
        coupled, models=uplink == "models", warm=start == "warm", remembered=remembered, fading=fading,
    )  # fmt: skip
    return Method(
        name="zo_hfl",
        server_init=rules.server_init,
        client_init=rules.client_init,
        broadcast=rules.broadcast,
        address=lambda server, turn: Own(keys.at(turn.key, Tag.DIRECTION)),
        local=rules.local,
        aggregate=rules.aggregate,
        global_model=lambda state: server.model(state.descent),
        personal_model=rules.personal_model,
        needs_server_data=problem.central or estimator.served,
        solves=estimator.solves,
        foreign=True,
        lower_level=personal.name == "lower_level",
    )


@dataclass(frozen=True, eq=False)
class _ZoHfl:
    """The functions of the method, over its parts."""

    problem: Bilevel
    estimator: Estimator
    solver: ProjectedSgd
    descent: ServerDescent
    personal: LowerLevel
    coupled: bool
    models: bool  # do the models go up?
    warm: bool  # do solves start at the client's last solution?
    remembered: int
    fading: bool

    def server_init(self, x: PyTree) -> Server:
        return Server(self.descent.init(x), pull.none(x, self.remembered) if self.remembered else ())

    def client_init(self, x: PyTree, spec: ClientSpec) -> Client:
        kept = self.estimator.guides
        guides = trees.map(lambda a: jnp.zeros((kept, *a.shape), a.dtype), x) if kept else ()
        return Client(x if self.warm else (), guides)

    def broadcast(self, server: Server, opening: Opening) -> Shared:
        x = server.descent.x
        if not self.estimator.served:
            return Shared(x)
        rows = sample(opening.view, keys.at(opening.key, Tag.DIRECTION), self.descent.batch)
        return Shared(x, jax.grad(self.problem.f1)(x, rows))

    def local(
        self, client: Client, shared: Shared, own: Own, view: View, spec: ClientSpec, turn: Turn
    ) -> tuple[Client, Values | Models | Estimate]:
        x, K, key = shared.x, self.estimator.directions, keys.at(turn.key, Tag.SOLVE)
        solve, factor = self.solver.solver(self.problem), self.solver.factor(self.problem, x, x, view, spec, key)

        def solve_at(point: PyTree, draw: ArrayLike, steps: ArrayLike) -> PyTree:
            first = client.y if self.warm else point
            return solve(point, first, view, spec, steps, key if self.coupled else keys.at(key, draw), factor)

        if K:
            v = self.estimator.propose(own.key, x, self._guides(client, shared))
            points = self._probes(x, v)
            draws = jnp.arange(2 * K).reshape(2, K)
            ys = jax.vmap(jax.vmap(lambda point, draw: solve_at(point, draw, turn.steps)))(points, draws)
            f2, y = self._values(points, ys, spec), trees.map(lambda a: jnp.mean(a, axis=(0, 1)), ys)
        else:
            v, y = (), solve_at(x, 0, 2 * turn.steps)  # the budget of two
            f2 = Values(*[self.problem.f2(x, y, spec)[None]] * 2)
        after = self._remember(client, x, y, turn)
        solved = turn.steps > 0
        if not self.estimator.private:
            up = Models(trees.take(ys, 0), trees.take(ys, 1), solved) if self.models else _kept(solved, f2)
            return after, up
        side = ClientSide(self.problem, x, y, view, spec, keys.at(turn.key, Tag.HESSIAN))
        g = self.estimator.estimate(self._slopes(f2), v, own.key, side)
        return after, _kept(solved, self._whole(f2, v, g))

    def aggregate(
        self, server: Server, owns: Own, ups: Values | Models | Estimate, specs: PyTree, round: Round
    ) -> tuple[Server, Info]:
        x = server.descent.x
        each = ups if isinstance(ups, Estimate) else jax.vmap(lambda *one: self._estimate(x, *one))(owns, ups, specs)
        pulls, memory = pull.pull_of(each, x, server.memory, round, self.fading)
        after = self.descent.step(self.problem.server_loss, server.descent, pulls, round.view, round.round, round.key)
        return Server(after, memory), Info(trees.norm(pulls(x)), trees.norm(trees.sub(after.x, x)))

    def personal_model(self, client: Client, x: PyTree, view: View, spec: ClientSpec, turn: Turn) -> PyTree:
        first = client.y if self.warm else x
        return self.personal(x, first, view, spec, turn.steps, keys.at(turn.key, Tag.PERSONAL))

    def _estimate(self, x: PyTree, own: Own, up: Values | Models, spec: ClientSpec) -> Estimate:
        """g_i from one client's values or models, at the server."""
        v = self.estimator.propose(own.key, x, ())
        f2 = up if isinstance(up, Values) else self._values_of(x, v, up, spec)
        g = self.estimator.estimate(self._slopes(f2), v, own.key, None)
        return self._whole(f2, v, g)

    def _probes(self, x: PyTree, v: PyTree) -> PyTree:
        """x + eta v_k and x - eta v_k, leading axes [2, K]."""
        eta = self.estimator.smoothing
        return trees.map(lambda a, b: jnp.stack([a[None] + eta * b, a[None] - eta * b]), x, v)

    def _values(self, points: PyTree, ys: PyTree, spec: ClientSpec) -> Values:
        return Values(*jax.vmap(jax.vmap(lambda x, y: self.problem.f2(x, y, spec)))(points, ys))

    def _values_of(self, x: PyTree, v: PyTree, up: Models, spec: ClientSpec) -> Values:
        ys = trees.map(lambda a, b: jnp.stack([a, b]), up.plus, up.minus)
        return _kept(up.solved, self._values(self._probes(x, v), ys, spec))

    def _slopes(self, f2: Values) -> Float[Array, "K"]:
        if not self.estimator.directions:
            return jnp.zeros(0)
        return (f2.plus - f2.minus) / (2.0 * self.estimator.smoothing)  # Alg. 1, line 8, without n and v

    def _whole(self, f2: Values, v: PyTree, g: PyTree) -> Estimate:
        middle = jnp.mean(f2.plus + f2.minus) / 2  # f2 at x, up to O(eta^2)
        stretched = self.estimator.stretched
        share = measured_share(trees.weighted_sum(self._slopes(f2), v), g) if stretched else jnp.ones_like(middle)
        return Estimate(g, middle, share)

    def _guides(self, client: Client, shared: Shared) -> PyTree:
        """The guides that the estimator asked for, leading axis."""
        if not self.estimator.served:
            return client.guides
        first = trees.map(lambda a: a[None], shared.guide)
        return trees.map(lambda a, b: jnp.concatenate([a, b]), first, client.guides) if self.estimator.guides else first

    def _remember(self, client: Client, x: PyTree, y: PyTree, turn: Turn) -> Client:
        """The client's memory after a solve; with H_i = 0 it stays."""

        def newer(old: Array, new: Array) -> Array:
            return jnp.where(turn.steps > 0, jnp.concatenate([new[None], old[:-1]]), old)

        guides = trees.map(newer, client.guides, trees.sub(x, y)) if self.estimator.guides else ()
        return client._replace(y=trees.where(turn.steps > 0, y, client.y) if self.warm else (), guides=guides)


def _kept(condition: Bool[Array, ""], tree: PyTree) -> PyTree:
    """`tree`, or zeros: a client that made no step says nothing."""
    return trees.where(condition, tree, trees.zeros_like(tree))
