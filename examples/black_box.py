"""A lower level that is a closed program: the server needs only values.

Three sites fit a non-negative mixture with SciPy's bounded least squares, pulled towards the server's x:

    y_i(x) = argmin over 0 <= y <= 1 of |A_i y - b_i|^2 + mu |y - x|^2        (scipy.optimize.lsq_linear, no derivatives)
    min over x   1/2 |x - a|^2 + (1/m) sum_i  penalty/2 |x - y_i(x)|^2

    python examples/black_box.py

The zeroth-order estimators only call it. The exact one cannot: it would have to differentiate through SciPy, and the
formula that ignores the bounds points elsewhere wherever one is active.
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import lsq_linear, minimize

from fedtier import keys
from fedtier.methods import orthogonal

N, SITES, MU, PENALTY, ETA = 4, 3, 0.5, 3.0, 0.05
RNG = np.random.default_rng(0)
A = RNG.standard_normal((SITES, 12, N))
B = RNG.standard_normal((SITES, 12)) * 2.0
CENTRE = RNG.uniform(0.0, 1.0, N)


def site(i: int, x: np.ndarray) -> np.ndarray:
    """What a site runs: somebody else's program."""
    matrix = np.vstack([A[i], np.sqrt(MU) * np.eye(N)])
    return lsq_linear(matrix, np.concatenate([B[i], np.sqrt(MU) * x]), bounds=(0.0, 1.0), tol=1e-12).x


def f2(i: int, x: np.ndarray) -> float:
    return 0.5 * PENALTY * float(np.sum((x - site(i, x)) ** 2))


def objective(x: np.ndarray) -> float:
    return 0.5 * float(np.sum((x - CENTRE) ** 2)) + np.mean([f2(i, x) for i in range(SITES)])


def main(rounds: int = 200) -> tuple[float, float]:
    """The objective that the two-point estimates reach, and the one that SciPy's direct search finds with all sites at hand."""
    estimator = orthogonal(smoothing=ETA, directions=2)
    propose = jax.jit(lambda r, i: estimator.propose(keys.at(keys.root(0), r, i + 1), jnp.zeros(N), ()))
    x = np.zeros(N)
    for r in range(rounds):
        g = np.zeros(N)
        for i in range(SITES):
            v = propose(r, i)
            slopes = [(f2(i, x + ETA * d) - f2(i, x - ETA * d)) / (2 * ETA) for d in np.asarray(v)]  # two solves a direction
            g += np.asarray(estimator.estimate(jnp.asarray(slopes), v, keys.root(0), None)) / SITES
        x = x - 0.3 / np.sqrt(r + 1) * (x - CENTRE + g)
    best = minimize(objective, CENTRE, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-7})
    return objective(x), min(best.fun, objective(x))


if __name__ == "__main__":
    reached, best = main()
    active = sum(int(np.sum((y <= 1e-9) | (y >= 1 - 1e-9))) for y in (site(i, CENTRE) for i in range(SITES)))
    print(f"at the start {objective(np.zeros(N)):.4f}, reached {reached:.4f}, best by direct search {best:.4f}")
    print(f"active bounds at x = a: {active} of {SITES * N}")
