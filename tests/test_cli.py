"""The command line: refusals that say what to do, exit codes, stdout that is data, runs that survive being stopped."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
import safetensors.numpy

from fedtier import cli
from fedtier.compilation import use_compilation_cache
from fedtier.engines import compiled
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments import run as running
from fedtier.experiments import session
from fedtier.experiments.assemble import assemble
from fedtier.experiments.metrics import traffic
from fedtier.experiments.progress import Progress
from fedtier.experiments.run_folder import RunFolder
from fedtier.methods import registry
from fedtier.storage.checksums import unstamped

SMALL = ["data.name=synthetic", "data.clients=4", "data.partition=natural", "data.client_test_share=0.3"]
SHORT = [*SMALL, "run.rounds=6", "run.eval_every=2", "run.checkpoint_every=4", "run.tau=1", "method.batch=4"]


def options(settings: list[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    """These runs share their compiled programs, as a user's do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDTIER_CACHE", str(tmp_path_factory.mktemp("cache")))
        use_compilation_cache()
        yield
    jax.config.update("jax_compilation_cache_dir", None)


def call(monkeypatch, capsys, *words: str) -> tuple[int, str, str]:
    """`fedtier WORDS` in this process: (exit code, stdout, stderr)."""
    monkeypatch.setattr(sys, "argv", ["fedtier", *map(str, words)])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    code = 0
    try:
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def fedtier(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *words: call(monkeypatch, capsys, *words)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["data.alhpa=1"], ["data.alhpa", "did you mean 'alpha'?"]),
        (["method.smoothin=1"], ["method.smoothin", "did you mean 'smoothing'?"]),
        (["method.name=fedavg", "method.smoothing=1"], ["method.smoothing", "fedavg"]),
        (["dta.alpha=1"], ["dta", "did you mean 'data'?"]),
        (["method.name=fedvag"], ["method.name", "did you mean 'fedavg'?"]),
        (["data.name=digit"], ["data.name", "digits"]),
        (["data.partition=dirichlt"], ["data.partition", "dirichlet"]),
        (["method.server_lr=-1"], ["method.server_lr", "above 0"]),
        (["method.client_lr=0"], ["method.client_lr", "above 0"]),
        (["method.server_lr=constant(-1)"], ["method.server_lr"]),
        (["method.server_lr=true"], ["method.server_lr"]),
        (["method.batch=0"], ["method.batch"]),
        (["method.batch=1.5"], ["method.batch"]),
        (["method.coupled=maybe"], ["method.coupled", "true or false"]),
        (["method.uplink=both"], ["method.uplink", "values"]),
        (["method.smoothing=nan"], ["method.smoothing"]),
        (["method.penalty=inf"], ["method.penalty"]),
        (["method.server_seat=true"], ["method.server_seat", "zo_hfl"]),
        (["method.radius=-1"], ["method.radius", "at least 0"]),
        (["run.participation=0"], ["run.participation", "greater than 0"]),
        (["run.participation=1.5"], ["run.participation"]),
        (["run.rounds=two"], ["run.rounds"]),
        (["run.tau=[1, 2]"], ["run.tau", "10 clients"]),
        (["run.tau=-1"], ["run.tau"]),
        (["data.clients=0"], ["data.clients"]),
        (["data.server_share=1"], ["data.server_share"]),
        (["alpha=1"], ["--set", "table.key=value"]),
        (["data.name=file"], ["data.file", "must name your file"]),
        (["data.name=file", "data.file=nowhere.csv"], ["data.file", "nowhere.csv", "is not there"]),
    ],
)
def test_impossible_settings_end_with_2_and_words_before_any_work(fedtier, tmp_path, settings, words):
    code, out, err = fedtier("run", *options(settings))
    assert code == 2 and out == "" and err.startswith("error: ")
    assert all(word in err for word in words), err
    assert not list(tmp_path.iterdir())


