"""From a configuration to the constants of the theorems: known for quadratics and softmax regression, else estimated."""

from __future__ import annotations

from collections.abc import Mapping
from math import comb, inf
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ... import keys, trees
from ...errors import require
from ...experiments.assemble import Experiment
from ...federation import Federation, cohort_size, mean_over_rows
from ...methods import registry
from ...problem.sets import ConstraintSet, Dependence
from ...theory import constants as known
from ...theory import estimates
from ...theory.constants import ClientConstants, Constants, CouplingConstants
from ...theory.numbers import Number, absent, bound, exact

SAMPLED_ROWS = 256  # for estimates: enough for two digits
POINTS = 2


class Setting(NamedTuple):
    """A configuration as the theorems see it (one seed)."""

    constants: Constants
    eta: float
    cohort: float  # S, or 1/E(1/S) where replies get lost
    rounds: int
    tau: np.ndarray  # [m]
    options: Mapping[str, Any]  # of the method, defaults included
    start_value: Number  # bounds F(x_0) - F_*, smoothing not counted
    radius: np.ndarray  # [m] of the ball, as configured or as mended
    mended: float | None  # the ball's radius that was put in where the configuration has none
    step_scale: np.ndarray  # [m]
    dependence: Dependence  # of the sets on x, the ball that was put in included


def read_setting(experiment: Experiment) -> Setting:
    """The setting of the experiment's first seed. Where f2 needs a ball and has none, one is put in and named in `mended`."""
    for key in ("local_steps", "epochs"):
        fixed, rule = getattr(experiment.config.run, key), "the theory has local steps that grow with the round"
        require(fixed is None, f"run.{key}", fixed, rule, "set run.tau instead")
    config, federation = experiment.config, trees.take(experiment.federation._replace(arrays=()), 0)
    options = {key: p.default for key, p in registry.options("zo_hfl").items()} | config.method.options
    m, n = experiment.clients, sum(leaf[0].size for leaf in jax.tree.leaves(experiment.x))
    weight, step_scale = (np.asarray(getattr(federation.spec, f), np.float64)[:m] for f in ("weight", "step_scale"))
    rows = [_rows(experiment, federation, i) for i in range(m)]
    Y = experiment.problem.Y
    radius, dependence, mended = _radius(Y, federation.spec, m), Y.dependence, None
    if not np.all(np.isfinite(radius)):
        reach = _mending_radius(experiment, federation, rows)
        radius = np.where(np.isfinite(radius), radius, reach)
        # A ball around x cuts x + Z to another translate; a set that stays, cut by it, is neither fixed nor a translate.
        dependence = "translated" if dependence in ("everywhere", "translated") else "unknown"
        mended = reach if config.method.penalty > 0 else None  # f2 = 0 needs no mending
    couplings = [known.quadratic_coupling(config.method.penalty, weight[i], radius[i]) for i in range(m)]
    served = _rows(experiment, federation, None)
    clients = _clients(experiment, federation, dependence, rows=rows, couplings=couplings, radius=radius, options=options)
    L1, sigma, f1 = _server(experiment, federation, served, options)
    pull = np.mean([0.5 * config.method.penalty * weight[i] * clients[i].start.value ** 2 for i in range(m)])
    return Setting(
        Constants(n, L1, sigma, clients),
        float(options["smoothing"]),
        _effective_cohort(cohort_size(config.run.participation, m), config.run.dropouts),
        config.run.rounds,
        np.broadcast_to(np.asarray(config.run.tau, float), (m,)),
        options,
        bound(f1 + float(pull), "(18)"),
        radius,
        mended,
        step_scale,
        dependence,
    )


Rows = tuple[np.ndarray, np.ndarray]  # as the model sees them, [N_i, d] float32, and their indices


def _radius(Y: ConstraintSet, spec: PyTree, m: int) -> np.ndarray:
    """How far from x each client's set reaches, [m]; inf where it does not say."""
    reach = np.asarray(np.inf if Y.reach is None else Y.reach(spec), np.float64)
    return np.broadcast_to(reach if reach.ndim == 0 else reach[:m], (m,))


def _rows(experiment: Experiment, federation: Federation, client: int | None) -> Rows:
    """The rows that a client (or the server) learns from, as the model sees them: float32 [N_i, d], and their indices."""
    window = federation.server if client is None else trees.take(federation.train, client)
    index = np.asarray(federation.index)[int(window.start) : int(window.start + window.size)]
    inputs = experiment.dataset.model_inputs(index).reshape(len(index), -1)
    if _is_softmax(experiment) and experiment.config.model.bias:
        inputs = np.hstack([inputs, np.ones((len(inputs), 1), inputs.dtype)])  # an intercept is the weight of a column of ones
    return inputs, index


def _is_softmax(experiment: Experiment) -> bool:
    return experiment.model is not None and experiment.model.name == "softmax"


