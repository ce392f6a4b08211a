"""The fair rule of a comparison: the same rows, the same local gradients, the same server, the same size of search."""

from pathlib import Path

import jax
import numpy as np
import pytest

import fedtier as ft
from fedtier.errors import FedtierError, FedtierWarning
from fedtier.experiments.assemble import assemble, federate, load_data
from fedtier.experiments.comparison import DEFAULT_METHODS, REFERENCES, comparison_of, make_comparison
from fedtier.experiments.config import load_config, solves
from fedtier.experiments.grids import at_an_end
from fedtier.experiments.progress import Progress
from fedtier.experiments.search import Point, Search
from fedtier.experiments.tuning import tune_cells
from fedtier.methods import METHODS
from fedtier.schedules import rescaled, shape_of

from ..small_runs import SHORT

SERVER = ("server_lr", "server_batch", "server_steps", "server_step", "averaging")


def cells(*names: str, settings=(), **tables) -> dict:
    found = make_comparison({"methods": [{"name": name} for name in names], **tables}, Path("cells"), settings)
    return {cell.method: cell.config for cell in found.cells}


def test_every_method_takes_the_same_number_of_local_gradients():
    found = cells(*DEFAULT_METHODS)
    work = {name: config.run.tau * solves(config) for name, config in found.items() if solves(config)}
    assert set(work.values()) == {2 * 5.0} and solves(found["zo_hfl"]) == 2 and solves(found["fedavg"]) == 1


def test_personal_models_of_all_methods_are_tuned_for_as_long():
    found = cells("zo_hfl", "fedavg", "server_only")
    assert found["server_only"].run.tau == found["fedavg"].run.tau == 2 * found["zo_hfl"].run.tau  # zo_hfl tunes for 2 H
    assert len({config.method.options["fine_tune"] for config in found.values()}) == 1


def test_a_tau_of_its_own_or_a_switch_leaves_a_method_alone():
    own = [{"name": "zo_hfl"}, {"name": "fedavg", "run": {"tau": 3.0}}]
    found = make_comparison({"methods": own}, Path("cells"))
    assert [cell.config.run.tau for cell in found.cells] == [5.0, 3.0]
    assert {config.run.tau for config in cells("zo_hfl", "fedavg", compare={"equal_steps": False}).values()} == {5.0}


def test_the_server_alone_has_the_server_of_the_method_it_stands_beside():
    entries = [{"name": "zo_hfl", "server_lr": 0.02, "server_steps": 7}, {"name": "server_only"}]
    ours, alone = (cell.config.method.options for cell in make_comparison({"methods": entries}, Path("cells")).cells)
    assert {key: alone[key] for key in SERVER} == {key: ours[key] for key in SERVER} and alone["server_steps"] == 7
    entries[1] = {"name": "server_only", "server_steps": 2}
    ours, alone = (cell.config.method.options for cell in make_comparison({"methods": entries}, Path("cells")).cells)
    assert alone["server_steps"] == 2 and alone["server_lr"] == METHODS["server_only"].recommended["server_lr"]


def test_the_references_stand_in_every_comparison_by_name():
    assert [cell.method for cell in comparison_of(["scaffold"], Path("cells")).cells] == ["scaffold", *REFERENCES]


def test_without_rows_at_the_server_what_needs_them_is_left_out_aloud_unless_it_was_named():
    """Seen: `server_share = 0` refused the whole comparison for a row that nobody had asked for."""
    with pytest.warns(FedtierWarning, match="left out for want of rows at the server: server_only"):
        found = comparison_of([], Path("cells"), ["data.server_share=0"])
    assert [cell.method for cell in found.cells] == [name for name in DEFAULT_METHODS if name != "server_only"]
    with pytest.raises(FedtierError, match="server_only needs rows at the server"):
        comparison_of(["server_only"], Path("cells"), ["data.server_share=0"])
    assert [cell.method for cell in comparison_of([], Path("cells")).cells] == [*DEFAULT_METHODS]


def test_a_server_alone_that_names_its_preset_has_that_presets_server():
    entries = [{"name": "zo_hfl"}, {"name": "server_only", "preset": "paper"}]
    _, alone = (cell.config.method.options for cell in make_comparison({"methods": entries}, Path("cells")).cells)
    assert alone["server_step"] == "sgd" and alone["server_lr"] == "inverse_sqrt(0.01)"