def test_a_misspelt_key_in_a_file_and_a_file_that_is_none_are_refused(fedtier, tmp_path):
    Path("run.toml").write_text("[run]\nround = 3\n")
    code, out, err = fedtier("run", "run.toml")
    assert (code, out) == (2, "") and "run.round" in err and "'rounds'" in err
    code, _, err = fedtier("run", "missing.toml")
    assert code == 2 and "is not there" in err
    Path("bad.toml").write_text("[run\n")
    code, _, err = fedtier("run", "bad.toml")
    assert code == 2 and "is not TOML" in err
    assert fedtier("fly")[0] == 2  # no such command


def write_npz(rows: np.ndarray) -> str:
    np.savez("rows.npz", inputs=rows, labels=np.arange(len(rows)) % 2)
    return "rows.npz"


def write_csv(rows: np.ndarray) -> str:
    lines = [f"{a},{b},{k % 2}" for k, (a, b) in enumerate(rows.tolist())]
    Path("rows.csv").write_text("\n".join(["a,b,label", *lines]) + "\n")
    return "rows.csv"


@pytest.mark.parametrize("write", [write_npz, write_csv])
def test_a_missing_number_in_a_file_is_refused_where_the_user_says_so(fedtier, write):
    rows = np.random.default_rng(0).standard_normal((400, 2))
    rows[17, 1] = float("nan")
    code, out, err = fedtier("run", *options([f"data.file={write(rows)}", "data.missing=refuse", "data.partition=iid"]))
    assert (code, out) == (2, "") and "missing" in err and "hint:" in err


