"""Algorithm 1 on the regimes of Theorem 1's experiments, in plain NumPy: balls that do not bind, solves in closed form."""

import numpy as np

from fedtier.studies.theory.experiments import regimes


def run(regime, shape, c, *, rounds, seeds):
    """What `regimes.run` measures, with other random numbers."""
    rng = np.random.default_rng(5)
    form, eta, n = regime.place.form, regime.eta, regimes.N
    s = 1 / (1 + form.proximity)
    rows = np.asarray(regime.place.federation.arrays, float)[:64]  # the server's
    gamma = c / np.sqrt(np.arange(rounds) + 1.0) if shape == "inverse_sqrt" else np.full(rounds, c)
    x, squares, first = np.tile(regime.start, (seeds, 1)), np.zeros((rounds, seeds)), np.zeros(rounds)

    def f2(p, b):  # penalty/2 |p - y|^2, y = p - s (p - b), the worst solver's y farther out by LEAN p_1
        length = s * np.linalg.norm(p - b, axis=1) + (regimes.LEAN * p[:, 0] if regime.worst else 0.0)
        return form.penalty / 2 * length**2

    for r in range(rounds):
        squares[r] = np.sum((x - form.a + form.penalty * s**2 * (x - form.b.mean(axis=0))) ** 2, axis=1)
        first[r] = np.mean(x[:, 0] ** 2)
        step = x - rows[rng.integers(0, 64, (seeds, 8))].mean(axis=1)
        order = np.argsort(rng.uniform(size=(seeds, 2)), axis=1)[:, : regime.cohort]
        for client in order.T:
            v = rng.normal(size=(seeds, n))
            v /= np.linalg.norm(v, axis=1, keepdims=True)
            b = form.b[client]
            slope = (f2(x + eta * v, b) - f2(x - eta * v, b)) / (2 * eta)
            step = step + n * slope[:, None] * v / regime.cohort
        x = x - gamma[r] * step
    error = regimes.LEAN**2 * (first.max() + eta**2 / n) if regime.worst else 0.0
    return regimes.Outcome(squares.mean(axis=1), gamma, float(error))
