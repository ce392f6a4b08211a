"""The page of `fedtier theory`: what holds, what fails, the limits, and how far the configuration is beyond them."""

from __future__ import annotations

from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from ...experiments.assemble import Experiment
from ...federation import cohort_size
from ...schedules import as_schedule
from ...theory import local, sphere, theorem1, theorem2
from ...theory.constants import ClientConstants
from ...theory.numbers import Number, bound, derived, exact, weakest
from ...theory.theorem1 import Landscape
from ...theory.theorem2 import Condition, Verdict
from .assumptions import Assumption, assumptions
from .line import Line
from .read import Setting, read_setting
from .remains import Remains, remains


class Advice(NamedTuple):
    """A setting that the theorems cover."""

    key: str
    value: str
    reason: str


class Page(NamedTuple):
    title: str
    setting: Setting
    assumptions: list[Assumption]
    constants: list[Line]
    limits: list[Line]
    promises: list[Line]
    theorem_2: Verdict
    advice: list[Advice]
    remains: Remains | None  # where h is not strongly convex


def page(experiment: Experiment, epsilon: float = 0.1) -> Page:
    """All that the theorems say about this experiment; `epsilon` is the wanted E|grad F|^2."""
    setting = read_setting(experiment)
    usable = bool(np.isfinite(setting.constants.mean_L0().value)) and all(c.mu_h.value > 0 for c in setting.constants.clients)
    land = theorem1.landscape(setting.constants, setting.eta, setting.cohort, setting.options["directions"]) if usable else None
    limits, promises = _limits(setting, land), []
    if land is not None and setting.rounds > 0:
        promises = _promises(setting, land, epsilon, experiment.config.run.stragglers)
    return Page(
        _title(experiment, setting),
        setting,
        assumptions(experiment, setting),
        _constants(setting),
        limits,
        promises,
        _theorem_2(experiment, setting),
        _advice(setting, land),
        remains(setting),
    )


def _title(experiment: Experiment, s: Setting) -> str:
    config, m = experiment.config, experiment.clients
    cohort = cohort_size(config.run.participation, m)
    model = "" if experiment.model is None else f" with {experiment.model.name}"
    return (
        f"{config.method.name} on {config.data.name}{model}: n = {s.constants.n} parameters, m = {m} clients, "
        f"S = {cohort} a round, eta = {s.eta:g}, R = {s.rounds} rounds"
    )


def _constants(s: Setting) -> list[Line]:
    clients = s.constants.clients

    def worst(name: str, field: str, words: str, pick: Any = max) -> Line:
        numbers = [getattr(client, field) for client in clients]
        return Line(name, pick(numbers, key=float), words)

    lip = max((c.motion.y for c in clients), key=float)
    return [
        Line("n", exact(s.constants.n, "(1)"), "parameters"),
        Line("L1", s.constants.L1, "Lipschitz constant of grad f1"),
        Line("sigma", s.constants.sigma, "noise of the server's minibatch gradient"),
        worst("mu_h", "mu_h", "strong convexity of h, least client", min),
        worst("L_h", "L_h", "Lipschitz constant of grad_y h in y, largest client"),
        worst("L_x", "L_x", "and in x"),
        worst("sigma_i", "sigma", "noise of a client's minibatch gradient, largest client"),
        worst("L0_y", "L0_y", "Lipschitz constant of f2 in y (and in x), largest client"),
        Line("Lip(y_i)", lip, "how fast a solution moves with x, largest client"),
        worst("L0_imp", "L0_imp", "Lipschitz constant of x -> f2(x, y_i(x)), largest client"),
        Line("mean L0_imp", s.constants.mean_L0(), "over all clients"),
        worst("start", "start", "distance from the start of a solve to its solution, at most"),
    ]


def _errors(s: Setting, c: ClientConstants, i: int, rounds: int) -> np.ndarray:
    """e_{i,r} by (12) for r < rounds and H_{i,r} = ceil(tau_i sqrt(r+1)), [rounds]."""
    steps = np.ceil(s.tau[i] * np.sqrt(np.arange(rounds) + 1.0)).astype(int)
    lr = as_schedule("client_lr", s.options["client_lr"])
    table = local.recursion(lambda t: s.step_scale[i] * np.asarray(lr(t)), c.local(), int(steps.max()))
    return table[steps]


