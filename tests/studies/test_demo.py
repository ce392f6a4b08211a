"""The demo: what it says is computed, and machines can read it."""

import json
from pathlib import Path

import pytest

from fedtier.cli.shared import plain
from fedtier.experiments.comparison import Comparison
from fedtier.reports.clients import Client
from fedtier.studies import demo

LABELS = {"zo_hfl": "ZO-HFL", "fedavg": "FedAvg", "server_only": "server only", "local_only": "local only"}


@pytest.fixture
def small(outcome, monkeypatch):
    """The demo's methods, run on something smaller."""
    cells = [cell._replace(method=LABELS[cell.method]) for cell in outcome.comparison.cells]
    finals = {(LABELS[method], setting): rows for (method, setting), rows in outcome.finals.items()}
    metrics = ("global", "personal_by_rows", "worst")
    small = outcome._replace(comparison=Comparison(cells, "server only", metrics), finals=finals)
    monkeypatch.setattr(demo.outcomes, "run_cells", lambda wanted, progress: small)
    return small


def test_it_is_readable_at_80_columns_compares_with_the_strongest_and_says_what_to_try_next(fedtier, small):
    code, out, _ = fedtier("demo", "--out", "d")
    assert code == 0 and out.splitlines()[-1] == "next: fedtier report d --out report.html"
    assert max(len(line.rstrip()) for line in out.splitlines() if line[0] not in "│┃┏┡└") <= 80
    assert demo.findings.sentence(small) in " ".join(out.split())


def test_the_table_of_ten_seeds_fits_into_80_columns(small):
    def row(seed: int) -> dict:
        clients = {"mean": 0.95, "by_rows": 0.9 + 0.01 * seed, "min": 0.1 * seed, "p10": 0.5}
        return {"seed": seed, "global_accuracy": 0.9 + 0.005 * seed, "personal_accuracy": clients, "bytes_up": 1_613_000}

    made_up = small._replace(finals={key: [row(seed) for seed in range(10)] for key in small.finals})
    table = plain(demo.show_demo(made_up, Path("d")).parts[:1])
    assert max(len(line.rstrip()) for line in table.splitlines()) <= 80 and "rows %" in table and "1.61 MB" in table


def no_constants(word: str):
    raise AssertionError(f"{word} is no JSON")


def test_its_json_has_the_numbers_of_every_cell_and_nothing_else(fedtier, small):
    code, out, _ = fedtier("demo", "--out", "d", "--json")
    content = json.loads(out, parse_constant=no_constants)
    assert code == 0 and [cell["method"] for cell in content["cells"]] == list(LABELS.values())
    for cell in content["cells"]:
        assert [row["seed"] for row in cell["final"]] == [0, 1] and set(cell["metrics"]) == {
            "global",
            "personal_by_rows",
            "worst",
        }
    alone = content["cells"][-1]["metrics"]["global"]
    assert alone["mean"] is None and alone["values"] == [None, None]  # local only has no global model


def client(alone: float, ours: float) -> Client:
    return Client("c", 0, 0, 10, 20, {demo.ALONE: alone, demo.OURS: ours}, {})


def test_who_gains_most_is_computed():
    assert demo.gains_most([client(40, 80), client(60, 90)])
    assert not demo.gains_most([client(40, 60), client(60, 90)])  # the worst off gains 20, the other 30


def test_the_sentence_counts_the_seeds_in_which_it_is_true_and_claims_no_more_than_its_interval(small, monkeypatch):
    """Seen: "the worst-off client gains most" was said whenever it gained at all."""
    found = [client(40, 80), client(60, 90), *(c._replace(seed=1) for c in (client(40, 60), client(60, 90)))]
    monkeypatch.setattr(demo, "clients_of", lambda curves: found)
    words = demo.worst_off_words(small)
    assert words.startswith("In 1 of 2 seeds the client that is worst off alone gains most from ZO-HFL")
    # ahead of the average gain by 40 - 35 and 20 - 25 points: 5 and -5
    assert "0.0 ± " in words and words.endswith("points more than the average client, which these seeds do not tell from 0.")
    sure = [*found[:2], *(c._replace(seed=1) for c in found[:2])]
    monkeypatch.setattr(demo, "clients_of", lambda curves: sure)
    assert demo.worst_off_words(small).endswith("5.0 ± 0.0 points more than the average client.")
