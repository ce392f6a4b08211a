"""How fast the clients' solutions move with the server's model: equations (3) to (6) of docs/theory.md.

a set that stays        |y(x) - y(x')| <= L_x/mu_h |x - x'|                                    (3)
a set that moves        y = x + z, z in Z:  Lip(z) <= (L_x + L_h)/mu_h,  Lip(y) <= 1 + Lip(z)     (4)
h = loss(y) + mu/2 |y - x|^2 with loss convex, l-strongly convex, L-smooth ("proximal"):         (5)
    everywhere          Lip(y) <= mu/(mu + l),   Lip(x - y) <= L/(L + mu)
    a set that stays    Lip(y) <= mu/(mu + l),   Lip(x - y) <= 1
    x + Z               Lip(x - y) = Lip(z) <= min(L/(mu + l), sqrt(L/mu)/2)
    product of both     Lip(x - y) <= max(1, sqrt(L/(2 mu)))
the implicit function   L0_imp = L0_y Lip(y) + L0_x,  or L0 Lip(x - y) when f2 depends on x - y alone    (6)
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

from ..errors import not_negative
from ..problem.sets import Dependence
from .numbers import Number, absent, bound, derived


class Motion(NamedTuple):
    """How the solution moves with x."""

    y: Number  # Lipschitz constant of x -> y(x)
    difference: Number  # Lipschitz constant of x -> x - y(x)


def motion(dependence: Dependence, mu_h: Number, L_h: Number, L_x: Number) -> Motion:
    """Equations (3) and (4): any h that is mu_h-strongly convex with an L_h-Lipschitz gradient in y."""
    if dependence == "unknown" or mu_h.value <= 0:
        why = "how the set depends on x is not known" if dependence == "unknown" else "h is not strongly convex in y"
        return Motion(absent(inf, "(3)", why), absent(inf, "(3)", why))
    if dependence in ("everywhere", "fixed"):
        rate = L_x.value / mu_h.value
        return Motion(derived(rate, "(3)", mu_h, L_x), derived(1 + rate, "(3)", mu_h, L_x))
    rate = (L_x.value + L_h.value) / mu_h.value
    # x - y = -z for a translate; leaves with a set that stays add their own x.
    gap = rate if dependence == "translated" else 1 + rate
    return Motion(derived(1 + rate, "(4)", mu_h, L_h, L_x), derived(gap, "(4)", mu_h, L_h, L_x))


def proximal_motion(dependence: Dependence, proximity: float, smooth: Number, strong: float = 0.0) -> Motion:
    """Equation (5): h = loss + proximity/2 |y - x|^2, the loss convex with an L-Lipschitz gradient (`smooth`)."""
    not_negative("proximity", proximity)
    not_negative("strong", strong)
    if proximity == 0 or dependence == "unknown":
        L = smooth._replace(value=smooth.value + proximity)
        return motion(dependence, bound(strong + proximity, "(5)"), L, bound(proximity, "(5)"))
    mu, L = proximity, smooth.value
    still = derived(mu / (mu + strong), "(5)", smooth)
    if dependence == "everywhere":
        return Motion(still, derived(L / (L + mu), "(5)", smooth))
    if dependence == "fixed":
        return Motion(still, derived(1.0, "(5)", smooth))
    if dependence == "translated":
        z = min(L / (mu + strong), sqrt(L / mu) / 2)
        return Motion(derived(1 + z, "(5)", smooth), derived(z, "(5)", smooth))
    gap = max(1.0, sqrt(L / (2 * mu)))
    return Motion(derived(1 + gap, "(5)", smooth), derived(gap, "(5)", smooth))


def implicit_lipschitz(moves: Motion, L0_y: Number, L0_x: Number, *, of_difference: bool) -> Number:
    """L0_imp of x -> f2(x, y(x)), equation (6). `of_difference`: f2 is a function of x - y, as our couplings are."""
    if L0_y.label == "absent" or moves.y.label == "absent":
        why = L0_y.note if L0_y.label == "absent" else moves.y.note
        return absent(inf, "(6)", why)
    general = derived(L0_y.value * moves.y.value + L0_x.value, "(6)", L0_y, L0_x, moves.y)
    if not of_difference:
        return general
    special = derived(L0_y.value * moves.difference.value, "(6)", L0_y, moves.difference)
    return min(general, special, key=float)
