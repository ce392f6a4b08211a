"""What is left where h is not strongly convex: H steps of Algorithm 2 as a map of x. Equations (29) to (31) of docs/theory.md.

y_i(x) need not be unique then, and no number of steps comes near "the" solution. But the two-point estimate asks for no
solution, only for a function of x, and y^H(x), where H steps end for given draws, is one:

    E g = grad (f^H)_eta,     f^H(x) = E f2(x, y^H(x))                                              (29)
    Lip(y^H): D_{t+1} <= q_t D_t + a_t K,   q_t = max(1 + a_t rho, |1 - a_t L_h|)                      (30)
    L0_H from (6) with D_H in place of Lip(y)                                                      (31)
"""

from __future__ import annotations

from math import inf

import numpy as np

from ..errors import not_negative, whole
from ..problem.sets import Dependence
from ..schedules import Schedule
from .constants import ClientConstants
from .lipschitz import Motion
from .local import contraction
from .numbers import Number, absent, derived


def growth(schedule: Schedule, low: float, high: float, forcing: float, start: float, steps: int) -> np.ndarray:
    """The bound (30) on D_0 .. D_H, [H + 1]: how far two solves part whose x differ by 1. `low` and `high` bound the curvature
    of h in y, `low` may be negative; `forcing` is how fast its gradient moves with x, `start` how fast the start does."""
    whole("steps", steps, 0)
    not_negative("forcing", forcing)
    not_negative("start", start)
    a = np.broadcast_to(np.asarray(schedule(np.arange(steps, dtype=np.float64)), dtype=np.float64), (steps,))
    stretch, found = contraction(a, low, high), np.empty(steps + 1)
    found[0] = start
    with np.errstate(over="ignore"):
        for t in range(steps):
            found[t + 1] = stretch[t] * found[t] + a[t] * forcing
    return found


def finite_motion(dependence: Dependence, client: ClientConstants, schedule: Schedule, steps: int, *, warm: bool) -> Motion:
    """How y^H and x - y^H move with x. `warm`: a solve starts from the client's last one, not from x.

    In a set that stays y itself is followed; in x + Z it is z = y - x, which starts at 0, and whose gradient moves with x as
    fast as that in x and in y together. Where there is no set both hold, and the smaller one counts.
    """
    numbers = client.mu_h, client.L_h, client.L_x
    if dependence == "unknown":
        why = "how the set depends on x is not known"
        return Motion(absent(inf, "(30)", why), absent(inf, "(30)", why))
    low, high, both = client.mu_h.value, client.L_h.value, client.L_x.value + client.L_h.value

    def number(value: float) -> Number:
        return derived(value, "(30)", *(n._replace(label="estimate") if n.label == "absent" else n for n in numbers))

    y = growth(schedule, low, high, client.L_x.value, 0.0 if warm else 1.0, steps)[-1]
    z = growth(schedule, low, high, both, 1.0 if warm or dependence == "mixed" else 0.0, steps)[-1]
    if dependence == "fixed":
        return Motion(number(y), number(1 + y))
    if dependence == "everywhere":
        return Motion(number(min(y, 1 + z)), number(min(1 + y, z)))
    return Motion(number(1 + z), number(z if dependence == "translated" else 1 + z))