def metrics(folder: Path) -> list[dict]:
    rows = [unstamped(line) for line in (Path(folder) / "metrics.jsonl").read_bytes().splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, dict]:
    """One run through the installed command's own entry, two seeds; its folder and what it printed."""
    folder = tmp_path_factory.mktemp("cli") / "one"
    command = [sys.executable, "-m", "fedtier", "run", *options(SHORT), "--seeds", "2", "--out", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "rounds" in done.stderr  # progress is there, and not on stdout
    return folder, json.loads(done.stdout)


def test_the_json_object_has_everything_a_machine_needs(finished):
    folder, result = finished
    assert result["run"] == str(folder) and result["seeds"] == [0, 1]
    for row in result["final"]:
        assert {"global_accuracy", "global_loss", "personal_accuracy", "bytes_up", "bytes_down", "seconds"} <= set(row)
        assert set(row["personal_accuracy"]) == {"mean", "by_rows", "min", "p10"} and set(row["seconds"]) == {"compile", "run"}
        assert 0 <= row["personal_accuracy"]["mean"] <= 1
        assert 0 <= row["global_accuracy"] <= 1 and row["global_loss"] > 0
        assert row["bytes_down"] > row["bytes_up"] > 0 and row["round"] == 6


def test_every_evaluation_of_every_seed_is_stored(finished):
    assert [(row["round"], row["seed"]) for row in metrics(finished[0])] == [(r, s) for r in (0, 2, 4, 6) for s in (0, 1)]


def test_the_configuration_written_reads_back_equal_and_names_every_default(finished):
    given = configuration.load_config(None, [*SHORT, "run.seeds=2"])
    assert configuration.load_config(finished[0] / "config.toml") == given
    written = tomllib.loads((finished[0] / "config.toml").read_text())
    assert set(written["method"]) >= set(registry.options("zo_hfl"))


@pytest.mark.parametrize("name", registry.METHODS)
def test_every_method_s_configuration_survives_the_file(name, tmp_path):
    config = configuration.load_config(None, [f"method.name={name}", "run.tau=[1, 2]", "data.clients=2", "method.radius=3"])
    (tmp_path / "c.toml").write_text(config.toml())
    assert configuration.load_config(tmp_path / "c.toml") == config


def test_the_plan_and_the_model_are_plain_arrays_with_a_row_per_seed(finished):
    plan = safetensors.numpy.load_file(finished[0] / "plan.safetensors")
    assert {name: a.shape for name, a in plan.items()} == {"ids": (2, 6, 2), "steps": (2, 6, 2), "arrived": (2, 6, 2)}
    model = safetensors.numpy.load_file(finished[0] / "model.safetensors")
    assert model["weight"].shape == (2, 10, 16) and np.isfinite(model["weight"]).all()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_metrics_and_another_seed_others(finished, fedtier, tmp_path):
    code, out, _ = fedtier("run", *options([*SHORT, "run.seed=1"]), "--seeds", 2, "--out", tmp_path / "again", "--json")
    assert code == 0 and json.loads(out)["seeds"] == [1, 2]
    rows = [*metrics(finished[0]), *metrics(tmp_path / "again")]
    zero, one, again, two = rows[0:8:2], rows[1:8:2], rows[8::2], rows[9::2]
    assert one == again and all(a["global_loss"] != b["global_loss"] for a, b in zip(zero[1:], two[1:], strict=True))
    code, out, err = fedtier("run", *options(SHORT), "--out", tmp_path / "again")
    assert (code, out) == (2, "") and "already holds a run" in err and "fedtier resume" in err


@pytest.mark.slow
def test_a_stopped_run_resumes_to_the_same_metrics(tmp_path):
    long = ["run.rounds=4000", "run.eval_every=200", "run.checkpoint_every=1000", "run.tau=0.1"]
    settings = [*SMALL, *long, "method.name=scaffold", "method.batch=4"]  # a method with memory at the clients
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    command = [sys.executable, "-m", "fedtier", "run", *options(settings), "--out", str(stopped)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and (not (stopped / "metrics.jsonl").exists() or len(metrics(stopped)) < 3):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130 and out == "", err
    assert "fedtier resume" in err
    assert 3 <= len(metrics(stopped)) < 21
    running.resume_experiment(stopped, progress=Progress())
    running.run_experiment(configuration.load_config(None, settings), whole, progress=Progress())
    assert metrics(stopped) == metrics(whole) and len(metrics(whole)) == 21


@pytest.mark.slow
def test_a_run_killed_before_its_first_checkpoint_resumes_without_doubled_rows(tmp_path, monkeypatch):
    config = configuration.load_config(None, [*SHORT, "method.name=server_only", "run.checkpoint_every=100"])
    whole = running.run_experiment(config, tmp_path / "whole", progress=Progress())

    def killed(*_):
        raise KeyboardInterrupt

    for name, victim in (("early", "write_arrays"), ("late", "append")):
        calls = []
        original = getattr(RunFolder, victim)

        def sometimes(self, *args, original=original, calls=calls, **words):
            calls.append(args)
            if len(calls) == 3:  # the plan and round 0 are written, or two evaluations are
                killed()
            return original(self, *args, **words)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(RunFolder, victim, sometimes)
            running.run_experiment(config, tmp_path / name, progress=Progress(), experiment=whole.experiment)
        running.resume_experiment(tmp_path / name, progress=Progress())
        assert metrics(tmp_path / name) == metrics(whole.folder), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        ["method.name=server_only", "method.server_lr=1e6"],
        ["method.server_lr=constant(1e6)"],
        ["method.name=fedprox", "method.client_lr=constant(1e6)"],
    ],
)
def test_a_diverging_run_says_what_to_do_and_leaves_a_finite_state(fedtier, tmp_path, settings):
    batch = [s for s in SHORT if not s.startswith("run.")]
    long = ["run.rounds=60", "run.eval_every=2", "run.checkpoint_every=30", "run.tau=2", "run.seeds=2"]
    code, out, err = fedtier("run", *options([*batch, *long, *settings]), "--out", tmp_path / "wild", "--json")
    assert code == 2 and out == ""
    assert "diverged" in err and f"lower {settings[-1].partition('=')[0]}" in err and "checkpoint.safetensors" in err
    assert ("server_lr" in err) == ("fedprox" not in settings[0])  # only keys that the method has
    state = safetensors.numpy.load_file(tmp_path / "wild" / "checkpoint.safetensors")
    assert state and all(np.isfinite(a).all() for a in state.values())
    assert "diverged" in (tmp_path / "wild" / "run.log").read_text()


