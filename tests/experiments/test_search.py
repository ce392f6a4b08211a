"""A search runs its grid at once, never sees the test rows, and agrees with single runs."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments import search
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment
from fedtier.schedules import size_of

from ..small_runs import options

TEXT = """
[method]
name = "server_only"
preset = "paper"
[run]
rounds = 5
seeds = 2
[search]
server_lr = [0.01, 1.0]
"""


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "search.toml"
    path.write_text(TEXT)
    return path


@pytest.mark.slow
def test_every_point_equals_the_run_with_its_options_and_the_best_stands_first(file, tmp_path):
    config, grid = search.load_search(file)
    found = search.run_search(config, grid)
    assert [point.options["server_lr"] for point in found.points] == [1.0, 0.01]
    for point in found.points:
        same = ["method.name=server_only", "method.preset=paper", "run.rounds=5", "run.seeds=2", "data.validation_share=0.1"]
        single = configuration.load_config(None, [*same, f"method.server_lr=inverse_sqrt({point.options['server_lr']})"])
        result = run_experiment(single, tmp_path / f"run-{point.options['server_lr']}", progress=Progress())
        np.testing.assert_allclose(point.overall, [row["global_accuracy"] for row in result.final], atol=1e-6)


@pytest.mark.slow
def test_weight_decays_are_searched_at_once_and_each_point_is_the_run_with_them(tmp_path):
    same = ["method.name=zo_hfl", "run.rounds=4", "run.tau=4", "data.validation_share=0.1"]
    config = configuration.load_config(None, same)
    found = search.run_search(config, {"weight_decay": [0.0, 20.0], "server_weight_decay": [0.0, 30.0]})
    assert len({(float(point.overall[0]), float(point.personal[0])) for point in found.points}) == 4
    for point in found.points:
        single = configuration.load_config(None, [*same, *(f"method.{key}={value}" for key, value in point.options.items())])
        result = run_experiment(single, tmp_path / "-".join(map(str, point.options.values())), progress=Progress())
        np.testing.assert_allclose(point.overall, [row["global_accuracy"] for row in result.final], atol=1e-6)
        np.testing.assert_allclose(point.personal, [row["personal_accuracy"]["mean"] for row in result.final], atol=1e-6)


def test_validation_rows_come_from_the_server_and_the_test_rows_are_nobodys():
    from fedtier.experiments.assemble import assemble

    plain = assemble(configuration.load_config(None, ["run.rounds=1"])).federation
    held = assemble(configuration.load_config(None, ["run.rounds=1", "data.validation_share=0.25"])).federation
    assert int(held.test.start[0]) == int(plain.server.start[0])
    assert int(held.test.size[0] + held.server.size[0]) == int(plain.server.size[0])
    assert int(held.test.size[0]) == round(0.25 * int(plain.server.size[0]))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("[search]\nserver_lr = []", "search.server_lr"), ("[search]\nserver_lr = [-1.0]", "search.server_lr"),
        ("[search]\nserver_lrr = [1.0]", "server_lr"), ("", "search"), ("[search]\nserver_rate = [1.0]", "method.server_rate"),
        ("[search]\nserver_lr = [1.0, 0.0]", "method.server_lr"), ("[search]\nserver_lr = [true]", "search.server_lr"),
        ('[search]\nserver_lr = ["inverted(1)"]', "server_lr.*no schedule"), ('[search]\npenalty = ["inverse(1)"]', "penalty"),
    ],
)  # fmt: skip
def test_an_impossible_grid_is_refused(tmp_path, change, name):
    path = tmp_path / "bad.toml"
    path.write_text(TEXT.split("[search]", maxsplit=1)[0] + change)
    with pytest.raises(FedtierError, match=name):
        search.load_search(path)


CLIENTS = ["data.clients=4", "data.alpha=0.1", "data.client_test_share=0.2", "run.rounds=2", "run.tau=4"]


def small_search(tmp_path, name, grid, *settings):
    path = tmp_path / "small.toml"
    path.write_text(f'[method]\nname = "{name}"\n[search]\n{grid}\n')
    return search.load_search(path, (*CLIENTS, *settings))


@pytest.mark.slow
def test_fine_tune_0_switches_it_off_as_in_a_run(tmp_path):
    """The personal model is then y_i(x); fine-tuning with a step of 0 would leave x."""
    settings = ["method.proximity=0.1", "method.server_steps=1", *CLIENTS]
    (point,) = search.run_search(*small_search(tmp_path, "zo_hfl", "fine_tune = [0.0]", *settings)).points
    config = configuration.load_config(None, [*settings, "method.fine_tune=0", "data.validation_share=0.1"])
    (row,) = run_experiment(config, tmp_path / "run", progress=Progress()).final
    np.testing.assert_allclose(point.personal, [row["personal_accuracy"]["mean"]], atol=1e-6)
    assert abs(row["personal_accuracy"]["mean"] - row["global_on_clients"]["mean"]) > 0.01  # y_i(x) is not x


@pytest.mark.slow
def test_points_that_switch_something_off_stand_among_the_others(tmp_path):
    def scores(grid):
        found = search.run_search(*small_search(tmp_path, "server_only", f"fine_tune = {grid}")).points
        return {point.options["fine_tune"]: float(point.personal[0]) for point in found}

    together = scores([0.1, 0.0, 0.3])
    assert together == scores([0.0]) | scores([0.1, 0.3]) and len(set(together.values())) == 3


@pytest.mark.slow
def test_points_that_differ_in_fine_tune_alone_share_one_training(tmp_path, monkeypatch):
    """Of every shape, and switched off: the scores are those of searches one by one, the trainings as many as client steps."""
    trained = []
    sweep = search.sweep
    monkeypatch.setattr(search, "sweep", lambda member, points, *rest: trained.append(points) or sweep(member, points, *rest))

    def scores(*tunes):
        grid = {"client_lr": [0.01, 0.1], "fine_tune": list(tunes)}
        config, _ = small_search(tmp_path, "fedavg", "client_lr = [0.1]", "method.fine_tune=0.5")
        return {tuple(point.options.values()): point for point in search.run_search(config, grid).points}

    together = scores(0.3, "inverse(0.1)", 0.0, 0.01, "inverse(1, 10)")
    assert [points[0]["client_lr"].shape for points in trained] == [(2,)] and len(together) == 10
    alone = scores(0.3, 0.01) | scores(0.0) | scores("inverse(0.1)") | scores("inverse(1, 10)")
    assert {key: (float(p.overall[0]), float(p.personal[0])) for key, p in together.items()} == {
        key: (float(p.overall[0]), float(p.personal[0])) for key, p in alone.items()
    }
    assert len({float(point.personal[0]) for point in together.values()}) > 4


@pytest.mark.slow
def test_who_wants_personal_models_chooses_by_them(fedtier, tmp_path):
    place = tmp_path / "best.toml"
    words = ("search", "--over", "client_lr=1e-6,0.1", "--over", "fine_tune=1e-6,1", "--by", "personal", "--out", place)
    code, out, err = fedtier(*words, *options([*CLIENTS, "method.name=fedavg"]))
    assert code == 0 and "by the personal models" in out, err
    config, grid = search.load_search(file_with(tmp_path, 'by = "personal"\nclient_lr = [1e-6, 0.1]\nfine_tune = [1e-6, 1.0]'))
    points = search.run_search(config, grid, by="personal").points
    scores = [float(point.personal.mean()) for point in points]
    assert scores == sorted(scores, reverse=True)
    assert size_of(configuration.load_config(place).method.options["fine_tune"]) == points[0].options["fine_tune"]
    code, _, err = fedtier("search", "--over", "client_lr=0.1", "--by", "personel")
    assert code == 2 and "--by = 'personel': must be one of global, personal" in err and "did you mean 'personal'" in err
    assert "by the personal models" in place.read_text() and "inverse(" in out, "a number of the list keeps the shape"
    for by in ('"worst"', "[1]"):
        with pytest.raises(FedtierError, match=r"search\.by = .*: must be one of global, personal"):
            search.load_search(file_with(tmp_path, f"by = {by}\nclient_lr = [0.1]"))


def file_with(tmp_path, lists) -> Path:
    path = tmp_path / "by.toml"
    path.write_text(f'[data]\nclients = 4\n[run]\nrounds = 2\n[method]\nname = "fedavg"\n[search]\n{lists}\n')
    return path


@pytest.mark.slow
def test_a_step_size_may_be_searched_in_several_shapes_and_each_point_is_what_a_search_of_its_shape_finds(tmp_path):
    def scores(grid, *settings):
        found = search.run_search(*small_search(tmp_path, "fedavg", f"client_lr = {grid}", *settings)).points
        return {point.options["client_lr"]: float(point.overall[0]) for point in found}

    together = scores('[0.01, "inverse(0.1)", 0.1, "inverse(1)"]')
    falling = scores("[0.1, 1.0]", "method.client_lr=inverse(0.5)")
    alone = scores("[0.01, 0.1]") | {"inverse(0.1)": falling[0.1], "inverse(1)": falling[1.0]}
    assert together == alone and len(set(together.values())) > 2
    order = search.order_search(None, (*CLIENTS, "method.name=fedavg"), ("client_lr=0.0001,inverse(1, 1)",))
    assert order.grid == {"client_lr": [0.0001, "inverse(1, 1)"]}
    order = search.order_search(None, (*CLIENTS, "method.name=fedavg"), ('client_lr=[0.0001, "inverse(1)"]',))
    assert search.search(order).best["method"]["client_lr"] == "inverse(1)"


@pytest.mark.slow
def test_a_method_without_a_global_model_is_ranked_by_its_personal_models(tmp_path):
    found = search.run_search(*small_search(tmp_path, "local_only", "client_lr = [1e-6, 0.1, 1e-5]"))
    scores = [float(point.personal.mean()) for point in found.points]
    assert scores == sorted(scores, reverse=True) and found.points[0].options == {"client_lr": 0.1}
    assert all(np.isnan(point.overall).all() for point in found.points)


def test_a_score_of_0_is_a_score_and_none_is_none():
    scores = np.asarray([[0.0, 0.0], [0.5, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(search.mean_over_clients(scores), [0.0, 0.5, np.nan])


@pytest.mark.slow
def test_what_a_search_prints_is_json_with_null_where_there_is_no_score(fedtier, tmp_path):
    small_search(tmp_path, "local_only", "client_lr = [0.1]")
    code, out, err = fedtier("search", tmp_path / "small.toml", "--json", *options(CLIENTS))
    assert code == 0, err
    found = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert found["points"][0]["accuracy"] == [None] and 0 <= found["points"][0]["personal"][0] <= 1


@pytest.mark.slow
def test_where_the_label_is_a_number_the_smallest_error_is_the_best(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    lines = [f"{a},{b},{3 * a - b + 0.1 * e}" for (a, b), e in zip(x, rng.normal(size=300), strict=True)]
    (tmp_path / "prices.csv").write_text("\n".join(["a,b,price", *lines]))
    more = [
        f'data.file="{tmp_path / "prices.csv"}"',
        "data.label=price",
        "data.partition=iid",
        "data.clients=3",
        "run.rounds=5",
    ]
    found = search.run_search(*small_search(tmp_path, "server_only", "server_lr = [1e-6, 0.03, 1e-5]", *more))
    errors = [float(point.overall.mean()) for point in found.points]
    assert found.measure == "rmse" and found.points[0].options == {"server_lr": 0.03}
    assert (
        errors == sorted(errors) and errors[0] < 0.5 < errors[-1]
    )  # in deviations of the label: 1 is a model that knows nothing


def test_a_problem_without_classes_has_nothing_to_rank_by(tmp_path):
    config, grid = small_search(tmp_path, "zo_hfl", "penalty = [1.0]", "data.name=quadratic", "data.partition=natural")
    with pytest.raises(FedtierError, match="quadratic"):
        search.run_search(config, grid)


@pytest.mark.slow
def test_any_key_is_searched_and_the_winner_is_a_configuration_that_runs(fedtier, tmp_path):
    grid = ["--over", "model.name=linear,mlp", "--over", "server_lr=1e-7,0.01"]
    settings = [*CLIENTS, "method.name=server_only", "model.hidden=8"]
    code, out, err = fedtier("search", *options(settings), *grid, "--out", "best.toml", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert {(p["options"]["model.name"], p["options"]["server_lr"]) for p in found["points"]} == {
        (name, lr) for name in ("linear", "mlp") for lr in (1e-7, 0.01)
    }
    scores = [float(np.mean(p["accuracy"])) for p in found["points"]]
    assert scores == sorted(scores, reverse=True)
    best = configuration.load_config(tmp_path / "best.toml")
    assert best.model.name == found["points"][0]["options"]["model.name"] and best.data.validation_share == 0.0
    assert best.method.options["server_lr"] == f"inverse_sqrt({found['points'][0]['options']['server_lr']:g})"
    assert best.run.rounds == 2 and best.model.hidden == 8
    assert fedtier("search", *options(settings), *grid, "--out", "best.toml")[0] == 2  # it is there already


def test_a_search_without_a_key_or_with_an_unknown_one_is_refused(fedtier):
    assert "--over" in fedtier("search")[2]
    code, _, err = fedtier("search", "--over", "model.hiden=1,2")
    assert code == 2 and "did you mean 'hidden'?" in err
    code, _, err = fedtier("search", "--over", "run.rounds=1,-2")
    assert code == 2 and "run.rounds" in err
