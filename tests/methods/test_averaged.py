"""The average of a baseline's models: what it is, and that nothing else changes."""

import numpy as np
import pytest

from fedtier import keys
from fedtier.engines import compiled
from fedtier.engines.battery import check_method
from fedtier.errors import FedtierError
from fedtier.methods import fedavg, registry
from fedtier.methods.averaged import averaged
from fedtier.problem import cross_entropy, softmax, supervised

from .federations import bumpy_plan, digits

MODEL = softmax(64, 10)
PROBLEM = supervised(cross_entropy(MODEL))
ROUNDS = 6


@pytest.mark.slow
def test_the_average_is_the_published_sum_over_the_models_that_fedavg_has_without_it():
    federation, plan = digits(clients=4, seed=0), bumpy_plan(clients=4, rounds=ROUNDS)
    x = MODEL.init(keys.root(0))
    plain, mean = compiled(fedavg(PROBLEM), capacity=1), compiled(averaged(fedavg(PROBLEM), 3), capacity=ROUNDS)
    state, path = plain.init(x, federation), [np.asarray(x.weight)]
    for r in range(ROUNDS):
        state, _ = plain.advance(state, federation, plan, keys.root(1), r, 1)
        path.append(np.asarray(state.server.x.weight))
    wanted = path[0]
    for r in range(ROUNDS):
        wanted = wanted + 4.0 / (r + 4.0) * (path[r + 1] - wanted)
    found, _ = mean.advance(mean.init(x, federation), federation, plan, keys.root(1), 0, ROUNDS)
    np.testing.assert_allclose(found.server.average.weight, wanted, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(found.server.inner.x.weight, path[-1])
    assert np.abs(wanted - path[-1]).max() > 1e-3


@pytest.mark.slow
@pytest.mark.checked
def test_an_averaged_method_passes_the_battery_and_power_0_is_the_method_itself():
    method = fedavg(PROBLEM)
    assert averaged(method, 0) is method
    check_method(lambda problem: averaged(fedavg(problem), 2))
    with pytest.raises(FedtierError, match=r"averaging = -1"):
        registry.make("scaffold", PROBLEM, {"averaging": -1})
