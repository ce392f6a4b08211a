"""Any solver at a client: what it is asked, what becomes of its answer, and the two worked examples in one federation."""

import shutil
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments.stopping import Stopped

from ..small_runs import first_slow, metrics
from .test_wire import CLIENTS, between, model, setup, sites

EXAMPLES = Path(__file__).parents[2] / "examples"
STUB = '''
import numpy as np

class Stub:
    """y = x + steps/10 everywhere; the calls it got are kept."""

    def __init__(self, inputs, labels, settings):
        assert inputs.dtype == np.float32 and len(inputs) == len(labels) and settings["classes"] > 1
        self.calls = calls

    def solve(self, x, steps, seed):
        self.calls.append((x["weight"].copy(), steps, seed))
        return {"weight": x["weight"] + np.float32(steps / 10)}

calls = []
make = Stub
'''


def use(folder, k, name, text=None):
    """Site k solves by the module `name`."""
    if text is not None:
        (folder / f"{name}.py").write_text(text)
    elif not (folder / f"{name}.py").exists():
        shutil.copy(EXAMPLES / f"{name}.py", folder)
    file = folder / f"site-{k}.toml"
    file.write_text(file.read_text() + f'solver = "{name}:make"\n')


@pytest.fixture(autouse=True)
def fresh_modules():
    before, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name.endswith(("_stub", "_client")):
            del sys.modules[name]


SIMPLE = ["model.bias=false", "run.dropouts=0", "run.stragglers=0", "run.rounds=3", "method.radius=1000000.0"]


@pytest.mark.slow
@pytest.mark.checked
def test_fedavg_with_foreign_solvers_is_the_average_of_what_they_return(tmp_path):
    setup(tmp_path, "method.name=fedavg", "method.averaging=0", *SIMPLE)
    for k in range(CLIENTS):
        use(tmp_path / "fed", k, "one_stub", STUB)
    result = between(tmp_path / "fed", sites(tmp_path / "fed"))
    plan = result.experiment.plan
    weights = np.asarray([len(np.load(tmp_path / "fed" / f"site-{k}.npz")["labels"]) for k in range(CLIENTS)], float)
    held = [tomllib.loads((tmp_path / "fed" / f"site-{k}.toml").read_text())["test_rows"] for k in range(CLIENTS)]
    weights -= held
    expected = sum(np.average(steps / 10, weights=weights[ids]) for ids, steps in zip(plan.ids[0], plan.steps[0], strict=True))
    np.testing.assert_allclose(model(result.folder), expected, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.checked
def test_zo_hfl_asks_for_two_solves_around_x_with_one_seed_and_the_same_again_in_every_run(tmp_path):
    setup(tmp_path, "method.name=zo_hfl", "method.preset=paper", "method.smoothing=0.1", *SIMPLE)
    use(tmp_path / "fed", 0, "two_stub", STUB)
    runs = []
    for attempt in ("a", "b"):
        members = sites(tmp_path / "fed", attempt)
        result = between(tmp_path / "fed", members, attempt)
        calls = sys.modules["two_stub"].calls
        runs.append((model(result.folder), list(calls)))
        calls.clear()
    assert np.array_equal(runs[0][0], runs[1][0])
    by_seed: dict[int, list] = {}
    for x, steps, seed in runs[0][1]:
        by_seed.setdefault(seed, []).append((x, steps))
    rounds = [calls for calls in by_seed.values() if len(calls) == 2]  # evaluations solve once
    for (plus, steps), (minus, same_steps) in rounds:
        assert steps == same_steps
        assert np.linalg.norm(plus - minus) == pytest.approx(0.2, rel=1e-4)  # x + 0.1 v and x - 0.1 v
    asked = int((result.experiment.plan.ids[0] == 0).sum())
    assert len(rounds) == asked > 0


@pytest.mark.slow
@pytest.mark.checked
def test_a_solver_may_say_the_value_of_f2_itself(tmp_path):
    setup(tmp_path, "method.name=zo_hfl", "method.preset=paper", "method.uplink=values", *SIMPLE)
    free = between(tmp_path / "fed", sites(tmp_path / "fed", "free"), "free")
    own = STUB + "    \nclass Own(Stub):\n    def value(self, x, y):\n        return float(len(self.calls))\nmake = Own\n"
    use(tmp_path / "fed", 0, "three_stub", own)
    result = between(tmp_path / "fed", sites(tmp_path / "fed", "own"), "own")
    assert not np.array_equal(model(result.folder), model(free.folder))
    assert result.final[0]["f2"] > 1.0  # a count of calls, not a distance


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "words"),
    first_slow([
        ('return {"weight": x["weight"] * np.nan}', "must hold finite numbers"),
        ('return {"weight": x["weight"][:1]}', "must be float32"),
        ('return {"bias": x["weight"]}', "missing or too many"),
        ('return x["weight"]', "must return"),
        ('raise OSError("no licence")', "no licence"),
    ]),
)  # fmt: skip
@pytest.mark.checked
def test_a_solver_that_fails_is_refused_by_its_sites_name_and_the_others_go_on(tmp_path, line, words):
    setup(tmp_path, "method.name=fedavg", "run.eval_every=100", *SIMPLE)
    use(tmp_path / "fed", 0, "bad_stub", STUB.replace('return {"weight": x["weight"] + np.float32(steps / 10)}', line))
    result = between(tmp_path / "fed", sites(tmp_path / "fed"))
    log = (result.folder / "run.log").read_text()
    assert "site-0: refused: round" in log and words in log and np.isfinite(model(result.folder)).all()


