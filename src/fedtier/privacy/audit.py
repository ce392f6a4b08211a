"""An attempt to refute a claimed epsilon: a canary client in and out, thousands of short runs, a bound with confidence.

The canary sends a reply a thousand times too long in a direction of its own whenever it is asked; all others send 0, so that
nothing hides it; out of the federation it sends 0 as well. Everything else is what a real run plays: `private`, the engine,
cohorts by the rule of the plan. What an adversary sees along the canary's direction is the sum of each round; where each client
adds the whole noise, the canary's own reply. The likelihood ratio of "in" against "out" is then known and is the best score
there is:

    l = sum_r log(1 - q + q exp((s_r - 1/2)/sigma^2))        s_r in units of C; q = 1 where everyone is asked

If a mechanism is (epsilon, delta)-private, no threshold on any score can have TPR > e^epsilon FPR + delta. The threshold is
chosen on one half of the runs and judged on the other, by Clopper and Pearson's bounds (Jagielski, Ullman, Oprea 2020,
https://arxiv.org/abs/2006.07709; Nasr et al. 2023, https://arxiv.org/abs/2302.07956). A lower bound near the claim says that
the claim is tight; one above it that something is broken. It audits noise, clipping, sampling and accounting, not training.
For canary rows see `audit_rows`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from .. import keys, trees
from ..engines import compiled
from ..errors import share, whole
from ..federation import Federation, Plan, View, Window, make_plan
from ..methods.method import ClientSpec, Method, Opening, Round, Sums, Turn, counted_alike
from ..problem import Spec
from .accountant import Cohorts
from .mechanism import Mechanism, private

LOUD = 1000.0  # times the clip, so that a forgotten clip shows
CANARY = 0


class Audit(NamedTuple):
    """What was found."""

    epsilon: float  # a lower bound, with `confidence`
    claimed: float
    confidence: float
    runs: int  # of each kind
    what: str = "a client"  # that was in and out

    @property
    def holds(self) -> bool:
        return self.epsilon <= self.claimed


class _Seen(NamedTuple):
    sums: Float[Array, "R"]  # what was seen in each round


def audit(
    played: Mechanism,
    cohorts: Cohorts,
    rounds: int,
    delta: float,
    claimed: float,
    *,
    runs: int = 2000,
    confidence: float = 0.99,
    claimed_noise: float | None = None,
    seed: int = 0,
) -> Audit:
    """Audits the mechanism that is `played` against the claim. `claimed_noise` is the sigma by which the adversary reckons, by
    default the mechanism's own."""
    whole("runs", runs, 100)
    share("confidence", confidence, zero=False)
    sigma = played.noise if claimed_noise is None else claimed_noise
    q = cohorts.share if cohorts.rule == "poisson" else 1.0
    inside, outside = (scores(one, q, sigma) for one in _observed(played, cohorts, rounds, runs, seed))
    return Audit(lower_bound(inside, outside, delta, confidence), claimed, confidence, runs)


