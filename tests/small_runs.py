"""The smallest runs that still have everything, and how to read them back."""

from pathlib import Path

import pytest

from fedtier.methods.registry import entry
from fedtier.storage.checksums import unstamped

METHODS = ("zo_hfl", "fedavg", "server_only", "local_only")
SMALL = ["data.name=synthetic", "data.clients=4", "data.partition=natural", "data.client_test_share=0.3"]
SHORT = [*SMALL, "run.rounds=6", "run.eval_every=2", "run.checkpoint_every=4", "run.tau=1", "run.participation=1"]


def options(settings) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def metrics(folder: Path) -> list[dict]:
    """The rows of a run, all but their seconds."""
    rows = [unstamped(line) for line in (Path(folder) / "metrics.jsonl").read_bytes().splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def mostly_slow(cases, *quick):
    """`cases` for a parametrized test: those in `quick` belong to every run of the tests, the others to the slow ones."""

    def marked(case):
        return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)

    return [case if case in quick else marked(case) for case in cases]


def first_slow(cases):
    """`cases` for a parametrized test: the first belongs to the slow tests, the others to `make checked`."""

    def marked(k, case):
        marks = [pytest.mark.slow, pytest.mark.checked] if k else [pytest.mark.slow]
        return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks)

    return [marked(k, case) for k, case in enumerate(cases)]


def one_of_a_family(names):
    """For what engines do, which the battery too asks of every method: the first of each family; the rest in `make checked`."""
    families = [entry(name).family for name in names]
    first = {family: k for k, family in reversed(list(enumerate(families)))}.values()
    slow, checked = [pytest.mark.slow], [pytest.mark.slow, pytest.mark.checked]
    return [pytest.param(name, marks=slow if k in first else checked) for k, name in enumerate(names)]
