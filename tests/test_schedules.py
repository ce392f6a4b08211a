"""Step sizes by their formulas, and words that stand for them."""

import jax
import jax.numpy as jnp
import pytest

from fedtier import schedules
from fedtier.errors import FedtierError
from fedtier.schedules import as_schedule, constant, inverse, inverse_sqrt, power


@pytest.mark.parametrize("count", [0, 1, 8, 99])
def test_the_schedules_are_their_formulas_and_can_be_traced(count):
    expected = {
        constant(0.3): 0.3,
        inverse_sqrt(0.3): 0.3 / (count + 1) ** 0.5,
        inverse(0.3, 4.0): 0.3 / (count + 4),
        power(0.3, 0.75): 0.3 / (count + 1) ** 0.75,
    }
    for schedule, value in expected.items():
        assert schedule(count) == pytest.approx(value, rel=1e-6)
        assert jax.jit(schedule)(jnp.asarray(count)) == pytest.approx(value, rel=1e-6)


def test_a_number_takes_the_place_s_own_shape_and_a_text_names_its_shape():
    assert as_schedule("lr", 2, inverse)(3) == pytest.approx(0.5)
    assert as_schedule("lr", "constant(0.1)", inverse)(3) == pytest.approx(0.1)
    assert as_schedule("lr", " power( 1 , 0.5 ) ", inverse)(3) == pytest.approx(0.5)
    assert as_schedule("lr", lambda count: 7, inverse)(3) == 7


@pytest.mark.parametrize(
    "value",
    [
        *(-1.0, 0.0, float("nan"), float("inf"), True, "", "constant", "constant()", "constant(-1)", "constant(nan)"),
        *("constant(1, 2)", "constant(__import__('os'))", "power(1)", "inverse(1, 0)"),
    ],
)
def test_what_stands_for_no_step_size_is_refused_under_its_own_name(value):
    with pytest.raises(FedtierError) as caught:
        as_schedule("server_lr", value, schedules.inverse)
    assert caught.value.name == "server_lr"


def test_a_misspelt_shape_is_answered_with_the_nearest():
    with pytest.raises(FedtierError, match="inverse_sqrt"):
        as_schedule("lr", "inverse_sqr(1)", inverse)


@pytest.mark.parametrize("schedule", [constant(0.3), inverse_sqrt(1 / 3), inverse(0.1, 2), power(1, 0.75)])
def test_a_schedule_of_ours_knows_the_words_for_it_and_a_function_of_ones_own_does_not(schedule):
    again = as_schedule("lr", schedules.words_of(schedule))
    assert [again(count) for count in range(5)] == [schedule(count) for count in range(5)]
    assert schedules.words_of(lambda count: 0.1) is None
