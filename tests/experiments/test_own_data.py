"""One's own table from file to result: the rows that were named and no others, prepared on training rows, by every command."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fedtier.datasets import Preparation
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments.assemble import assemble
from fedtier.experiments.data import load_data, load_raw, split, training_rows

from ..small_runs import metrics, options

SHORT = ["run.rounds=4", "run.eval_every=4", "run.tau=1", "run.participation=1"]


def written(tmp_path, rows=240, seed=0, name="mine.csv", hospitals=("bern", "ulm", "zurich")):
    """Patients of three hospitals: numbers with gaps, a category, an outcome that follows from both."""
    rng = np.random.default_rng(seed)
    age, sex = rng.integers(20, 90, rows), rng.choice(["f", "m"], rows)
    dose = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(5, 2, rows))
    ill = age + 20 * (sex == "f") + rng.normal(0, 10, rows) > 65
    lines = [
        f"{a},{s},{'' if np.isnan(d) else round(d, 3)},{h},{'ill' if y else 'well'}"
        for a, s, d, h, y in zip(age, sex, dose, rng.choice(hospitals, rows), ill, strict=True)
    ]
    path = tmp_path / name
    path.write_text("age,sex,dose,hospital,outcome\n" + "\n".join(lines) + "\n")
    return path


def mine(path, *more):
    return configuration.load_config(None, [f'data.file="{path}"', "data.label=outcome", *more, *SHORT])


def test_a_file_is_the_data_and_an_owner_means_natural_clients(tmp_path, fedtier):
    """Seen: `file`, `label`, `owner` as the README suggests trained on digits and ten invented clients, without a word."""
    path = written(tmp_path)
    config = mine(path, "data.owner=hospital")
    assert (config.data.name, config.data.partition) == ("file", "natural")
    assert configuration.load_config(None, []).data.name == "digits"
    found = ["data.file=mine.csv", "data.label=outcome", "data.owner=hospital", *SHORT]
    code, out, err = fedtier("run", *options(found), "--out", "run", "--json")
    assert code == 0 and json.loads(out)["final"][0]["global_accuracy"] is not None
    line = err.splitlines()[0]
    assert line.startswith("mine.csv: 240 rows; 3 columns as 5 inputs; label outcome: binary; 3 natural clients, the smallest ")
    clients = json.loads((tmp_path / "run" / "clients.json").read_text())[0]
    assert clients["names"] == ["bern", "ulm", "zurich"]
    counts = json.loads((tmp_path / "run" / "partition.json").read_text())
    assert counts["names"] == ["bern", "ulm", "zurich"] and counts["labels"] == ["ill", "well"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (['data.file="mine.csv"', "data.name=digits"], r"data.file = 'mine.csv': names other data than data.name = 'digits'"),
        (["data.label=outcome"], r"data.label = 'outcome': is not read with data.name = 'digits'\n  hint: name your file"),
        (["data.owner=hospital", "data.partition=natural"], "data.owner = 'hospital': is not read with data.name = 'digits'"),
        (['data.file="a.csv"', "data.owner=h", "data.partition=iid"], "data.owner = 'h': would not be read: data.partition"),
        (['data.file="a.csv"', "data.owner=h", "data.clients=7"], "data.clients = 7: is not read: natural clients"),
        (["data.drop=[\"a\"]"], "data.drop"),
        (["data.task=regression"], "data.task"),
        (["data.rows=7"], "data.rows = 7: is not read with data.name = 'digits'[^$]*synthetic"),
        (["data.partition=iid", "data.alpha=3"], "data.alpha = 3.0: is not read with data.partition = 'iid'"),
        (["data.classes_per_client=3"], "data.classes_per_client"),
        (["data.name=file"], "data.file = None: must name your file"),
        (["data.name=mnits"], r"data.name = 'mnits'[^$]*did you mean 'mnist'"),
    ],
)  # fmt: skip
def test_keys_that_contradict_each_other_or_that_nothing_reads_are_refused(settings, message):
    with pytest.raises(FedtierError, match=message):
        configuration.load_config(None, settings)


def test_a_resolved_configuration_reads_back_as_itself(tmp_path):
    config = mine(written(tmp_path), "data.owner=hospital", 'data.drop=["dose"]', "data.min_rows=5", "data.small_clients=merge")
    (tmp_path / "again.toml").write_text(config.toml())
    assert configuration.load_config(tmp_path / "again.toml") == config


def test_owners_in_an_npz_are_not_replaced_by_invented_clients_without_a_word(tmp_path):
    np.savez(tmp_path / "a.npz", inputs=np.arange(80.0).reshape(40, 2) ** 2, labels=np.arange(40) % 2, owner=np.arange(40) % 4)
    with pytest.raises(FedtierError, match=r"data.partition: must be named, for .* has 4 owners[^$]*natural"):
        load_data(configuration.load_config(None, [f'data.file="{tmp_path}/a.npz"']))
    assert load_data(configuration.load_config(None, [f'data.file="{tmp_path}/a.npz"', "data.owner=owner"])).clients == 4


@pytest.mark.parametrize("partition", [["data.owner=hospital"], ['data.drop=["hospital"]', "data.clients=4", "data.alpha=5"]])
def test_neither_test_rows_nor_held_back_rows_change_how_any_seed_is_prepared(tmp_path, partition):
    """Seen: files were standardised over all rows, test included. Here the rows that no training sees become absurd."""
    config = mine(written(tmp_path), *partition, "run.seeds=3")
    before, raw = load_data(config), load_raw(config)
    table = raw.raw.rows
    for s, seed in enumerate(range(3)):
        rows, seen = training_rows(config, raw, seed), np.zeros(raw.rows, bool)
        seen[rows] = True
        assert 0.6 * raw.rows < seen.sum() < 0.9 * raw.rows
        wild = {
            name: np.where(seen, column, 1e12) if isinstance(column, np.ndarray) else column._replace(
                codes=np.where(seen, column.codes, len(column.levels)).astype(np.int32), levels=(*column.levels, "unheard of")
            )
            for name, column in table.columns.items()
        }  # fmt: skip
        spoilt = raw._replace(raw=raw.raw._replace(rows=table._replace(columns=wild)))
        assert spoilt.prepared([rows]).preparation == before.preparations[s]
    experiment = assemble(config, before)
    index, first = np.asarray(experiment.federation.index), raw.rows
    assert all(index[s].min() == s * first and index[s].max() == (s + 1) * first - 1 for s in range(3))


@pytest.mark.slow
def test_several_seeds_at_once_give_what_each_gives_alone(tmp_path, fedtier):
    path = written(tmp_path)
    words = options([f'data.file="{path}"', "data.label=outcome", "data.owner=hospital", "method.name=fedavg", *SHORT])
    assert fedtier("run", *words, "--seeds", "3", "--out", "all")[0] == 0
    assert fedtier("run", *words, *options(["run.seed=2"]), "--out", "last")[0] == 0
    together = [row for row in metrics(tmp_path / "all") if row["seed"] == 2]
    for one, alone in zip(together, metrics(tmp_path / "last"), strict=True):
        assert one["global_loss"] == pytest.approx(alone["global_loss"], rel=1e-5)
    kept = json.loads((tmp_path / "all" / "preprocessing.json").read_text())
    alone = json.loads((tmp_path / "last" / "preprocessing.json").read_text())
    assert list(kept) == ["0", "1", "2"] and kept["2"] == alone["2"] and kept["0"] != kept["2"]


@pytest.mark.slow
def test_the_stored_preparation_and_model_predict_what_the_run_measured(tmp_path, fedtier):
    """In NumPy, from the run's files alone: neither the training data nor fedtier's own model."""
    from safetensors.numpy import load_file

    path = written(tmp_path)
    settings = [f'data.file="{path}"', "data.label=outcome", "data.owner=hospital", "method.name=fedavg", *SHORT]
    assert fedtier("run", *options(settings), "--out", "run")[0] == 0
    config = configuration.load_config(tmp_path / "run" / "config.toml")
    raw = load_raw(config)
    experiment = assemble(config)
    test = np.asarray(experiment.federation.index[0])[: int(experiment.federation.test.size[0])]
    kept = json.loads((tmp_path / "run" / "preprocessing.json").read_text())["0"]
    inputs = Preparation.from_json(json.dumps(kept)).apply(raw.raw.rows.take(test))
    model = load_file(tmp_path / "run" / "model.safetensors")
    logits = inputs @ model["weight"][0].T + model["bias"][0]
    right = np.mean(np.argmax(logits, axis=1) == raw.labels[test])
    loss = np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(test)), raw.labels[test]])
    final = metrics(tmp_path / "run")[-1]
    assert final["global_accuracy"] == pytest.approx(right) and final["global_loss"] == pytest.approx(loss, rel=1e-5)


def test_one_school_with_one_row_no_longer_blocks_the_others(tmp_path):
    path = written(tmp_path)
    path.write_text(path.read_text() + "50,f,1.0,lonely,ill\n60,f,1.0,alone,ill\n61,m,1.0,alone,ill\n")
    with pytest.raises(FedtierError, match=r"1 owner of fewer than 2 rows: lonely \(1\)"):
        load_raw(mine(path, "data.owner=hospital"))
    dropped = load_data(mine(path, "data.owner=hospital", "data.small_clients=drop"))
    assert dropped.owner_names == ("alone", "bern", "ulm", "zurich")
    joined = load_data(mine(path, "data.owner=hospital", "data.small_clients=merge", "data.min_rows=3"))
    assert joined.owner_names == ("bern", "ulm", "zurich", "others") and joined.rows == 243


def test_many_small_owners_all_take_part(tmp_path):
    path = written(tmp_path, rows=400, hospitals=[f"h{k}" for k in range(80)])  # 5 rows each on average
    config = mine(path, "data.owner=hospital", "data.small_clients=drop", "data.min_rows=2")
    drawn = split(config, dataset := load_raw(config), np.zeros(dataset.rows), np.random.default_rng(0))
    assert drawn.clients > 70 and np.asarray(drawn.train.size).min() >= 1


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("zo_hfl", "fedprox", "scaffold", "ditto", "local_only")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedavg", *SLOW])
def test_without_rows_at_the_server_every_method_that_can_runs(tmp_path, fedtier, name):
    """Seen: `server_share = 0` was refused."""
    path = written(tmp_path)
    settings = [
        f'data.file="{path}"',
        "data.label=outcome",
        "data.owner=hospital",
        "data.server_share=0",
        f"method.name={name}",
    ]
    code, _, err = fedtier("run", *options([*settings, *SHORT]), "--out", "run", "--json")
    assert code == 0, err
    first, last = metrics(tmp_path / "run")[0], metrics(tmp_path / "run")[-1]
    if name != "local_only":
        assert last["global_loss"] < first["global_loss"] and last["f1"] == 0 and last["f"] == last["f2"]
    assert ("f1 = 0, and what is left is least where clients do not move" in err) == (name == "zo_hfl")
    assert "no rows at the server" in err


@pytest.mark.parametrize(("rows", "told"), [(485, False), (486, True)])
def test_fewer_rows_at_the_server_than_a_method_is_to_show_are_told(fedtier, rows, told):
    settings = ["method.name=fedmd", f"method.public_rows={rows}"]
    code, _, err = fedtier("run", *options([*settings, *SHORT]), "--out", "run", "--json")
    assert code == 0, err
    assert ("fewer than the 486 rows that it is to show: 485 are shown" in err) == told


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["method.name=server_only"], "data.server_share = 0: server_only needs rows at the server"),
        (["method.name=fedavg", "method.server_seat=true"], "method.server_seat = True: needs rows at the server"),
        (["method.pretrain=5"], "method.pretrain = 5: needs rows at the server"),
        (["method.trust=1", "method.estimator=guided"], "trust.*but the server has no rows"),
        (["method.guide=server", "method.estimator=guided"], "zo_hfl needs rows at the server, as it is set here"),
    ],
)  # fmt: skip
def test_what_needs_rows_at_the_server_says_so(settings, message):
    with pytest.raises(FedtierError, match=message):
        configuration.load_config(None, ["data.server_share=0", *settings])


@pytest.mark.slow
def test_a_number_as_the_label_is_a_regression_in_the_label_s_own_unit(tmp_path, fedtier):
    """Seen: float labels became 200 classes. The measured errors are those of the stored model, in NumPy."""
    from safetensors.numpy import load_file

    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 3))
    price = 1000 + 200 * x @ [1.0, -2.0, 0.5] + rng.normal(0, 50, 500)
    site = rng.choice(["a", "b"], 500)
    lines = [",".join(map(repr, [*row, p])) + f",{s}" for row, p, s in zip(x.tolist(), price.tolist(), site, strict=True)]
    (tmp_path / "p.csv").write_text("x,y,z,price,site\n" + "\n".join(lines) + "\n")
    settings = ["data.file=p.csv", "data.label=price", "data.owner=site", "method.name=fedavg", "method.fine_tune=0.1"]
    code, out, err = fedtier(
        "run", *options([*settings, "run.rounds=30", "run.tau=10", "run.participation=1", "run.eval_every=30"]), "--out", "run"
    )
    assert code == 0 and "label price: regression" in err and "rmse" in out
    final = metrics(tmp_path / "run")[-1]
    assert final["global_accuracy"] is None and final["personal_accuracy"]["mean"] is None
    experiment = assemble(configuration.load_config(tmp_path / "run" / "config.toml"))
    test = np.asarray(experiment.federation.index[0])[: int(experiment.federation.test.size[0])]
    kept = Preparation.from_json(json.dumps(json.loads((tmp_path / "run" / "preprocessing.json").read_text())["0"]))
    model = load_file(tmp_path / "run" / "model.safetensors")
    seen = kept.apply(x[test])
    said = (seen @ model["weight"][0, 0] + model["bias"][0, 0]) / kept.label.scale + kept.label.shift
    wrong = said - price[test]
    assert final["global_rmse"] == pytest.approx(np.sqrt(np.mean(wrong**2)), rel=1e-4)
    assert final["global_mae"] == pytest.approx(np.mean(np.abs(wrong)), rel=1e-4)
    assert final["global_r2"] == pytest.approx(1 - np.mean(wrong**2) / np.var(price[test]), rel=1e-4)
    assert 40 < final["global_rmse"] < 70 and final["global_r2"] > 0.95  # the noise has a deviation of 50
    clients = json.loads((tmp_path / "run" / "clients.json").read_text())[0]
    assert clients["names"] == ["a", "b"] and np.mean(clients["personal_rmse"]) == pytest.approx(final["personal_rmse"]["mean"])
    assert max(clients["personal_rmse"]) == pytest.approx(final["personal_rmse"]["max"])


def test_softmax_and_cross_entropy_are_refused_for_a_number(tmp_path):
    (tmp_path / "p.csv").write_text("x,y\n" + "".join(f"{k},{k * 1.5}\n" for k in range(60)))
    settings = [f'data.file="{tmp_path}/p.csv"', "data.label=y", "data.clients=2", "data.partition=iid", 'data.keep=["x"]']
    for more, message in (("model.name=softmax", "is for classes"), ("model.loss=cross_entropy", "is for classes")):
        with pytest.warns(match="counts the rows"), pytest.raises(FedtierError, match=message):
            assemble(configuration.load_config(None, [*settings, more]))
    with pytest.raises(FedtierError, match="is for a regression"):
        assemble(configuration.load_config(None, ["model.loss=huber"]))


def test_clients_with_few_held_back_rows_are_not_the_worst():
    from fedtier.experiments.metrics import error_spread, spread

    accuracy, held = np.array([0.9, 0.0, 0.8, np.nan]), np.array([30, 2, 10, 0])
    wanted = {"mean": pytest.approx(1.7 / 3), "by_rows": pytest.approx(35 / 42), "min": 0.8, "p10": pytest.approx(0.81)}
    assert spread(accuracy, held) == wanted
    few = spread(accuracy, np.array([3, 2, 9, 0]))
    assert (few["mean"], few["min"], few["p10"]) == (pytest.approx(1.7 / 3), None, None)
    errors = error_spread(np.array([1.0, 50.0, 2.0]), np.array([30, 2, 10]))
    by_rows = pytest.approx((30 + 100 + 20) / 42)
    assert errors == {"mean": pytest.approx(53 / 3), "by_rows": by_rows, "max": 2.0, "p90": pytest.approx(1.9)}
