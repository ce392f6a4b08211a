"""An active constraint: y_i(x) has another derivative there than the implicit function theorem says, or none.

The example of the paper's appendix: y(x) = argmin over y >= 0 of |y - x|^2 = max(x, 0), f(x) = 1/2 |x + 1 - y(x)|^2. Below 0
the constraint holds y at 0, so f = 1/2 (x + 1)^2 with its minimum at -1. The formula thinks that y follows x.

    python examples/active_constraint.py
"""

import jax.numpy as jnp
import numpy as np

from fedtier import keys
from fedtier.engines import compiled
from fedtier.federation import build, make_plan, partition
from fedtier.methods import Estimator, descent, exact, orthogonal, projected_sgd, zo_hfl
from fedtier.problem import Spec
from fedtier.problem.closed_forms import orthant_example

START = (-0.5, -2.0, -0.2)


def run(estimator: Estimator, rounds: int = 200) -> np.ndarray:
    """x after `rounds` of zo_hfl with this estimator, from START."""
    rows = np.zeros((8, 3), np.float32)  # the example has no data
    spec = Spec(np.ones(2), np.full(2, np.inf), np.ones(2))
    federation = build(rows, partition.iid(2), clients=2, rng=np.random.default_rng(0), test_share=0.0, spec=spec)
    plan = make_plan(np.random.default_rng(1), clients=2, rounds=rounds, steps=np.full(rounds, 20), participation=1.0)
    method = zo_hfl(orthant_example(), estimator=estimator, local=projected_sgd(0.4), server=descent("inverse_sqrt(1.0)"))
    engine = compiled(method, capacity=rounds)
    state, _ = engine.advance(engine.init(jnp.asarray(START), federation), federation, plan, keys.root(0), 0, rounds)
    return np.asarray(method.global_model(state.server))


if __name__ == "__main__":
    for estimator in (orthogonal(smoothing=0.05), exact()):
        reached = [round(float(a), 3) for a in run(estimator)]
        print(f"{estimator.name:10} from {list(START)} to {reached}   the minimum is at -1")
