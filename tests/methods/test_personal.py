"""Personal models of methods that train none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.errors import FedtierError
from fedtier.experiments.assemble import assemble
from fedtier.experiments.config import validate
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


def chosen_for(rows, share, scales=(1.0,), times=lambda scale: scale):
    """What a client with these rows has, from x = 0, under f1(y) = mean |y - a|^2/2 and exact steps to the mean of its rows;
    with a scale, to `times(scale)` times that mean."""
    problem = Bilevel(
        f1=lambda y, a: 0.5 * jnp.mean((y[None] - a) ** 2),
        f2=lambda x, y, spec: jnp.zeros(()),
        h=lambda x, y, a, spec: jnp.zeros(()),
    )

    def to(factor):
        return lambda problem, solve, solves: lambda x, start, view, spec, steps, key: factor * mean_of(view)

    mean = PersonalRule("mean", to(1.0), scaled=lambda scale: PersonalRule("mean", to(times(scale))))
    view = View(jnp.asarray(rows)[:, None], jnp.arange(len(rows)), jnp.asarray(0), jnp.asarray(len(rows)))
    rule = chosen(mean, share, scales).on(problem, None, 1)
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


def test_of_several_scales_a_client_has_the_one_that_serves_its_held_back_rows_from_all_its_rows():
    assert chosen_for([1.0, 1.0, 1.0, 2.0, 2.0], 0.4, [0.5, 1.0, 2.0]) == pytest.approx(2 * 1.4)
    assert chosen_for([1.0, 1.0, 1.0, 0.6, 0.6], 0.4, [0.5, 1.0, 2.0]) == pytest.approx(0.5 * 0.84)
    assert chosen_for([1.0, 1.0, 1.0, 1.1, 1.1], 0.4, [2.0, 1.0, 0.5]) == pytest.approx(1.04)  # whatever the order


@pytest.mark.slow
def test_where_no_scale_serves_or_a_try_is_not_finite_a_client_has_what_is_left():
    assert chosen_for([1.0, 1.0, 1.0, -1.0, -1.0], 0.4, [0.5, 1.0, 2.0]) == 0.0
    assert chosen_for([1.0, 1.0], 0.4, [0.5, 1.0]) == 0.0  # no row to hold back
    burst = {"times": lambda scale: jnp.where(scale == 2.0, jnp.nan, scale)}
    assert chosen_for([1.0, 1.0, 1.0, 2.0, 2.0], 0.4, [0.5, 1.0, 2.0], **burst) == pytest.approx(1.4)


@pytest.mark.slow
def test_a_scale_is_a_factor_on_every_step_of_fine_tuning():
    scaled = fine_tune("inverse(0.3)").scaled(0.5)
    _, _, _, y = personal(fedavg(PROBLEM, personal=scaled), 3)
    _, _, _, wanted = personal(fedavg(PROBLEM, personal=fine_tune("inverse(0.15)")), 3)
    np.testing.assert_allclose(y.weight, wanted.weight, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("scales", [[], [0.0, 1.0], [1.0, 1.0], [float("inf")], [-1.0]])
def test_scales_that_are_no_factors_are_refused(scales):
    with pytest.raises(FedtierError, match="scales"):
        chosen(fine_tune(0.1), 0.2, scales)


@pytest.mark.parametrize(
    ("tables", "hint"),
    [
        ({"run": {"personal_scales": [0.1, 1.0]}}, "personal_check = 0.2"),
        ({"method": {"name": "codistil"}, "run": {"personal_check": 0.2, "personal_scales": [0.1, 1.0]}}, "leave it out"),
        ({"method": {"fine_tune": 0}, "run": {"personal_check": 0.2, "personal_scales": [0.1, 1.0]}}, "set method.fine_tune"),
        ({"run": {"personal_check": 0.2, "personal_scales": [0.1, 0.1]}}, "0.3, 1.0"),
    ],
)
def test_scales_that_nothing_would_read_are_refused_by_their_key(tables, hint):
    with pytest.raises(FedtierError, match=r"run\.personal_scales") as refused:
        assemble(validate(tables))
    assert hint in str(refused.value)


@pytest.mark.parametrize("share", [0, 1, -0.1])
def test_a_share_that_leaves_nothing_to_fit_or_to_check_is_refused(share):
    with pytest.raises(FedtierError, match="share"):
        chosen(fine_tune(0.1), share)