def lower_bound(inside: np.ndarray, outside: np.ndarray, delta: float, confidence: float) -> float:
    """The largest epsilon that the scores of runs with and without the canary refute, with this confidence."""
    a, b = inside[: len(inside) // 2], outside[: len(outside) // 2]
    c, d = inside[len(inside) // 2 :], outside[len(outside) // 2 :]
    half = (1 - confidence) / 4  # two bounds, both ways round
    best = 0.0
    for sign in (1.0, -1.0):
        signed = [sign * part for part in ((a, b, c, d) if sign > 0 else (b, a, d, c))]
        thresholds = np.quantile(np.concatenate(signed[:2]), np.linspace(0.01, 0.99, 99))
        found = max(thresholds, key=lambda t: _refuted(signed[0] > t, signed[1] > t, delta, half))
        best = max(best, _refuted(signed[2] > found, signed[3] > found, delta, half))
    return best


def _refuted(hit: Bool[np.ndarray, "n"], missed: Bool[np.ndarray, "n"], delta: float, error: float) -> float:
    """log((TPR - delta)/FPR) with TPR's lower and FPR's upper bound."""
    k, j, n = int(hit.sum()), int(missed.sum()), len(hit)
    from scipy.special import betaincinv  # scipy.stats takes two seconds to load

    low = betaincinv(k, n - k + 1, error) if k else 0.0
    high = betaincinv(j + 1, n - j, 1 - error) if j < n else 1.0
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


def scores(seen: Float[np.ndarray, "runs R"], q: float, sigma: float) -> Float[np.ndarray, "runs"]:
    """The log likelihood ratio; the mean direction is 1."""
    gain = (np.asarray(seen, float) - 0.5) / sigma**2
    return np.sum(np.logaddexp(math.log1p(-q) if q < 1 else -np.inf, math.log(q) + gain), axis=1)


def _observed(
    mechanism: Mechanism, cohorts: Cohorts, rounds: int, runs: int, seed: int
) -> tuple[Float[np.ndarray, "runs R"], Float[np.ndarray, "runs R"]]:
    """The sums of all rounds along the canary's direction in units of C, one row a run: with the canary, and without."""
    m, rng = cohorts.clients, np.random.default_rng([seed, 7])
    order = "drawn" if cohorts.rule == "all" else cohorts.rule
    drawn = {"clients": m, "rounds": rounds, "participation": cohorts.share, "tau": 1.0, "order": order}
    plan = _stacked([make_plan(rng, **drawn) for _ in range(2 * runs)])
    federation = _nobody(m, runs)
    played = _watched(private(_recorder(mechanism.clip), mechanism), mechanism.place)
    engine = compiled(played, capacity=max(1, rounds), seeds=True, magnitude=math.inf)
    key = jax.vmap(lambda k: keys.at(keys.root(seed), k))(jnp.arange(2 * runs))
    _, seen = engine.advance(engine.init(jnp.zeros((2 * runs, 2)), federation), federation, plan, key, 0, rounds)
    count = np.maximum(plan.arrived.sum(axis=-1), 1)
    divisor = {"central": mechanism.expected, "distributed": count, "local": 1.0}[mechanism.place]
    sums = np.asarray(seen.sums)[:, :rounds] * divisor / mechanism.clip
    return sums[:runs], sums[runs:]


def _watched(method: Method, place: str) -> Method:
    """`method` that says what the server sees of the canary: its own reply, where each is seen by itself."""
    if place != "local":
        return method

    def aggregate(server: PyTree, owns: PyTree, ups: PyTree, specs: PyTree, round: Round) -> tuple[PyTree, _Seen]:
        after, _ = method.aggregate(server, owns, ups, specs, round)
        its = round.arrived & (round.ids == CANARY)
        return after, _Seen(jnp.sum(jnp.where(its, ups.value[:, 0], 0.0)))

    return method._replace(aggregate=aggregate)


def _nobody(clients: int, runs: int) -> Federation:
    """A federation of so many clients with one empty row among them, twice for each run: in the first half of them the canary's
    weight is 1, in the second it is out."""
    one, zero = np.ones((2 * runs, clients), np.float32), np.zeros((2 * runs, clients), np.int32)
    weight = one.copy()
    weight[runs:, CANARY] = 0.0
    window, alone = Window(zero, zero + 1), Window(zero[:, 0], zero[:, 0] + 1)
    index = jnp.zeros((2 * runs, 1), jnp.int32)
    return Federation(jnp.zeros((1, 1)), index, alone, alone, window, window, Spec(weight, one, one))


def _stacked(plans: list[Plan]) -> Plan:
    """Plans of several widths as one: narrower ones get seats in which nobody sits."""
    widest = max(plan.cohort for plan in plans)
    return jax.tree.map(lambda *tables: np.stack(tables), *(plan.padded(widest) for plan in plans))


def _recorder(clip: float) -> Method:
    """A method that says what mean it was told: the canary sends (LOUD C, 0) if it is in, the others 0."""

    def local(client: tuple, shared: tuple, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[tuple, PyTree]:
        loud = jnp.where((turn.client == CANARY) & (turn.steps > 0), spec.weight * LOUD * clip, 0.0)
        return (), jnp.stack([loud, jnp.zeros(())])

    def aggregate(server: tuple, owns: tuple, ups: PyTree, specs: PyTree, round: Round) -> tuple[tuple, _Seen]:
        return server, _Seen(trees.mean_over(round.arrived, ups)[0])

    def conclude(server: PyTree, total: PyTree, opening: Opening) -> tuple[PyTree, _Seen]:
        return server, _Seen(total.mean[0])

    return Method(
        name="recorder", server_init=lambda x: x, broadcast=lambda server, opening: (), local=local, aggregate=aggregate,
        global_model=lambda server: server, personal_model=lambda client, x, view, spec, turn: x,
        sums=Sums(lambda up, spec: counted_alike(up), conclude),
    )  # fmt: skip
