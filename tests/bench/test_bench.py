"""The benchmarks' own arithmetic, and that contestants see fedtier's partition. Nothing here is timed."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedtier import datasets, federation

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import gpu  # noqa: E402
import ours  # noqa: E402
import run  # noqa: E402
import stored  # noqa: E402
import table  # noqa: E402
from roster import OURS, PEERS  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

W1 = WORKLOADS["W1"]
SMALL = W1._replace(data="digits", clients=6, cohort=3, alpha=0.5, steps=4, rounds=5, warm=2)


def line(peer: str, repeat: int, speed: float, reference: float = 1.0, accuracy: float = 0.9, **more: object) -> dict:
    told = {"workload": "W1", "peer": peer, "repeat": repeat, "rounds_per_second": speed, "accuracy": accuracy}
    return told | {"reference": [reference, reference], "first_round": 2.0, "peak_mb": 100} | more


def row(lines: list[dict], peer: str) -> table.Row:
    return next(row for row in table.rows(W1, lines)[0] if row.peer == peer)


def test_a_ratio_is_the_median_of_ratios_within_a_repetition() -> None:
    ours_and_theirs = [(10.0, 5.0), (30.0, 3.0), (8.0, 2.0)]  # ratios 2, 10, 4
    lines = [line(p, k, v) for k, pair in enumerate(ours_and_theirs) for p, v in zip((OURS, "numpy"), pair, strict=True)]
    assert row(lines, "numpy").ratio == pytest.approx(4.0)
    assert (row(lines, "numpy").low, row(lines, "numpy").speed, row(lines, "numpy").high) == (2.0, 3.0, 5.0)


def test_a_machine_twice_as_slow_during_one_peer_does_not_change_its_ratio() -> None:
    quiet = [line(OURS, 0, 12.0), line("numpy", 0, 4.0)]
    busy = [line(OURS, 0, 12.0), line("numpy", 0, 2.0, reference=2.0)]
    assert row(quiet, "numpy").ratio == pytest.approx(row(busy, "numpy").ratio) == pytest.approx(3.0)
    assert row(busy, "numpy").noisy and not row(quiet, "numpy").noisy


def test_a_sitting_on_a_busy_machine_says_so() -> None:
    quiet = [line(OURS, 0, 12.0), line("numpy", 0, 4.0, reference=1.2)]
    assert "busy" not in table.markdown(quiet)
    assert "busy" in table.markdown([*quiet, line("fluke", 0, 4.0, reference=1.6)])


def test_a_peer_that_failed_once_keeps_its_row_and_its_last_words_are_words() -> None:
    failed = {"workload": "W1", "peer": "pfl", "repeat": 1, "error": "exit status 1: no luck"}
    told = table.markdown([line(OURS, 0, 10.0), line("pfl", 0, 1.0), failed])
    assert "a repetition without result, exit status 1: no luck" in told
    assert run._last_words(f"{BENCH}/peers/pfl.py: no luck\n\n======\n") == "bench/peers/pfl.py: no luck"
    assert run._last_words("====\n") == ""


def test_whoever_does_not_learn_is_marked() -> None:
    lines = [line(OURS, 0, 1.0, accuracy=0.90), line("numpy", 0, 9.0, accuracy=0.87), line("fluke", 0, 1.0, accuracy=0.885)]
    assert not row(lines, "numpy").learns and row(lines, "fluke").learns
    text = table.markdown(lines)
    assert "| NumPy, 1 thread ✗" in text and "| fluke |" in text


def test_a_failure_is_reported_and_the_rest_stays() -> None:
    text = table.markdown(
        [line(OURS, 0, 10.0), {"workload": "W1", "peer": "pfl", "repeat": 0, "error": "exit status 1: no luck"}]
    )
    assert "pfl-research: no result, exit status 1: no luck" in text and "| **fedtier** | 10 (10, 10)" in text


def test_the_steady_state_leaves_out_the_first_rounds() -> None:
    marks = [[k, 10.0 + (2.0 * k if k <= W1.warm else 2.0 * W1.warm + 0.5 * (k - W1.warm))] for k in range(1, W1.rounds + 1)]
    told = run.measures(W1, {"marks": marks, "accuracy": 0.5})
    assert told["rounds_per_second"] == pytest.approx(2.0) and told["first_round"] == pytest.approx(12.0)


def test_local_steps_count_both_solves_of_zo_hfl() -> None:
    assert table.local_steps(W1) == 5 * 100
    w4 = WORKLOADS["W4"]
    assert table.local_steps(w4) == pytest.approx(2 * 5 * np.ceil(20 * np.sqrt(np.arange(10, 100) + 1.0)).mean())


def test_the_table_goes_between_its_markers_and_nowhere_else() -> None:
    page = f"before\n{table.BEGIN}\nold\n{table.END}\nafter"
    assert table.into_page(page, "new") == f"before\n{table.BEGIN}\nnew\n{table.END}\nafter"
    with pytest.raises(ValueError, match="once each"):
        table.into_page("no markers", "new")


def test_the_stored_partition_is_fedtiers(tmp_path: Path) -> None:
    dataset = datasets.load("digits")
    ours.write(SMALL, dataset, tmp_path)
    task = stored.load(tmp_path, SMALL)
    rng = np.random.default_rng([SMALL.seed, 0])
    owners = federation.partition.dirichlet(dataset.labels, SMALL.clients, SMALL.alpha)
    who = federation.build({"labels": dataset.labels}, owners, clients=SMALL.clients, rng=rng)
    for i in range(SMALL.clients):
        start, size = int(who.train.start[i]), int(who.train.size[i])
        np.testing.assert_array_equal(task.rows(i), np.asarray(who.index)[start : start + size])
    everyone = np.concatenate([task.test, task.server, *(task.rows(i) for i in range(SMALL.clients))])
    np.testing.assert_array_equal(np.sort(everyone), np.arange(dataset.rows))
    plan = federation.make_plan(np.random.default_rng([SMALL.seed, 1]), clients=6, rounds=5, participation=0.5, tau=1.0)
    np.testing.assert_array_equal(task.ids, plan.ids)
    assert np.all(task.steps == SMALL.steps)
    np.testing.assert_allclose(task.inputs, (dataset.inputs - dataset.shift) * dataset.scale, rtol=1e-6, atol=1e-6)


def test_accuracy_is_the_share_of_test_rows_that_are_right(tmp_path: Path) -> None:
    ours.write(SMALL, datasets.load("digits"), tmp_path)
    task = stored.load(tmp_path, SMALL)
    zeros = float(np.mean(task.labels[task.test] == 0))
    assert task.accuracy(lambda inputs: np.zeros(len(inputs)), block=50) == pytest.approx(zeros)


@pytest.mark.parametrize(
    ("arguments", "hint"), [(["--workload", "w1"], "did you mean 'W1'"), (["--peers", "flour"], "'flower'")]
)
def test_bad_names_are_refused_before_any_work(arguments: list[str], hint: str) -> None:
    done = subprocess.run([sys.executable, str(BENCH / "run.py"), *arguments], check=False, capture_output=True, text=True)
    assert done.returncode != 0 and hint in done.stderr and "Traceback" not in done.stderr


def test_every_peer_has_its_script_and_knows_its_workloads() -> None:
    for peer in PEERS.values():
        assert (BENCH / "peers" / f"{peer.script}.py").exists()
        assert set(peer.workloads.split()) <= set(WORKLOADS)


def test_every_contestant_plays_once_a_repetition_and_none_always_goes_first() -> None:
    peers = list(PEERS.values())
    order = [(peer.name, k) for _, peer, k in run._order([W1], peers, 3)]
    assert sorted(order) == sorted((peer.name, k) for peer in peers for k in range(3))
    assert len({next(name for name, k in order if k == repeat) for repeat in range(3)}) == 3


@pytest.mark.slow
@pytest.mark.checked
def test_the_fused_kernel_computes_what_xla_computes() -> None:
    given = list(gpu.arguments(2, 8, total=2_000))
    given[3] = np.asarray([8, 3], np.int32)
    exact = gpu.plain(*given)
    np.testing.assert_allclose(gpu.fused(*given, interpret=True), exact, atol=1e-6)
    np.testing.assert_allclose(gpu.plain(*given, length=4), exact, atol=1e-6)


def test_a_line_survives_the_trip_through_json() -> None:
    told = line("numpy", 0, 3.0)
    assert table.rows(W1, [json.loads(json.dumps(told))]) == table.rows(W1, [told])
