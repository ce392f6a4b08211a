"""What smoothing on a ball of radius eta costs and buys: equations (7) to (11), (15), (16) of docs/theory.md.

f_eta(x) = E f(x + eta u), u uniform in the unit ball; v uniform on the unit sphere
g = n/(2 eta) (f(x + eta v) - f(x - eta v)) v,  E g = grad f_eta              (7)
|f_eta - f| <= L0 eta n/(n + 1)                                             (8)
grad f_eta is Lipschitz with constant L0 n E|v_1|/eta <= L0 sqrt(n)/eta     (9)
E |g|^2 <= n L0^2                                                          (10)
"""

from __future__ import annotations

from math import exp, lgamma, pi, sqrt

from ..errors import not_negative, positive, whole


def mean_coordinate(n: int) -> float:
    """E|v_1|, v uniform on the unit sphere of R^n: Gamma(n/2)/(sqrt(pi) Gamma((n+1)/2)), about sqrt(2/(pi n)), 1 at n = 1."""
    whole("n", n)
    return exp(lgamma(n / 2) - lgamma((n + 1) / 2)) / sqrt(pi)


def smoothness(L0: float, n: int, eta: float) -> float:
    """The Lipschitz constant of grad f_eta, equation (9). Sharp: L0 |x_1| attains it at 0. The paper: L0 sqrt(n)/eta."""
    not_negative("L0", L0)
    positive("eta", eta)
    return L0 * n * mean_coordinate(n) / eta


def paper_smoothness(L0: float, n: int, eta: float) -> float:
    """L0 sqrt(n)/eta: E|v_1| <= sqrt(E v_1^2) = 1/sqrt(n), at most sqrt(pi/2) = 1.25 times `smoothness`."""
    not_negative("L0", L0)
    positive("eta", eta)
    return L0 * sqrt(n) / eta


def gap(L0: float, n: int, eta: float) -> float:
    """sup |f_eta - f|, equation (8). Sharp: L0 |x| attains it at 0. The paper's L0 eta is its limit for large n."""
    not_negative("L0", L0)
    not_negative("eta", eta)
    return L0 * eta * n / (n + 1)


def second_moment(L0: float, n: int) -> float:
    """n L0^2 >= E|g|^2, equation (10). Sharp: every linear function attains it. No eta and no smoothness of f needed."""
    not_negative("L0", L0)
    whole("n", n)
    return n * L0**2


def paper_second_moment(L0: float, n: int) -> float:
    """The paper's bound on E|g|^2, 16 sqrt(2 pi) n L0^2: true, and 40.1 times `second_moment`.

    Its c1 = 32 sqrt(2 pi) L0^2 bounds another thing: twice this, for the noise of g and the server's together.
    """
    return 16 * sqrt(2 * pi) * second_moment(L0, n)


def cohort_variance(mean_square_L0: float, n: int, cohort: float | int, directions: int = 1) -> float:
    """mean_i(L0_i^2)/S (n/K + 1 - 1/K) >= E|average of g_i over the cohort - grad f_eta|^2, equation (11): n L0^2/S at K = 1.

    Covers the directions (K per client, independent) and the draw of the cohort (S of m, without replacement) together.
    """
    positive("cohort", cohort)
    whole("directions", directions)
    return mean_square_L0 * (n / directions + 1 - 1 / directions) / cohort


def inexact_second_moment(L0_y: float, n: int, eta: float, error: float) -> float:
    """n^2 L0_y^2 error/eta^2 >= E|g with inexact solves - g|^2 when each solve has E|y - y(x)|^2 <= error, equation (15)."""
    not_negative("error", error)
    return n**2 * L0_y**2 * error / eta**2


def inexact_bias(L0_y: float, n: int, eta: float, error: float) -> float:
    """n L0_y^2 error/eta^2 >= |E(g with inexact solves - g)|^2, equation (16): n times less than the second moment."""
    not_negative("error", error)
    return n * L0_y**2 * error / eta**2
