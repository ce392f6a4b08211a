"""Personal models of methods that train none."""

import jax
import numpy as np
import pytest

from fedtier import keys
from fedtier.errors import FedtierError
from fedtier.federation import sample
from fedtier.keys import Tag
from fedtier.methods import fedavg, server_only, zo_hfl
from fedtier.methods.method import Turn
from fedtier.methods.personal import fine_tune
from fedtier.problem import cross_entropy, softmax, supervised

from .federations import digits

MODEL = softmax(64, 10, bias=False)
PROBLEM = supervised(cross_entropy(MODEL), penalty=1.0, proximity=0.5)


def personal(method, steps):
    federation = digits()
    view = federation.view(jax.tree.map(lambda a: a[3], federation.train))
    spec = jax.tree.map(lambda a: a[3], federation.spec)
    x = MODEL.init(None)
    turn = Turn(0, 3, steps, keys.at(keys.root(1), 0, 4))
    client = method.client_init(x, spec)
    return x, view, turn, method.personal_model(client, x, view, spec, turn)


@pytest.mark.parametrize("factory", [fedavg, server_only])
def test_without_fine_tuning_it_is_the_global_model(factory):
    x, _, _, y = personal(factory(PROBLEM), 5)
    assert np.array_equal(x.weight, y.weight)


@pytest.mark.slow
@pytest.mark.parametrize(("factory", "solves"), [(fedavg, 1), (server_only, 1), (zo_hfl, 2)])
def test_fine_tuning_makes_steps_of_its_own_size_within_the_budget_of_a_round(factory, solves):
    x, view, turn, y = personal(factory(PROBLEM, personal=fine_tune("inverse(0.3)")), 2)
    wanted = x
    for t in range(2 * solves):
        rows = sample(view, keys.at(turn.key, Tag.PERSONAL, t), 32)
        wanted = jax.tree.map(lambda a, g, t=t: a - 0.3 / (t + 1) * g, wanted, jax.grad(PROBLEM.f1)(wanted, rows))
    np.testing.assert_allclose(y.weight, wanted.weight, rtol=1e-4, atol=1e-6)


def test_a_negative_step_is_refused_by_name():
    with pytest.raises(FedtierError, match="step"):
        fine_tune(-0.1)