def _limits(s: Setting, land: Landscape | None) -> list[Line]:
    K, eta = s.constants, s.eta
    lr = as_schedule("server_lr", s.options["server_lr"])
    first = float(lr(np.float64(0)))
    lines = [Line("gamma_0", exact(first, "config"), "configured server step of round 0")]
    L0, square = K.mean_L0(), K.mean_square_L0()
    if land is not None:
        limit = derived(land.step_limit(), "(17)", L0, K.L1)
        paper = theorem1.paper_step_limit(K.L1.value, L0.value, K.n, eta)
        over = first / limit.value
        lines += [
            Line("gamma limit", limit, f"1/(4 L); the configured step is {_times(over)}"),
            Line("gamma limit, paper", derived(paper, "(17)", L0, K.L1), "eta/(4 (eta L1 + L0_imp sqrt n))"),
            Line("L", derived(land.L, "(9)", L0, K.L1), "Lipschitz constant of grad F, F the smoothed objective"),
            Line("gap", derived(sphere.gap(L0.value, K.n, eta), "(8)", L0), "|f_eta - f| at most"),
            Line(
                "second moment",
                derived(sphere.second_moment(1.0, K.n) * square.value, "(10)", square),
                "of one client's estimate g",
            ),
            Line(
                "second moment, paper",
                derived(sphere.paper_second_moment(1.0, K.n) * square.value, "(10)", square),
                "16 sqrt(2 pi) times that",
            ),
            Line(
                "V",
                derived(land.variance, "(11)", square, K.sigma),
                "variance a round: cohort, directions and the server's noise",
            ),
        ]
    weakest_client = min(range(len(K.clients)), key=lambda i: K.clients[i].mu_h.value)
    client = K.clients[weakest_client]
    if client.mu_h.value > 0:
        lines += _local_limits(s, client, weakest_client)
    return lines


def _local_limits(s: Setting, client: ClientConstants, i: int) -> list[Line]:
    mu, L, scale = client.mu_h.value, client.L_h.value, float(s.step_scale[i])
    shape = theorem2.client_shape(s.options["client_lr"])
    c, offset = local.guaranteed(mu, L)
    lines = []
    if shape.known:
        size = shape.scale * scale
        rate = local.decay_exponent(size, mu, shape.exponent)
        fast = "1/H" if rate == 1 else f"only H^-{rate:.3g}"
        why = f": c mu_h = {size * mu:.3g} is not above 1/2" if shape.exponent == 1 and rate < 1 else ""
        overshoot = size * (mu + L) / 2 / shape.offset  # the first step is c/offset for every shape
        lines += [
            Line("c mu_h", derived(size * mu, "(13)", client.mu_h), f"local error falls like {fast}{why}"),
            Line(
                "first local step",
                derived(overshoot, "(13)", client.L_h),
                f"over its limit 2/(mu_h + L_h): {_times(overshoot)}",
            ),
        ]
    if np.isfinite(client.start.value):
        H = [int(np.ceil(s.tau[i] * sqrt(r + 1))) for r in (0, max(0, s.rounds - 1))]
        lr = as_schedule("client_lr", s.options["client_lr"])
        table = local.recursion(lambda t: scale * np.asarray(lr(t)), client.local(), H[1])
        best = local.decay_constant(c, offset, client.local())
        label = weakest(client.mu_h, client.L_h, client.sigma, client.start, at_least="bound")
        lines += [
            Line(
                "error at H_0",
                Number(table[H[0]], label, "(12)"),
                f"E|y - y_i(x)|^2 after H = {H[0]} steps, the least convex client",
            ),
            Line("error at H_{R-1}", Number(table[H[1]], label, "(12)"), f"after H = {H[1]} steps of the configured size"),
            Line("same, advised", Number(best.error(H[1]), label, "(13)"), f"with client_lr = inverse({c:.4g}, {offset:.4g})"),
        ]
        if client.start.value > 0:
            H_tenth = float(best.steps_for(0.1 * client.local().start))
            lines.append(Line("H for a tenth", Number(H_tenth, label, "(14)"), "advised steps that bring e to start^2/10"))
    return lines