@pytest.mark.slow
def test_a_method_whose_client_is_more_than_a_solve_refuses_a_foreign_solver(tmp_path):
    setup(tmp_path, "method.name=scaffold", *SIMPLE)
    use(tmp_path / "fed", 0, "four_stub", STUB)
    with pytest.raises(Stopped):
        between(tmp_path / "fed", sites(tmp_path / "fed"), stopped=lambda: True)
    assert "cannot take the place of scaffold's own local steps" in (tmp_path / "wire" / "run.log").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("method", first_slow(["zo_hfl", "fedavg"]))
@pytest.mark.checked
def test_a_scikit_learn_client_learns_beside_jax_clients(tmp_path, method):
    learns(tmp_path, method, {1: "sklearn_client"})


@pytest.mark.extras
@pytest.mark.parametrize("method", ["zo_hfl", "fedavg"])
def test_pytorch_scikit_learn_and_jax_clients_learn_in_one_federation(tmp_path, method):
    learns(tmp_path, method, {1: "sklearn_client", 2: "torch_client"})


def learns(tmp_path, method, solvers):
    lr = ["method.preset=paper", "method.server_lr=inverse_sqrt(0.3)", "method.penalty=0.1"] if method == "zo_hfl" else []
    setup(tmp_path, f"method.name={method}", "data.name=digits", "method.radius=10.0", "run.rounds=8", "run.dropouts=0", *lr)
    for k, name in solvers.items():
        use(tmp_path / "fed", k, name)
    result = between(tmp_path / "fed", sites(tmp_path / "fed"))
    rows = metrics(result.folder)
    assert rows[0]["global_accuracy"] < 0.3 and rows[-1]["global_accuracy"] > 0.6
    assert "refused" not in (result.folder / "run.log").read_text()


@pytest.mark.extras
def test_a_step_of_the_pytorch_client_is_the_gradient_step_it_says_it_is():
    import torch

    sys.path.insert(0, str(EXAMPLES))
    from torch_client import make

    rng = np.random.default_rng(0)
    inputs, labels = rng.standard_normal((40, 5)).astype(np.float32), rng.integers(0, 3, 40).astype(np.int32)
    x = rng.standard_normal((3, 5)).astype(np.float32)
    y = make(inputs, labels, {"batch": 8, "proximity": 0.7, "classes": 3}).solve({"weight": x.copy()}, 2, 11)["weight"]
    draws = torch.Generator().manual_seed(11)
    wanted = x.astype(float)
    for t in range(2):
        rows = torch.randint(40, (8,), generator=draws).numpy()
        scores = inputs[rows] @ wanted.T
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        gradient = (p - np.eye(3)[labels[rows]]).T @ inputs[rows] / 8 + 0.7 * (wanted - x)
        wanted = wanted - 0.1 / (t + 1) * gradient
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


def test_a_solver_that_cannot_be_found_is_told_with_its_name(tmp_path):
    from fedtier.protocol import foreign

    for name, words in (("nowhere_stub:make", "cannot be loaded"), ("nocolon", "must read module:factory")):
        with pytest.raises(FedtierError, match=words):
            foreign.find(name, tmp_path)
