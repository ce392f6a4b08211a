"""`import fedtier as ft`: quick, complete, found by tab; the same numbers as the command line; refusals before any work."""

import gc
import json
import os
import subprocess
import sys

import numpy as np
import optax
import pytest
import safetensors.numpy

import fedtier as ft
from fedtier.errors import FedtierError
from fedtier.experiments.comparison import make_comparison
from fedtier.experiments.config import load_config
from fedtier.experiments.data import load_data
from fedtier.experiments.outcomes import Outcome
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment
from fedtier.experiments.stopping import Stopped
from fedtier.library.metrics import Records
from fedtier.methods import registry

from ..small_runs import first_slow, metrics, options

SETTINGS = ["data.name=synthetic", "data.clients=4", "data.partition=natural", "data.client_test_share=0.3"]
SETTINGS += ["run.rounds=4", "run.eval_every=2", "run.participation=0.5", "run.tau=2", "run.seed=3", "run.seeds=2"]
RUN = {"rounds": 4, "eval_every": 2, "participation": 0.5, "tau": 2, "seeds": 2}


def made() -> ft.Federated:
    return ft.federate("synthetic", clients=4, partition="natural", client_test_share=0.3, seed=3)


def hospitals(rows: int = 240, seed: int = 0) -> dict[str, np.ndarray]:
    """A table whose third column means the opposite in Lugano."""
    rng = np.random.default_rng(seed)
    where = np.asarray(["basel", "lugano", "zurich"])[np.arange(rows) % 3]
    age, sugar = rng.standard_normal((2, rows))
    ill = age + np.where(where == "lugano", -3.0, 3.0) * sugar > 0
    return {"age": age, "sugar": sugar, "hospital": where, "outcome": np.where(ill, "ill", "well")}


def test_the_import_is_quick_and_loads_none_of_the_heavy_packages():
    code = (
        "import sys, time; start = time.process_time(); import fedtier as ft; seconds = time.process_time() - start;"
        "heavy = {'jax', 'numpy', 'pandas', 'matplotlib', 'optax', 'equinox', 'sklearn', 'pydantic'} & {*sys.modules};"
        "dir(ft); print(seconds, sorted(heavy))"
    )
    seconds, heavy = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split(
        " ", 1
    )
    assert float(seconds) < 0.3 and heavy.strip() == "[]"


def test_everything_is_at_the_top_and_found_by_tab():
    homes = {name for names in ft.HOMES.values() for name in names}
    assert {*ft.__all__} == homes | {"__version__"} and homes <= {*dir(ft)}
    assert {*registry.METHODS} <= homes
    for name in homes:
        assert getattr(ft, name).__doc__, name


@pytest.mark.slow
def test_training_takes_all_cores_and_a_jax_that_is_running_as_it_is():
    """Seen: half a machine stood idle in every program that did not know of `configure_jax`, the benchmark's own too."""
    train = "import fedtier as ft; ft.train('fedavg', 'digits', rounds=1, tau=1); import jax; print(jax.device_count())"
    late = "import jax; jax.devices(); " + train
    free = {key: value for key, value in os.environ.items() if key not in ("JAX_NUM_CPU_DEVICES", "XLA_FLAGS")}
    for code, cores in ((train, len(os.sched_getaffinity(0))), (late, 1)):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=free)
        assert int(done.stdout.split()[-1]) == cores


@pytest.mark.slow
def test_train_gives_the_numbers_of_the_command_line_to_the_last_digit(fedtier, tmp_path):
    method = ["method.penalty=3", "method.server_lr=constant(0.01)"]
    code, _, err = fedtier("run", *options([*SETTINGS, *method]), "--out", tmp_path / "command")
    assert code == 0, err
    chosen = ft.zo_hfl(penalty=3.0, server_lr="constant(0.01)")
    result = ft.train(chosen, made(), **RUN, folder=tmp_path / "library")
    assert metrics(tmp_path / "library") == metrics(tmp_path / "command")
    files = [{path.name for path in (tmp_path / name).iterdir()} for name in ("command", "library")]
    assert files[0] == files[1] and result.folder == tmp_path / "library"
    for name in ("config.toml", "clients.json"):
        assert (tmp_path / "library" / name).read_bytes() == (tmp_path / "command" / name).read_bytes(), name
    for name in ("plan.safetensors", "model.safetensors"):
        ours, theirs = (safetensors.numpy.load_file(tmp_path / place / name) for place in ("library", "command"))
        assert all(np.array_equal(ours[key], theirs[key]) for key in theirs), name


