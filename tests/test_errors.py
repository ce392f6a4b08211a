"""Refusals: the name, the value, the rule, the hint."""

import numpy as np
import pytest

from fedtier.errors import NOTHING, FedtierError, called, choice, nearest, not_negative, positive, require, share, whole


def test_a_refusal_shows_name_value_rule_and_hint():
    error = FedtierError("run.tau", -1, "must be at least 0", "try 5")
    assert str(error) == "run.tau = -1: must be at least 0\n  hint: try 5"
    assert str(FedtierError("file", NOTHING, "is empty")) == "file: is empty"


def test_the_nearest_word_is_offered_and_else_all_of_them():
    assert nearest("alhpa", ["alpha", "beta"]) == "did you mean 'alpha'?"
    assert nearest("zzz", ["beta", "alpha"]) == "known: alpha, beta"


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (positive, [1e-9, 1, np.float64(2), 1e300], [0, -1, float("nan"), float("inf"), True]),
        (not_negative, [0, 0.0, 1], [-1e-9, float("nan"), float("inf"), False]),
        (share, [0, 0.5], [1, -0.1, float("nan"), True]),
        (lambda name, value: share(name, value, zero=False, one=True), [1, 0.1], [0, 1.1]),
        (whole, [1, np.int64(3)], [0, 1.0, True, "1", None]),
        (lambda name, value: choice(name, value, ("a", "b")), ["a"], ["c", 1]),
    ],
)
def test_checks_take_what_they_should_and_refuse_the_rest_by_name(check, good, bad):
    for value in good:
        check("x", value)
    for value in bad:
        with pytest.raises(FedtierError) as caught:
            check("x", value)
        assert caught.value.name == "x"


def test_require_raises_only_when_the_condition_fails():
    require(True, "x", 1, "rule")
    with pytest.raises(FedtierError, match="rule"):
        require(False, "x", 1, "rule")


def test_a_refusal_is_heard_by_the_name_the_user_knows_and_others_pass():
    class Special(FedtierError):
        pass

    with pytest.raises(Special, match=r"data\.alpha = -1: must be positive\n  hint: try 1"), called({"alpha": "data.alpha"}):
        raise Special("alpha", -1, "must be positive", "try 1")
    with pytest.raises(FedtierError, match=r"^beta = 2"), called({"alpha": "data.alpha"}):
        raise FedtierError("beta", 2, "is wrong")