def test_searches_of_a_file_have_one_size_and_keys_that_the_method_has():
    def tuned(**searches):
        entries = [{"name": name, "search": grid} for name, grid in searches.items()]
        return tune_cells(make_comparison({"methods": entries}, Path("cells")), Progress())

    with pytest.raises(FedtierError, match="every method must be searched over the same number of points"):
        tuned(fedavg={"client_lr": [0.1, 0.2]}, server_only={"server_lr": [0.1]})
    with pytest.raises(FedtierError, match="is no key of server_only"):
        tuned(server_only={"client_lr": [0.1]})
    with pytest.raises(FedtierError, match="search of fedavg"):
        tuned(fedavg={"batch": [8]})
    (cell,) = tuned(fedavg={}).cells
    assert cell.tuned == "not tuned: as its file says"


def judging(rows: int) -> dict:
    return {"global": rows, "personal": rows + 1}


def test_a_comparison_of_personal_models_chooses_by_them_from_the_same_search(tmp_path, monkeypatch):
    """The search that was made for the other is found again: it has both scores of every point."""
    searched = []

    def found(config, grid):
        searched.append(grid)
        scores = ((0.1, 0.9, 0.5), (0.2, 0.8, 0.7), (0.3, 0.7, 0.7))
        points = [Point({"client_lr": v}, np.full(2, a), np.full(2, b)) for v, a, b in scores]
        return Search(config, points, 0.0, "accuracy", judging(90))

    monkeypatch.setattr("fedtier.experiments.tuning.run_search", found)
    entries = [{"name": "fedavg", "search": {"client_lr": [0.1, 0.2, 0.3]}}]

    def chosen(**compare):
        return tune_cells(make_comparison({"methods": entries, "compare": compare}, tmp_path), Progress()).cells[0]

    assert chosen().config.method.options["client_lr"] == 0.1 and "on validation rows" in chosen().tuned
    personal = chosen(search_by="personal")
    assert personal.config.method.options["client_lr"] == 0.2, "the better global model among equals"
    assert "best of 3 points on clients' validation rows, 2 seeds: client_lr = 0.2" in personal.tuned
    assert len(searched) == 1
    with pytest.raises(FedtierError, match=r"compare\.search_by = 'worst': must be one of global, personal"):
        chosen(search_by="worst")


def test_what_chooses_a_search_is_refused_or_told_where_nothing_is_searched(fedtier):
    with pytest.raises(FedtierError, match=r"search_by = 'personal': is for tune = True"):
        ft.compare(["fedavg"], "digits", search_by="personal")
    code, _, err = fedtier("compare", "--methods", "fedavg", "--search-by", "worst")
    assert code == 2 and "--search-by = 'worst': must be one of global, personal" in err


def test_a_search_of_a_key_that_a_part_has_names_the_part():
    entries = [ft.zo_hfl(personal=ft.fine_tune(0.3)).table | {"search": {"fine_tune": [0.1, 0.3]}}]
    with pytest.raises(FedtierError, match=r"fine_tune.*cannot be searched beside personal = ") as refusal:
        tune_cells(make_comparison({"methods": entries}, Path("cells")), Progress())
    assert refusal.value.hint == "give keys in its place: fine_tune"


def test_a_search_may_run_fewer_rounds_of_every_point_and_says_so(tmp_path, monkeypatch):
    searched = []

    def found(config, grid):
        searched.append(config.run.rounds)
        return Search(config, [Point({"client_lr": 0.01}, np.ones(2), np.ones(2))], 0.0, "accuracy", judging(10))

    monkeypatch.setattr("fedtier.experiments.tuning.run_search", found)
    entries = [{"name": "fedavg", "search": {"client_lr": [0.01, 0.1]}}]
    for rounds in (None, 7, 50):
        compare = {} if rounds is None else {"search_rounds": rounds}
        file = make_comparison({"methods": entries, "compare": compare}, tmp_path / str(rounds), ["run.rounds=20"])
        (cell,) = tune_cells(file, Progress()).cells
        assert cell.config.run.rounds == 20 and cell.config.method.options["client_lr"] == 0.01
        assert (", 7 rounds: client_lr" in cell.tuned) == (rounds == 7)
    assert searched == [20, 7, 20]
    with pytest.raises(FedtierError, match=r"compare\.search_rounds"):
        make_comparison({"methods": entries, "compare": {"search_rounds": 0}}, tmp_path)