def test_without_a_folder_nothing_stays_on_disk_and_results_print_and_draw_themselves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = ft.train(ft.server_only(), made(), **RUN)
    assert "global" in repr(result) and "results:" not in repr(result) and result.plot().axes
    assert "<table>" in result.metrics._repr_html_() and "global_accuracy" in repr(result.metrics)
    assert len(result.metrics) == 6 and len(result.final) == 2
    inside = result.run.folder
    assert result.folder is None and inside.exists() and not [*tmp_path.iterdir()]
    assert result.save(tmp_path / "kept") == tmp_path / "kept" and metrics(tmp_path / "kept") == metrics(inside)
    del result
    assert not inside.exists()


PARTS = {
    "server_only": (
        {"server": ft.descent(0.2, steps=2, batch=16), "personal": ft.fine_tune(0.1, batch=8)},
        ["server_lr=0.2", "server_steps=2", "server_batch=16", "fine_tune=0.1", "batch=8"],
    ),
    "zo_hfl": (
        {
            "estimator": ft.guided(smoothing=0.05),
            "local": ft.projected_sgd(0.1, batch=8, bounded=True),
            "server": ft.descent(0.2, batch=16),
        },
        [
            "estimator=guided",
            "smoothing=0.05",
            "client_lr=0.1",
            "server_lr=0.2",
            "server_steps=1",
            "server_batch=16",
            "batch=8",
        ],
    ),
}


@pytest.mark.parametrize("name", first_slow(["zo_hfl", "server_only"]))
@pytest.mark.slow
@pytest.mark.checked
def test_parts_give_what_their_keys_give(name, tmp_path):
    parts, keys = PARTS[name]
    keys = [f"method.{key}" for key in (f"name={name}", "server_step=sgd", "averaging=0", *keys)]
    expected = run_experiment(load_config(settings=[*SETTINGS, *keys]), tmp_path / "keys", progress=Progress())
    extra = {"batch": 8} if "personal" in parts else {"personal": ft.fine_tune("inverse(0.1)", batch=8)}
    result = ft.train(ft.method(name, **parts, **extra), made(), **RUN)
    assert metrics(result.run.folder) == metrics(expected.folder)


def test_the_preset_is_the_recommended_one_unless_the_paper_s_is_named():
    assert ft.zo_hfl().settings == load_config().method.model_dump(exclude_none=True)
    paper = ft.zo_hfl(preset="paper").settings
    assert paper == load_config(settings=["method.preset=paper"]).method.model_dump(exclude_none=True)
    assert paper["estimator"] == "sphere" and "estimator='auto'" in repr(ft.zo_hfl())
    changed = ft.zo_hfl(smoothing=0.2).settings
    assert {key for key in changed if changed[key] != ft.zo_hfl().settings[key]} == {"smoothing"}


