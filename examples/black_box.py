"""A lower level that is a closed program: the server needs only values.

Three sites fit a non-negative mixture with SciPy's bounded least squares, pulled towards the server's x:

    y_i(x) = argmin over 0 <= y <= 1 of |A_i y - b_i|^2 + mu |y - x|^2        (scipy.optimize.lsq_linear, no derivatives)
    min over x   1/2 |x - a|^2 + (1/m) sum_i  penalty/2 |x - y_i(x)|^2

    python examples/black_box.py

The zeroth-order estimators only call it. The exact one cannot: it would have to differentiate through SciPy, and the
formula that ignores the bounds points elsewhere wherever one is active.
"""

import jax.numpy as jnp
import numpy as np
from scipy.optimize import lsq_linear, minimize

import fedtier as ft

N, SITES, MU, PENALTY = 4, 3, 0.5, 3.0
RNG = np.random.default_rng(0)
A = RNG.standard_normal((SITES, 12, N))
B = RNG.standard_normal((SITES, 12)) * 2.0
CENTRE = RNG.uniform(0.0, 1.0, N)


def solve(i: int, x: np.ndarray) -> np.ndarray:
    """What site i runs: somebody else's program."""
    matrix = np.vstack([A[i], np.sqrt(MU) * np.eye(N)])
    return lsq_linear(matrix, np.concatenate([B[i], np.sqrt(MU) * x]), bounds=(0.0, 1.0), tol=1e-12).x


def train(rounds: int) -> ft.Result:
    """Ten lines: the problem, a row that says which site it is, the method with the program in place of our local steps."""
    problem = ft.Bilevel(
        f1=lambda x, rows: 0.5 * jnp.sum((x - CENTRE) ** 2),
        f2=lambda x, y, spec: 0.5 * PENALTY * jnp.sum((x - y) ** 2),
        h=lambda x, y, rows, spec: jnp.zeros(()),  # not asked for: the sites have a program
    )
    numbers = np.repeat(np.arange(SITES), 4)
    data = ft.federate((numbers[:, None], numbers), owner=numbers, as_is=True, client_test_share=0.0)
    method = ft.zo_hfl(
        problem, estimator=ft.orthogonal(smoothing=0.05, directions=N), fine_tune=0.0,
        local=lambda x, rows, steps, seed: solve(int(rows.labels[0]), x), server=ft.descent(0.2),
    )  # fmt: skip
    return ft.train(method, data, model=np.zeros(N), rounds=rounds, participation=1.0, tau=1, eval_every=rounds)


def objective(x: np.ndarray) -> float:
    """What is minimised, computed with all sites at hand."""
    coupling = np.mean([0.5 * PENALTY * np.sum((x - solve(i, x)) ** 2) for i in range(SITES)])
    return float(0.5 * np.sum((x - CENTRE) ** 2) + coupling)


def main(rounds: int = 40) -> tuple[float, float]:
    """The objective that is reached by values alone, and the one that SciPy's direct search finds with all sites at hand."""
    reached = objective(np.asarray(train(rounds).model, float))
    best = minimize(objective, CENTRE, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-7})
    return reached, min(best.fun, reached)


if __name__ == "__main__":
    reached, best = main()
    active = sum(int(np.sum((y <= 1e-9) | (y >= 1 - 1e-9))) for y in (solve(i, CENTRE) for i in range(SITES)))
    print(f"at the start {objective(np.zeros(N)):.4f}, reached {reached:.4f}, best by direct search {best:.4f}")
    print(f"active bounds at x = a: {active} of {SITES * N}")