def _promises(s: Setting, land: Landscape, epsilon: float, stragglers: float) -> list[Line]:
    K, R = s.constants, s.rounds
    gap = s.start_value.value + sphere.gap(K.mean_L0().value, K.n, s.eta)
    label = weakest(K.L1, K.sigma, K.mean_L0(), *(c.mu_h for c in K.clients), *(c.start for c in K.clients), at_least="bound")
    lines = [Line("F(x_0) - F_*", bound(gap, "(18)"), "at most")]
    if not np.isfinite(gap):
        return lines
    lr = as_schedule("server_lr", s.options["server_lr"])
    gamma = np.broadcast_to(np.asarray(lr(np.arange(R, dtype=np.float64)), np.float64), (R,))
    errors = np.stack([_errors(s, c, i, R) for i, c in enumerate(K.clients)])
    errors = (1 - stragglers) * errors + stragglers * np.array([[c.start.value**2] for c in K.clients])
    found = theorem1.bounds(land, gamma, theorem1.felt_error(K, errors), gap)
    none = "none: the step is above its limit in some round" if found.weighted == inf else ""
    bounds = [local.decay_constant(*local.guaranteed(c.mu_h.value, c.L_h.value), c.local()) for c in K.clients]
    W = float(np.mean([c.L0_y.value**2 * b.constant / max(t, 1e-12) for c, b, t in zip(K.clients, bounds, s.tau, strict=True)]))
    rate = theorem1.constant_rate(land, gap, W)
    rounds = rate.rounds_for(epsilon)
    return [
        *lines,
        Line(
            "Theorem 1, guaranteed",
            Number(found.weighted, label, "(19)"),
            none or f"E|grad F(x_r*)|^2, R = {R}, r* drawn like gamma_r",
        ),
        Line("Theorem 1, r* uniform", Number(found.uniform, label, "(21)"), none or "holds, with the bound on E F(x_r)"),
        Line("Theorem 1, paper's form", Number(found.paper, label, "(22)"), none or "for comparison: its proof has a gap"),
        Line(
            "theta_1",
            Number(rate.theta_1, label, "(20)"),
            f"the way to go; constant step c/sqrt(R), c = {rate.c:.4g}, advised client_lr",
        ),
        Line("theta_2", Number(rate.theta_2, label, "(20)"), "noise of the estimate and of the server"),
        Line("theta_3", Number(rate.theta_3, label, "(20)"), "bias of inexact local solves"),
        Line("theta_4", Number(rate.theta_4, label, "(20)"), "their variance, over R instead of sqrt(R)"),
        Line("rounds", Number(rounds, label, "(23)"), f"R for E|grad F|^2 <= {epsilon:g} with that step"),
        Line(
            "local steps", Number(theorem1.local_iterations(max(s.tau.max(), 1e-12), rounds), label, "(23)"), "K_i, both solves"
        ),
    ]


def _theorem_2(experiment: Experiment, s: Setting) -> Verdict:
    server, client = theorem2.server_shape(s.options["server_lr"]), theorem2.client_shape(s.options["client_lr"])
    mu = min(c.mu_h.value for c in s.constants.clients)
    scale = float(s.step_scale.min())
    decays = client.known and mu > 0 and experiment.config.run.stragglers == 0
    exponent = local.decay_exponent(client.scale * scale, mu, client.exponent) if decays else 0.0
    verdict = theorem2.decide(server, 0.5 if s.tau.min() > 0 else 0.0, exponent)
    if client.known or verdict.errors_summable.holds is None:
        return verdict
    return verdict._replace(
        errors_summable=Condition("sum gamma_r e_r < inf", None, "client_lr is a function: its local error is not known")
    )


def _advice(s: Setting, land: Landscape | None) -> list[Advice]:
    advice = [] if s.mended is None else [Advice("method.radius", _upwards(s.mended), "makes f2 Lipschitz")]
    clients = s.constants.clients
    if all(c.mu_h.value > 0 for c in clients):
        c, _ = local.guaranteed(min(c.mu_h.value for c in clients), max(c.L_h.value for c in clients))
        c = float(_upwards(c))
        offset = max(2 * c * min(k.mu_h.value for k in clients), c * max(k.mu_h.value + k.L_h.value for k in clients) / 2)
        advice.append(Advice("method.client_lr", f'"inverse({c:g}, {_upwards(offset)})"', "Proposition 1"))
    if land is not None:
        limit = f"{0.999 * land.step_limit():.4g}"
        advice += [
            Advice("method.server_lr", f'"inverse_sqrt({limit})"', "Theorem 1"),
            Advice("method.server_lr", f'"power({limit}, 0.75)"', "Theorem 2"),
        ]
    return advice


def _upwards(value: float) -> str:
    """Four digits, never below the value."""
    return f"{value * 1.001:.4g}"


def _times(ratio: float) -> str:
    return f"within it ({ratio:.3g} of it)" if ratio <= 1 else f"{ratio:.3g} times beyond it"