def test_a_frame_with_owners_ends_in_personal_models_that_predict(tmp_path):
    frame = hospitals()
    data = ft.federate(frame, label="outcome", owner="hospital", server_share=0.3, seed=0)
    assert data.clients == ("basel", "lugano", "zurich") and "lugano" in repr(data) and "<pre>" in data._repr_html_()
    parts = {"estimator": ft.guided(), "local": ft.projected_sgd(0.1), "server": ft.descent(optax.adam(3e-3), steps=20)}
    result = ft.train(ft.zo_hfl(**parts, fine_tune=0.5), data, rounds=4, participation=1.0, tau=20, eval_every=4)
    assert set(result.personal) == set(data.clients) and result.model is not None
    lugano = {key: values[frame["hospital"] == "lugano"] for key, values in frame.items()}
    shared, own = result.predict(lugano), result.predict(lugano, client="lugano")
    assert own.accuracy > shared.accuracy + 0.2  # the sign of one column is another there
    assert [row["client"] for row in result.clients] == [*data.clients]
    adapted = result.adapt(lugano, client="ticino", steps=40)
    assert adapted.bundle.predict(lugano, client="ticino").accuracy > shared.accuracy
    result.save(tmp_path / "run")
    again = ft.load(tmp_path / "run").predict(lugano, client="lugano")
    np.testing.assert_array_equal(again.values, own.values)
    saved = ft.load(tmp_path / "run").adapt(lugano, client="ticino", steps=40)  # seen: refused, no file holds the estimator
    both = (bundle.outputs(saved.read(lugano).inputs, "ticino") for bundle in (saved, adapted.bundle))
    np.testing.assert_array_equal(*both)
    assert "a global model, 1 personal one;" in repr(saved)


def test_a_stopped_program_is_not_sent_to_a_folder_that_is_gone(monkeypatch, tmp_path):
    def stop(*_, **__):
        raise Stopped(tmp_path, 3)

    monkeypatch.setattr("fedtier.library.compare.run_cells", stop)
    monkeypatch.setattr("fedtier.library.train.run_experiment", stop)
    for call in (lambda **place: ft.compare(["fedavg"], made(), **place), lambda **place: ft.train("fedavg", made(), **place)):
        with pytest.raises(KeyboardInterrupt):
            call()
    with pytest.raises(Stopped, match="fedtier resume"):
        ft.compare(["fedavg"], made(), store=tmp_path)


def test_methods_in_a_list_are_called_by_their_names(monkeypatch):
    """Seen: labels that were the whole repr of a method, every key of it."""
    monkeypatch.setattr("fedtier.library.compare.run_cells", lambda comparison, _: Outcome(comparison, {}))
    table = ft.compare([ft.local_only(), "server_only", ft.local_only(client_lr=0.2)], made(), rounds=1)
    assert [cell.method for cell in table.outcome.comparison.cells] == ["local_only", "server_only", "local_only 2"]


def test_arrays_are_read_as_an_npz_of_them_is(tmp_path):
    rng = np.random.default_rng(0)
    inputs, labels = rng.standard_normal((200, 3)), rng.integers(0, 2, 200)
    np.savez(tmp_path / "rows.npz", inputs=inputs, labels=labels)
    both = [ft.federate(source, clients=3, alpha=5.0) for source in ((inputs, labels), tmp_path / "rows.npz")]
    first, second = (load_data(data.config) for data in both)
    np.testing.assert_array_equal(first.inputs, second.inputs)
    np.testing.assert_array_equal(first.labels, second.labels)
    assert first.label_names == second.label_names == ("0", "1")
    with pytest.raises(ft.FedtierError, match="inputs and labels"):
        ft.federate(inputs)


def test_pandas_is_asked_for_by_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ft.FedtierError, match=r"fedtier\[pandas\]"):
        Records([{"round": 1}]).to_pandas()


