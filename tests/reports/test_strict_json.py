"""Numbers for people, and objects that any reader of JSON accepts."""

import json

import pytest

from fedtier.cli.shared import show
from fedtier.reports.strict_json import known
from fedtier.reports.terminal import byte_size


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1234, "1.23 kB"), (999_499, "999 kB"), (999_500, "1 MB"),
        (999_999, "1 MB"), (806_400, "806 kB"), (10**9 - 1, "1 GB"), (5 * 10**12, "5 TB"), (4 * 10**18, "4,000 PB"),
    ],
)  # fmt: skip
def test_a_number_of_bytes_has_three_digits_and_a_unit(count, words):
    assert byte_size(count) == words


def test_what_is_no_number_is_null_however_deep():
    content = {"a": [1.5, float("nan"), {"b": (float("inf"), -float("inf"), 0.0, None, "nan")}], "c": 3}
    assert known(content) == {"a": [1.5, None, {"b": [None, None, 0.0, None, "nan"]}], "c": 3}
    json.dumps(known(content), allow_nan=False)


def test_an_object_that_is_no_json_is_never_printed(capsys):
    with pytest.raises(ValueError, match="not JSON compliant"):
        show({"score": float("nan")})
    assert capsys.readouterr().out == ""