def test_how_many_rounds_are_best_is_searched_where_there_are_several_to_choose_from(tmp_path, monkeypatch):
    """After 12 rounds the second value is best, after 5 the first, by less; 50 rounds are more than the run has."""
    accuracy = {5: [0.6, 0.5], 12: [0.4, 0.7], 20: [0.7, 0.3]}
    searched = []

    def found(config, grid):
        searched.append(config.run.rounds)
        points = zip(grid["client_lr"], accuracy[config.run.rounds], strict=True)
        found = [Point({"client_lr": v}, np.full(2, a), np.ones(2)) for v, a in points]
        return Search(config, sorted(found, key=lambda point: -point.overall[0]), 0.0, "accuracy", judging(10))

    monkeypatch.setattr("fedtier.experiments.tuning.run_search", found)
    tables = {"methods": [{"name": "fedavg", "search": {"client_lr": [0.01, 0.1]}}], "compare": {"search_rounds": [50, 12, 5]}}
    few = "; only 10 validation rows judged, small differences mean nothing"
    (cell,) = tune_cells(make_comparison(tables, tmp_path, ["run.rounds=20"]), Progress()).cells
    assert searched == [5, 12, 20]
    assert cell.config.run.rounds == 12 and cell.config.method.options["client_lr"] == 0.1, "the fewest of equally good rounds"
    assert (
        cell.tuned
        == "best of 2 points x 3 numbers of rounds on validation rows, 2 seeds: client_lr = 0.1, run.rounds = 12" + few
    )
    tune_cells(make_comparison(tables | {"compare": {"search_rounds": [5, 12]}}, tmp_path, ["run.rounds=20"]), Progress())
    assert searched == [5, 12, 20], "what was tried before is found again, whatever stands beside it"
    accuracy[20] = [0.9, 0.1]
    (cell,) = tune_cells(make_comparison(tables, tmp_path / "other", ["run.rounds=20"]), Progress()).cells
    assert cell.config.run.rounds == 20 and cell.tuned.endswith("run.rounds = 20; run.rounds at an end of the grid" + few)
    for wrong in ([], [60], [60, 60], [60, 0], [True], "60", 1.5):
        with pytest.raises(FedtierError, match=r"compare\.search_rounds"):
            make_comparison(tables | {"compare": {"search_rounds": wrong}}, tmp_path)


def test_a_best_point_at_an_end_of_its_grid_is_told():
    grid = {"client_lr": [0.1, 0.01, 1.0], "fine_tune": [0.1, 0.3]}
    assert at_an_end(grid, {"client_lr": 0.01, "fine_tune": 0.1}) == ["client_lr"]
    assert at_an_end(grid, {"client_lr": 0.1, "fine_tune": 0.3}) == []
    shapes = {"client_lr": [0.1, "inverse(0.1)", 0.2, "inverse(1)", "inverse(3)"]}
    assert at_an_end(shapes, {"client_lr": "inverse(3)"}) == ["client_lr"]
    assert at_an_end(shapes, {"client_lr": "inverse(1)"}) == at_an_end(shapes, {"client_lr": 0.2}) == []


def test_a_best_step_with_a_shape_of_its_own_is_taken_as_it_is(tmp_path, monkeypatch):
    def found(config, grid):
        return Search(config, [Point({"client_lr": "inverse(0.1)"}, np.ones(2), np.ones(2))], 0.0, "accuracy", judging(10))

    monkeypatch.setattr("fedtier.experiments.tuning.run_search", found)
    entries = [{"name": "fedavg", "search": {"client_lr": [0.01, "inverse(0.1)"]}}]
    (cell,) = tune_cells(make_comparison({"methods": entries}, tmp_path), Progress()).cells
    assert cell.config.method.options["client_lr"] == "inverse(0.1)" and "client_lr = inverse(0.1)" in cell.tuned


def test_every_method_is_searched_over_the_same_number_of_points():
    sizes = {
        name: int(np.prod([len(values) for values in grid.values()])) for name, row in METHODS.items() if (grid := row.grid)
    }
    assert set(sizes.values()) == {16} and set(sizes) == set(METHODS)


def test_a_search_never_sees_a_row_that_the_run_tests_on():
    settings = ["data.clients=5", "data.alpha=1", "run.rounds=1", "method.name=fedavg", "method.server_seat=false"]
    run, search = (load_config(None, [*settings, *more]) for more in ([], ["data.validation_share=0.2"]))
    data = load_data(run)

    def rows(federation, *windows) -> set:
        index, found = np.asarray(federation.index), set()
        for window in windows:
            for start, size in zip(np.atleast_1d(window.start), np.atleast_1d(window.size), strict=True):
                found |= set(index[int(start) : int(start) + int(size)].tolist())
        return found

    whole, part = federate(run, data, 0), federate(search, data, 0)
    tested = rows(whole, whole.test, whole.held)
    seen = rows(part, part.test, part.held, part.server, part.train)
    assert tested and not tested & seen
    assert rows(part, part.held) <= rows(whole, whole.train) and rows(part, part.test) <= rows(whole, whole.server)
    assert not rows(part, part.held) & rows(part, part.train) and (np.asarray(part.held.size) >= 1).all()
    assert assemble(search, data).clients == 5


