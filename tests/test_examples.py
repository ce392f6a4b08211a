"""The examples do what they say."""

import importlib.util
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import fedtier as ft
from fedtier.cli import COMMANDS
from fedtier.experiments.comparison import make_comparison
from fedtier.experiments.config import load_config, read_toml
from fedtier.methods import exact, orthogonal

FOLDER = Path(__file__).parent.parent / "examples"
STUDIES = Path(ft.__file__).parent / "studies" / "heterogeneity"


def example(name: str):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_closed_program_at_the_sites_is_optimised_through_its_values_alone():
    reached, best = example("black_box").main()
    assert reached <= 1.01 * best


@pytest.mark.slow
def test_around_a_frozen_net_every_client_is_right_with_a_head_of_its_own():
    result = ft.train("zoopfl", "digits", model=example("black_box_inside").model, rounds=10)
    assert np.mean([row["personal"] for row in result.clients]) > 0.9


@pytest.mark.slow
def test_where_a_constraint_is_active_values_find_the_minimum_and_the_exact_formula_does_not():
    run = example("active_constraint").run
    np.testing.assert_allclose(run(orthogonal(smoothing=0.05)), -1.0, atol=0.05)
    assert np.abs(run(exact()) + 1.0).max() > 0.4


def test_the_table_behind_a_frozen_net_counts_bytes_and_losses_until_the_goal():
    module = example("frozen_net")
    scores = {0: (0.1, 0.1), 2: (0.92, 0.86), 4: (0.91, 0.93)}  # of two seeds
    metrics = [
        {"round": r, "global_accuracy": score, "bytes_up": 600 * r, "bytes_down": 1200 * r}
        for r, of in scores.items()
        for score in of
    ]
    row = module.row_of("a", module.Tuned(None, 1, 40, 7), metrics, 6)
    assert row == ["a", "92.0 ± 1.4", "100", "200", "4", "400", "160", "28"]  # the mean reaches 90 % after four rounds
    assert module.row_of("a", module.Tuned(None, 1, 40, 7), [{**metrics[2], "global_accuracy": 0.89}], 6)[-4:] == ["never"] * 4


@pytest.mark.parametrize("name", ["black_box", "active_constraint", "frozen_net"])
def test_the_docstring_names_the_command_that_runs_it(name):
    assert f"python examples/{name}.py" in (example(name).__doc__ or "")


TINY = ("run.rounds=2", "run.eval_every=2", "run.seeds=1")


def asked(capsys, command, *arguments, **options):
    """What `fedtier COMMAND ... --json` says, called as the command line calls it."""
    COMMANDS[command](*arguments, json=True, **options)
    return json.loads(capsys.readouterr().out)


def run_example(folder, capsys):
    said = asked(capsys, "run", FOLDER / "run.toml", TINY, out=folder / "run")
    assert said["seeds"] == [0] and said["final"][0]["round"] == 2
    assert len(asked(capsys, "partition", FOLDER / "run.toml")["names"]) == 10
    COMMANDS["cite"](FOLDER / "run.toml")
    assert "qiu2025zohfl" in capsys.readouterr().out


def compare_example(folder, capsys):
    said = asked(capsys, "compare", FOLDER / "compare.toml", TINY, store=folder / "cells")
    assert len(list((folder / "cells").iterdir())) == 10 and "FedAvg" in json.dumps(said)


def search_example(folder, capsys):
    said = asked(capsys, "search", FOLDER / "search.toml", TINY)
    assert len(said["points"]) == 12


def theory_example(folder, capsys):
    said = asked(capsys, "theory", FOLDER / "theory.toml", ("run.rounds=10",))
    assert all(assumption["holds"] for assumption in said["assumptions"])


def own_example(folder, capsys):
    example("patients").write(folder / "patients.csv")
    said = asked(capsys, "run", FOLDER / "own.toml", TINY, out=folder / "own")
    assert said["final"][0]["round"] == 2
    assert asked(capsys, "partition", FOLDER / "own.toml")["names"] == ["basel", "geneva", "lugano", "zurich"]


def photographs_example(folder, capsys):
    assert as_studied("photographs.toml", "nets-augmented.toml", folder, {"penalty", "proximity"}).data.augment


def decayed_example(folder, capsys):
    searched = {"penalty", "server_lr", "server_weight_decay"}
    assert not as_studied("decayed_net.toml", "nets-decayed.toml", folder, searched).data.augment


def as_studied(example: str, study: str, folder, searched):
    """The example's configuration, whose method is the first of the study but for what the study searched."""
    studied = make_comparison(read_toml(STUDIES / study), folder, []).cells[0].config
    config = load_config(FOLDER / example)
    assert config.method.model_copy(update={key: getattr(studied.method, key) for key in searched}) == studied.method
    assert config.model == studied.model and config.run.tau == studied.run.tau
    return config


def wire_example(folder, capsys):
    from fedtier.deploy.settings import load_run_file

    run = load_run_file(FOLDER / "wire" / "run.toml")
    assert run.wire.sites == ["north", "south", "west"] and run.config.data.clients == 3


def sites_example(folder, capsys):
    from fedtier.deploy.flare.authority import check_sites
    from fedtier.deploy.settings import load_run_file
    from fedtier.experiments.config import read_toml

    sites = check_sites(read_toml(FOLDER / "wire" / "sites.toml"))
    assert list(sites.sites) == load_run_file(FOLDER / "wire" / "run.toml").wire.sites


def site_example(folder, capsys):
    from fedtier.deploy.site import open_site

    shutil.copy(FOLDER / "wire" / "north.toml", folder)
    (folder / "north.csv").write_text("age,outcome\n1.0,ill\n", encoding="utf-8")
    site = open_site(folder / "north.toml", folder / "state")
    assert site.name == "north" and site.limits.max_steps == 200


FILES = {
    "run.toml": run_example, "compare.toml": compare_example, "search.toml": search_example, "theory.toml": theory_example,
    "own.toml": own_example, "photographs.toml": photographs_example, "decayed_net.toml": decayed_example,
    "wire/run.toml": wire_example, "wire/sites.toml": sites_example, "wire/north.toml": site_example,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_every_example_file_is_what_its_command_reads(file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    FILES[file](tmp_path, capsys)


def test_every_example_file_has_its_test_and_names_a_command_that_reads_it():
    found = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.toml")}
    assert found == set(FILES)
    named = {}
    for name in found:
        text = (FOLDER / name).read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if line.startswith("#") and "fedtier " in line]
        named[name] = {re.search(r"fedtier (\S+)", line)[1] for line in lines}  # pyright: ignore[reportOptionalSubscript]
        assert named[name] <= set(COMMANDS) and f"examples/{name}" in text
    reads_toml = {"run", "compare", "search", "theory", "partition", "cite", "provision", "serve", "flower", "join"}
    assert set.union(*named.values()) >= reads_toml