def wrong_lengths():
    ft.federate((np.zeros((4, 2)), np.arange(3)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ft.zo_hfl(smoothin=0.1), ["smoothin", "did you mean 'smoothing'?"]),
        (lambda: ft.zo_hfl(smoothing=-1.0), ["smoothing = -1.0", "above 0"]),
        (lambda: ft.zo_hfl(server="adam"), ["server", "must be a server's descent"]),
        (lambda: ft.zo_hfl(server=ft.descent(0.1), server_lr=0.1), ["server_lr", "belongs to the part server"]),
        (lambda: ft.zo_hfl(local=lambda x: x), ["local", "local(x, rows, steps, seed)"]),
        (lambda: ft.scaffold(local=lambda x, rows, steps, seed: x), ["local", "scaffold", "zo_hfl"]),
        (lambda: ft.fedavg(preset="papers"), ["preset"]),
        (lambda: ft.federate("MNIST"), ["did you mean 'mnist'?"]),
        (lambda: ft.federate(hospitals(), label="outcom", owner="hospital"), ["label", "did you mean 'outcome'?"]),
        (lambda: ft.federate(hospitals(), label="outcome", owner="hospital", alpha=1.0), ["alpha", "natural"]),
        (wrong_lengths, ["labels", "one value per row"]),
        (lambda: ft.train(ft.fedavg, made()), ["method", "call it: ft.fedavg()"]),
        (lambda: ft.train(ft.fedavg(), made(), model=ft.mlp), ["model", "call it: ft.mlp()"]),
        (lambda: ft.federate(hospitals(), label="outcome", drop="age"), ["drop", 'drop = ["age"]']),
        (lambda: ft.train("fedvag", made()), ["did you mean 'fedavg'?"]),
        (lambda: ft.train(ft.zo_hfl(), made(), rounds=-1), ["rounds = -1"]),
        (lambda: ft.train(ft.zo_hfl(), made(), round=5), ["round = 5", "did you mean 'rounds'?"]),
        (lambda: ft.train(ft.zo_hfl(), made(), model=ft.mlp(hidden=0)), ["hidden = 0"]),
        (lambda: ft.train(ft.zo_hfl(), made(), model=3.0), ["model"]),
        (lambda: ft.compare({}, made()), ["methods"]),
        (lambda: ft.compare({"a": ft.fedavg()}, made(), baseline="b"), ["baseline = 'b'"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_the_name_of_the_argument(call, words):
    with pytest.raises(ft.FedtierError) as refused:
        call()
    assert all(word in str(refused.value) for word in words), refused.value


@pytest.mark.slow
def test_compare_gives_the_table_of_the_command_line(fedtier, tmp_path):
    run = {key: value for key, value in RUN.items() if key != "seeds"}
    method = ft.zo_hfl(penalty=3.0)
    table = ft.compare({"ours": method, "FedAvg": ft.fedavg()}, made(), **run, seeds=2, baseline="FedAvg")
    text = "\n".join([
        '[data]\nname = "synthetic"\nclients = 4\npartition = "natural"\nclient_test_share = 0.3',
        "[run]\nrounds = 4\neval_every = 2\nparticipation = 0.5\ntau = 2.0\nseed = 3\nseeds = 2",
        '[compare]\nbaseline = "FedAvg"',
        '[[methods]]\nlabel = "ours"\nname = "zo_hfl"\npenalty = 3.0', '[[methods]]\nlabel = "FedAvg"\nname = "fedavg"',
    ])  # fmt: skip
    (tmp_path / "compare.toml").write_text(text)
    code, out, err = fedtier("compare", "compare.toml", "--json")
    assert code == 0, err
    for cell, row in zip(json.loads(out)["cells"], table.rows, strict=True):
        assert cell["method"] == row["method"] and cell["metrics"]["global"]["mean"] == row["global"]
    assert "FedAvg" in repr(table) and table.finding and "<table>" in table._repr_html_()
    assert "\\toprule" in table.to_latex() and table.to_markdown().startswith("| method") and table.plot().axes


def test_the_server_alone_has_the_server_s_part_of_the_method_beside_it(tmp_path):
    def cells(*methods):
        entries = [{"label": str(k)} | method.table for k, method in enumerate(methods)]
        return make_comparison({"methods": entries}, tmp_path).cells

    part = ft.descent(optax.adam(0.01), steps=2)
    ours, alone = cells(ft.zo_hfl(server=part), ft.server_only())
    assert ours.config.method.options["server"] is part and alone.config.method.options["server"] is part
    assert "server_lr" not in alone.config.method.options
    own = ft.descent(0.5)
    assert cells(ft.zo_hfl(server=part), ft.server_only(server=own))[1].config.method.options["server"] is own
    assert cells(ft.zo_hfl(), ft.server_only(server=own))[1].config.method.options["server"] is own


def test_two_objects_of_one_kind_are_two_cells_and_no_run_of_one_is_found_for_the_other(tmp_path):
    folders = [
        make_comparison({"methods": [ft.server_only(server=ft.descent(rate)).table]}, tmp_path).cells[0].folder
        for rate in (0.01, 0.3, 0.3)
    ]
    assert len(set(folders)) == 3


def test_personal_models_outlive_their_result():
    """Nobody asked for a folder, and the result that holds it is gone: the file of the models is still there."""
    personal = ft.train(ft.fedavg(fine_tune=0.05), ft.federate("digits", clients=5), rounds=1, tau=1).personal
    gc.collect()
    assert personal["0"].weight.shape == (10, 64)


def test_half_precision_is_judged_beside_the_method_that_trains():
    net, data = ft.model("mlp", hidden=8, precision="half"), ft.federate("digits", clients=5)
    assert ft.train(ft.fedavg(), data, model=net, rounds=0, tau=1).config.model.precision == "half"
    with pytest.raises(FedtierError, match=r"precision(.|\n)*decomfl takes differences"):
        ft.train(ft.decomfl(), data, model=net, rounds=0, tau=1)
    with pytest.raises(FedtierError, match=r"model = 'cnn'(.|\n)*put the channels first"):
        ft.train(ft.fedavg(), ft.federate((np.zeros((80, 28, 28, 3)), np.arange(80) % 2), clients=4), model=ft.cnn(), rounds=0)


def test_rows_that_no_model_can_read_are_refused_by_what_they_are(tmp_path):
    result = ft.train(ft.fedavg(), ft.federate("digits", clients=5), rounds=0, tau=1)
    rows = np.zeros((3, 1, 8, 8), np.float32)
    rows[1, 0, 2, 3] = np.nan
    with pytest.raises(FedtierError, match="row 1': holds what is no finite number"):
        result.predict(rows)
    with pytest.raises(FedtierError, match=r"rows = 'tuple'(.|\n)*numpy\.savez"):
        result.adapt((rows, np.zeros(3, int)))
    with pytest.raises(FedtierError, match="model = 'ModelChoice'"):
        ft.frozen(ft.mlp(hidden=8), result.model)


def test_a_result_tells_which_clients_have_chosen_the_global_model(capsys):
    data = ft.federate("digits", clients=10, alpha=100.0, server_share=0.3)  # alike: few need a model of their own
    result = ft.train(ft.fedavg(fine_tune=1.0), data, rounds=30, tau=5, personal_check=0.2, progress=True)
    told = {row["client"]: row["kept_global"] for row in result.clients}
    same = {name: bool(np.array_equal(result.personal[name].weight, result.model.weight)) for name in told}
    assert told == same and set(same.values()) == {True, False}
    assert f"{sum(same.values())} of 10 clients keep the global model" in capsys.readouterr().err
    without = ft.train(ft.fedavg(), data, rounds=0, tau=1)
    assert "kept_global" not in without.clients[0]


def test_sizes_that_a_model_does_not_read_are_told(capsys):
    data = ft.federate("digits", clients=5)
    for net, told in ((ft.model("cnn", hidden=32), True), (ft.mlp(hidden=32), False)):
        ft.train(ft.fedavg(), data, model=net, rounds=0, tau=1, progress=True)
        assert ("model.hidden = 32 is not read: it is for mlp, and the model is cnn" in capsys.readouterr().err) is told


def test_a_run_in_which_no_client_makes_a_step_says_so(capsys):
    data = ft.federate("digits", clients=5)
    for tau, told in ((0, True), (1, False)):
        ft.train(ft.fedavg(), data, rounds=1, tau=tau, progress=True)
        assert ("no client makes a local step" in capsys.readouterr().err) is told
