"""Personal models of methods that train none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.errors import FedtierError
from fedtier.federation import View, sample
from fedtier.keys import Tag
from fedtier.methods import fedavg, server_only, zo_hfl
from fedtier.methods.method import Turn
from fedtier.methods.personal import PersonalRule, chosen, fine_tune
from fedtier.problem import Bilevel, cross_entropy, softmax, supervised

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


def chosen_for(rows, share):
    """What a client with these rows has, from x = 0, under f1(y) = mean |y - a|^2/2 and exact steps to the mean of its rows."""
    problem = Bilevel(
        f1=lambda y, a: 0.5 * jnp.mean((y[None] - a) ** 2),
        f2=lambda x, y, spec: jnp.zeros(()),
        h=lambda x, y, a, spec: jnp.zeros(()),
    )
    mean = PersonalRule("mean", lambda problem, solve, solves: lambda x, start, view, spec, steps, key: mean_of(view))
    view = View(jnp.asarray(rows)[:, None], jnp.arange(len(rows)), jnp.asarray(0), jnp.asarray(len(rows)))
    rule = chosen(mean, share).on(problem, None, 1)
    return float(jax.jit(rule)(jnp.zeros(1), jnp.zeros(1), view, None, 1, keys.root(0))[0])


def mean_of(view):
    inside = (jnp.arange(view.arrays.shape[0]) >= view.start) & (jnp.arange(view.arrays.shape[0]) < view.start + view.size)
    return jnp.sum(jnp.where(inside, view.arrays[:, 0], 0), keepdims=True) / view.size


@pytest.mark.slow
def test_a_client_whose_held_back_rows_agree_has_the_personal_model_of_all_its_rows():
    assert chosen_for([1.0, 1.0, 1.0, 0.8, 1.2], 0.4) == 1.0
    np.testing.assert_allclose(chosen_for([1.0, 1.0, 1.0, 2.0, 2.0], 0.4), 1.4, rtol=1e-6)  # refitted, not the 1.0 of the try


def test_a_client_whose_held_back_rows_disagree_or_who_has_none_has_the_global_model():
    assert chosen_for([1.0, 1.0, 1.0, 0.4, 0.4], 0.4) == 0.0
    assert chosen_for([1.0, 1.0], 0.4) == 0.0


@pytest.mark.parametrize("share", [0, 1, -0.1])
def test_a_share_that_leaves_nothing_to_fit_or_to_check_is_refused(share):
    with pytest.raises(FedtierError, match="share"):
        chosen(fine_tune(0.1), share)