def _clients(
    experiment: Experiment,
    federation: Federation,
    dependence: Dependence,
    *,
    rows: list[Rows],
    couplings: list[CouplingConstants],
    radius: np.ndarray,
    options: Mapping[str, Any],
) -> tuple[ClientConstants, ...]:
    mu, batch, m = experiment.config.method.proximity, options["batch"], experiment.clients
    reach = [2 * r if options["start"] == "warm" else r for r in radius]  # the last solution may lie across the ball
    starts = [bound(r, "(2)") if np.isfinite(r) else absent(inf, "(2)", "no ball bounds the way") for r in reach]
    if experiment.dataset.task == "two_level":
        q = np.asarray(federation.spec.curvature, np.float64)
        return tuple(
            known.quadratic_client(
                dependence,
                q[i],
                mu,
                couplings[i],
                variance=rows[i][0].var(axis=0, dtype=np.float64),
                batch=batch,
                start=starts[i],
            )
            for i in range(m)
        )
    if _is_softmax(experiment):
        found = [
            known.softmax_client(dependence, rows[i][0], mu, couplings[i], batch=batch, radius=radius[i]) for i in range(m)
        ]
        return tuple(c._replace(start=starts[i]) if options["start"] == "warm" else c for i, c in enumerate(found))
    largest = int(np.argmax([len(index) for _, index in rows]))
    some = _batch(experiment, rows[largest][1][:SAMPLED_ROWS])
    lower = estimates.lower_constants(
        experiment.problem, _points(experiment), some, trees.take(federation.spec, largest), batch
    )
    return tuple(known.general_client(dependence, lower, couplings[i], starts[i]) for i in range(m))


def _server(
    experiment: Experiment, federation: Federation, served: Rows, options: Mapping[str, Any]
) -> tuple[Number, Number, float]:
    """L1, sigma, and f1(x_0) less a lower bound of f1."""
    inputs, index = served
    batch, x = options["server_batch"], trees.take(experiment.x, 0)
    if experiment.dataset.task == "two_level":
        spread = float(inputs.var(axis=0, dtype=np.float64).sum())
        way = 0.5 * float(np.sum((np.asarray(x, np.float64) - inputs.mean(axis=0, dtype=np.float64)) ** 2))
        return exact(1.0, "(27)"), exact((spread / batch) ** 0.5, "(27)"), way

    def losses(rows: PyTree) -> Array:
        return jax.vmap(lambda row: experiment.problem.f1(x, trees.alone(row)))(rows)

    whole = federation._replace(arrays=experiment.federation.arrays)
    f1 = float(jax.jit(lambda view: mean_over_rows(losses, view))(whole.view(whole.server)))  # cross entropy is never below 0
    if _is_softmax(experiment):
        return known.softmax_smoothness(inputs), known.softmax_noise(inputs, batch), f1
    some = _batch(experiment, index[:SAMPLED_ROWS])
    L1 = estimates.gradient_smoothness(lambda p: experiment.problem.f1(p, some), _points(experiment), keys.root(1))
    gradients = jax.jit(jax.vmap(lambda row: jax.grad(experiment.problem.f1)(x, trees.alone(row))))(some)
    return L1, estimates.gradient_noise(gradients, batch), f1


def _batch(experiment: Experiment, index: np.ndarray) -> PyTree:
    return trees.map(lambda a: jnp.asarray(a)[index], experiment.federation.arrays)


def _points(experiment: Experiment) -> list[PyTree]:
    """x_0 and points at a unit normal distance per coordinate over sqrt(n) from it."""
    x = trees.take(experiment.x, 0)
    scale = trees.size(x) ** -0.5
    return [x, *(trees.axpy(scale, keys.normal(keys.root(k), x), x) for k in range(1, POINTS))]


def _mending_radius(experiment: Experiment, federation: Federation, rows: list[Rows]) -> float:
    """The ball that makes the quadratic coupling Lipschitz: for softmax one that no solution leaves, else the way from x_0."""
    mu, x = experiment.config.method.proximity, trees.take(experiment.x, 0)
    if experiment.dataset.task == "two_level":
        b = np.stack([inputs.mean(axis=0, dtype=np.float64) for inputs, _ in rows])
        q = np.asarray(federation.spec.curvature, np.float64)[: len(b)]
        return max(float(np.max(np.linalg.norm(q / (q + mu) * (np.asarray(x, np.float64) - b), axis=1))), 1e-6)
    if _is_softmax(experiment) and mu > 0:
        return max(known.softmax_slope(inputs).value for inputs, _ in rows) / mu
    return float(trees.norm(x)) + 1.0


def _effective_cohort(cohort: int, dropouts: float) -> float:
    """1/E(1/S) over the number of replies that arrive, given that one does: S without drop-outs."""
    chances = np.array([comb(cohort, k) * (1 - dropouts) ** k * dropouts ** (cohort - k) for k in range(1, cohort + 1)])
    return float(chances.sum() / np.sum(chances / np.arange(1, cohort + 1)))