@pytest.mark.slow
def test_the_state_left_by_a_diverging_run_is_that_of_the_last_sound_evaluation(tmp_path, monkeypatch):
    settings = [*SHORT, "method.name=server_only", "run.checkpoint_every=100"]
    short = configuration.load_config(None, [*settings, "run.rounds=4"])
    sound = running.run_experiment(short, tmp_path / "sound", progress=Progress())
    evaluator = session.evaluator

    def loss_explodes_after_round_4(experiment, engine):
        evaluate = evaluator(experiment, engine)

        def judge(state, number):
            scores = evaluate(state, number)
            return scores._replace(f1=scores.f1 + 1e9 * (number > 4))

        return judge

    monkeypatch.setattr(session, "evaluator", loss_explodes_after_round_4)
    with pytest.raises(FedtierError, match="state after round 4"):
        running.run_experiment(configuration.load_config(None, settings), tmp_path / "wild", progress=Progress())
    left, words = RunFolder(tmp_path / "wild").read_arrays("checkpoint.safetensors", like=sound.state)
    assert words["round"] == "4"
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(sound.state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_damaged_or_foreign_checkpoint_is_refused_by_name(finished, tmp_path):
    for name, data in (
        ("cut", (finished[0] / "checkpoint.safetensors").read_bytes()[:-5]),
        ("other", b"\x02" + b"\0" * 7 + b"{}"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        for file in ("config.toml", "plan.safetensors", "metrics.jsonl"):
            (folder / file).write_bytes((finished[0] / file).read_bytes())
        (folder / "checkpoint.safetensors").write_bytes(data)
        with pytest.raises(FedtierError, match=r"checkpoint\.safetensors"):
            running.resume_experiment(folder, progress=Progress())


def test_resuming_what_is_no_run_is_refused(fedtier, tmp_path):
    code, out, err = fedtier("resume", tmp_path)
    assert (code, out) == (2, "") and "holds no run" in err


@pytest.mark.slow
def test_a_table_on_stdout_is_plain_text_without_colour(fedtier, tmp_path):
    code, out, _ = fedtier("run", *options([*SHORT, "method.name=server_only", "run.rounds=0"]), "--out", tmp_path / "none")
    assert code == 0 and "server_only on synthetic" in out and f"results: {tmp_path / 'none'}" in out and "\x1b" not in out


def test_methods_and_cite_print_data_on_stdout(fedtier):
    averaging = [name for name, row in registry.METHODS.items() if row.family == "averaging"]
    code, out, err = fedtier("methods", "--json", "--family", "averaging")
    assert code == 0 and err == "" and list(json.loads(out)) == averaging
    code, out, err = fedtier("methods", "--family", "averaging")
    assert code == 0 and err == "" and all(name in out for name in averaging)
    code, out, err = fedtier("cite", "--set", "method.name=scaffold")
    assert code == 0 and err == "" and "karimireddy2020scaffold" in out


def test_the_right_papers_are_cited_for_the_partition_and_the_data(fedtier):
    """Seen: Hsu et al., who draw each client's mix of classes, for a partition that draws each class's shares."""
    out = fedtier("cite")[1]
    assert "yurochkin2019" in out and "li2022silos" in out and "Hsu" not in out and "alpaydin1998" in out
    out = fedtier("cite", "--set", "data.name=activity")[1]
    assert "anguita2013activity" in out and "yurochkin2019" not in out  # natural clients


@pytest.mark.slow
def test_what_leaves_a_client_is_said_as_it_is(fedtier):
    """Seen: `fedtier methods` said that two values alone leave a client; by default it is an estimate as long as the model."""
    told = json.dumps(json.loads(fedtier("methods", "--json")[1])["zo_hfl"])
    assert "two values of f2, or its estimate" in told and "alone leave" not in told
    sent = {}
    for name, more in {"default": [], "values": ["method.preset=paper", "method.uplink=values"]}.items():
        experiment = assemble(configuration.load_config(None, ["run.rounds=1", *more]))
        state = compiled(experiment.method, seeds=True).init(experiment.x, experiment.federation)
        sent[name] = traffic(experiment, state).up
    assert sent["default"] > 4 * 10 * 65 > sent["values"]  # 10 classes of 64 pixels and an intercept, in float32


@pytest.mark.slow
def test_the_command_exits_with_2_and_prints_nothing_on_stdout_when_refused():
    done = subprocess.run(
        [sys.executable, "-m", "fedtier", "run", "--set", "run.participation=0"], capture_output=True, text=True, check=False,
        env=os.environ | {"NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("error: run.participation")
