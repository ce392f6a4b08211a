"""What the page of `fedtier theory` says where h is not strongly convex, as for every net: what remains, and what is lost."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...schedules import as_schedule
from ...theory import sphere
from ...theory.finite import finite_motion
from ...theory.lipschitz import implicit_lipschitz
from ...theory.numbers import Number, derived
from .assumptions import Assumption
from .line import Line
from .read import Setting


class Remains(NamedTuple):
    statements: list[Assumption]
    lines: list[Line]


def remains(s: Setting) -> Remains | None:
    """None where every client's h is strongly convex: the theorems speak for themselves."""
    clients = s.constants.clients
    if all(client.mu_h.value > 0 for client in clients):
        return None
    lr, warm = as_schedule("client_lr", s.options["client_lr"]), s.options["start"] == "warm"
    moved: dict[int, list[Number]] = {}
    slopes: dict[int, list[Number]] = {}
    steps = [int(np.ceil(s.tau.max() * np.sqrt(r + 1))) for r in (0, max(0, s.rounds - 1))]
    for H in steps:
        motions = [
            finite_motion(s.dependence, client, lambda t, i=i: s.step_scale[i] * np.asarray(lr(t)), H, warm=warm)
            for i, client in enumerate(clients)
        ]
        moved[H] = [motion.difference for motion in motions]
        slopes[H] = [
            implicit_lipschitz(motion, client.L0_y, client.L0_x, of_difference=True)
            for motion, client in zip(motions, clients, strict=True)
        ]
    return Remains(_statements(s), _lines(s, steps, moved, slopes))


def _statements(s: Setting) -> list[Assumption]:
    shared, random = bool(s.options["coupled"]), s.options["estimator"] in ("sphere", "orthogonal")
    unbiased = "(29), f^H: f2 at the point where H steps end, whatever that is" if random else "(29) is of random directions"
    moments = "(8) to (11) with L0_H for L0_imp" if shared else "needs coupled = true: draws of their own add noise over eta^2"
    return [
        Assumption("E g = grad f^H_eta, no bias", random, unbiased),
        Assumption("second moment, gap, smoothness", True if shared else None, moments),
        Assumption(
            "Theorem 1 for f^H", None, "(18) to (23) without local errors, if H is the same in all rounds; here H grows"
        ),
        Assumption("y_i(x) is one point", False, "h may have several minima; start and draws say which one a solve comes to"),
        Assumption("local errors fall with H", False, "(12) to (16) measure the distance to y_i(x)"),
        Assumption("Theorem 1 and 2 for f", False, "they need (12) to (16)"),
    ]


def _lines(s: Setting, steps: list[int], moved: dict[int, list[Number]], slopes: dict[int, list[Number]]) -> list[Line]:
    K, worst = s.constants, min((c.mu_h for c in s.constants.clients), key=float)
    rho = Number(-worst.value, "estimate", "(30)")
    lines = [Line("rho", rho, "how far h curves downwards where it was looked at, largest client")]
    for name, H in zip(("H_0", "H_{R-1}"), steps, strict=True):
        lines.append(Line(f"Lip(x - y^H), {name}", max(moved[H], key=float), f"how fast the end of {H} steps moves with x"))
    L0 = slopes[steps[1]]
    mean = derived(float(np.mean([n.value for n in L0])), "(31)", *L0)
    if not np.isfinite(mean.value):
        return [*lines, Line("mean L0_H", max(L0, key=float))]
    square = float(np.mean([n.value**2 for n in L0]))
    L = K.L1.value + sphere.smoothness(mean.value, K.n, s.eta)
    return [
        *lines,
        Line("mean L0_H", mean, f"Lipschitz constant of f^H after {steps[1]} steps"),
        Line("second moment", derived(sphere.second_moment(1.0, K.n) * square, "(10)", mean), "of one client's estimate g"),
        Line("gamma limit", derived(1 / (4 * L), "(17)", mean, K.L1), "for a run with that many steps in every round"),
    ]