def test_without_rows_at_the_server_the_clients_validation_rows_judge_the_global_model_too():
    settings = ["data.clients=5", "data.alpha=1", "run.rounds=1", "run.seeds=2", "method.name=fedavg", "data.server_share=0"]
    drawn = assemble(load_config(None, [*settings, "data.validation_share=0.2"])).federation
    whole = assemble(load_config(None, settings)).federation
    for seed in range(2):
        index, tested = np.asarray(drawn.index[seed]), drawn.test
        judged = index[int(tested.start[seed]) : int(tested.start[seed] + tested.size[seed])]
        held = [index[a : a + n] for a, n in zip(drawn.held.start[seed], drawn.held.size[seed], strict=True)]
        assert sorted(judged) == sorted(np.concatenate(held))
        real = np.asarray(whole.index[seed])[: int(whole.test.size[seed])]
        assert len(judged) > 100 and not set(judged.tolist()) & set(real.tolist())


def test_a_searched_step_keeps_the_shape_of_the_configuration():
    assert rescaled("inverse(0.1, 2)", 0.3) == "inverse(0.3, 2)" and rescaled(0.1, 0.3) == 0.3
    assert float(shape_of("step", "inverse(0.1, 2)")(0.3)(1)) == pytest.approx(0.3 / 3)
    assert float(shape_of("step", 0.1)(0.3)(7)) == pytest.approx(0.3)


@pytest.mark.slow
def test_tuning_searches_each_method_once_and_says_what_it_found(tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "server_only", METHODS["server_only"]._replace(grid={"server_lr": [1e-9, 0.02]}))
    settings = [*SHORT, "data.rows=200", "run.rounds=30", "method.server_steps=5"]
    wanted = make_comparison({"methods": [{"name": "server_only"}]}, tmp_path, settings)
    found = tune_cells(wanted, Progress()).cells[0]
    assert found.config.method.options["server_lr"] == "inverse_sqrt(0.02)"
    assert found.tuned.startswith("best of 2 points on validation rows") and found.folder != wanted.cells[0].folder
    monkeypatch.setattr("fedtier.experiments.tuning.run_search", lambda *a: pytest.fail("searched again"))
    assert tune_cells(wanted, Progress()).cells[0] == found


def test_what_the_server_alone_learns_from_depends_on_nothing_that_concerns_the_clients():
    """Seen: three settings of one table had two different numbers for it (docs/paper.md says why)."""
    short = ["method.name=server_only", "run.rounds=1", "data.test_seed=0", "data.client_test_share=0"]
    drawn = [
        assemble(load_config(None, [*short, f"data.alpha={alpha}", f"run.participation={share}"]))
        for alpha, share in ((1000.0, 0.9), (0.1, 0.1))
    ]
    rows = []
    for one in drawn:
        federation = one.federation
        assert int(federation.test.start[0]) == 0 and int(federation.server.start[0]) == int(federation.test.size[0])
        rows.append(np.asarray(federation.index[0])[: int(federation.test.size[0] + federation.server.size[0])])
    np.testing.assert_array_equal(*rows)  # test rows and server's rows, in the order in which they are drawn from
    np.testing.assert_array_equal(*(jax.random.key_data(one.key) for one in drawn))
    for first, second in zip(*(jax.tree.leaves(one.x) for one in drawn), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_search_is_made_again_when_the_file_holds_other_rows(tmp_path, monkeypatch):
    """Under the same name: the best step for the old rows is not the best for the new ones."""
    searched = []

    def noted(config, grid):
        searched.append(config.data.file)
        points = [Point({"client_lr": 0.1}, np.ones(1), np.ones(1))]
        return Search(config, points, 0.0, "accuracy", judging(4))

    monkeypatch.setattr("fedtier.experiments.tuning.run_search", noted)
    monkeypatch.setitem(METHODS, "fedavg", METHODS["fedavg"]._replace(grid={"client_lr": [0.1]}))
    path = tmp_path / "mine.csv"

    def tune(text):
        path.write_text(text)
        entries = {"methods": [{"name": "fedavg"}], "data": {"file": str(path), "partition": "iid", "clients": 2}}
        tune_cells(make_comparison(entries, tmp_path / "cells"), Progress())
        return len(searched)

    rows = "a,label\n" + "".join(f"{k % 9},{k % 2}\n" for k in range(40))
    assert [tune(rows), tune(rows), tune(rows.replace("7,1", "7,0"))] == [1, 1, 2]
