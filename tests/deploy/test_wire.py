"""A run between sites gives the models and the rows of the simulation it was rehearsed as."""

import json

import jax
import numpy as np
import pytest
import safetensors.numpy
import tomli_w

from fedtier.deploy.export import export_rows
from fedtier.deploy.rows import open_server
from fedtier.deploy.server import serve_rounds
from fedtier.deploy.settings import load_run_file
from fedtier.deploy.site import open_site
from fedtier.deploy.site_table import site_command
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments.bundle import Bundle
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import resume_experiment, run_experiment
from fedtier.experiments.stopping import Stopped
from fedtier.protocol import SolverProcess, letters, loopback
from fedtier.protocol.letters import HEAD, Kind
from fedtier.reports import load_runs

from ..small_runs import first_slow, metrics

CLIENTS = 4
SETTINGS = [
    "data.name=synthetic", f"data.clients={CLIENTS}", "data.partition=dirichlet", "data.alpha=0.5",
    "data.client_test_share=0.3",
    "run.rounds=8", "run.eval_every=4", "run.participation=0.75", "run.tau=[1, 2, 3, 0.5]", "run.stragglers=0.2",
    "run.dropouts=0.2", "method.radius=[0.3, 0.5, 1, 2]",
]  # fmt: skip
QUIET = Progress()


def setup(folder, *settings):
    """The configuration and its federation as files."""
    config = configuration.load_config(None, [*SETTINGS, *settings])
    export_rows(config, folder / "fed")
    return config


def sites(folder, state="state"):
    return {f"site-{k}": open_site(folder / f"site-{k}.toml", folder / state / str(k)) for k in range(CLIENTS)}


def between(folder, members, out="wire", **more):
    ask = loopback({name: site.answer for name, site in members.items()})
    return serve_rounds(folder / "run.toml", folder.parent / out, ask, progress=QUIET, **more)


def model(folder):
    return safetensors.numpy.load_file(folder / "model.safetensors")["weight"]


def close(found, wanted):
    assert np.linalg.norm(found - wanted) <= 1e-6 * np.linalg.norm(wanted)


def same_rows(found, wanted):
    """Equal up to the rounding of sums in another order."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key in wanted:
            same_rows(found[key], wanted[key])
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-5, abs=1e-7)
    else:
        assert found == wanted


@pytest.mark.parametrize("method", first_slow(["zo_hfl", "fedavg", "scaffold", "ditto"]))
def test_the_wire_gives_the_models_the_rows_and_the_bytes_of_the_simulation(tmp_path, method):
    """Unequal data, unequal H, unequal radii, stragglers, drop-outs."""
    config = setup(tmp_path, f"method.name={method}", "method.server_seat=false")
    simulated = run_experiment(config, tmp_path / "sim", progress=QUIET)
    result = between(tmp_path / "fed", sites(tmp_path / "fed"))
    close(model(result.folder), model(simulated.folder))
    for found, wanted in zip(metrics(result.folder), metrics(simulated.folder), strict=True):
        same_rows(found, wanted)  # the predicted bytes are the bytes
    told = json.loads((result.folder / "sites.json").read_text())["sites"]
    assert sum(site["counted"] for site in told.values()) == int(result.experiment.plan.arrived.sum())
    curve = load_runs.load_runs([result.folder])[0]
    assert curve.finished and len(curve.points) == CLIENTS
    ours, theirs = Bundle.load(tmp_path / "fed" / "state" / "0"), Bundle.load(simulated.folder)
    close(ours.personal["site-0"].weight, theirs.personal["0"].weight)
    close(ours.model.weight, theirs.model.weight)
    inputs = result.experiment.dataset.inputs[:20]
    of_server = Bundle.load(result.folder)
    np.testing.assert_array_equal(of_server.predict(inputs).probabilities, ours.predict(inputs).probabilities)
    assert of_server.clients == () and "in its state folder" in of_server.personal.why


@pytest.mark.slow
def test_with_values_exactly_two_numbers_leave_a_site(tmp_path):
    setup(tmp_path, "method.preset=paper", "method.uplink=values", "run.dropouts=0", "run.stragglers=0")
    replies = []

    def heard(site):
        def answer(letter):
            reply = site.answer(letter)
            if letters.unpack(letter, len(letter))[0].kind == Kind.ROUND:
                replies.append(reply)
            return reply

        return answer

    ask = loopback({name: heard(site) for name, site in sites(tmp_path / "fed").items()})
    serve_rounds(tmp_path / "fed" / "run.toml", tmp_path / "wire", ask, progress=QUIET)
    assert len(replies) == 8 * 3
    for reply in replies:
        arrays = safetensors.numpy.load(reply[HEAD.size :])
        assert {name: (a.dtype, a.shape) for name, a in arrays.items()} == {
            "plus": (np.float32, (1,)), "minus": (np.float32, (1,)),
        }  # fmt: skip
        assert len(reply) < 200


@pytest.mark.slow
def test_a_finished_run_is_extended_to_the_bits_and_rows_of_the_longer_one_and_never_shortened(tmp_path):
    """The old end is between two evaluations of the longer run: its row goes."""
    setup(tmp_path, "method.name=scaffold", "run.eval_every=2", "run.rounds=6")
    whole = between(tmp_path / "fed", sites(tmp_path / "fed", "whole"), "whole")
    file, said = tmp_path / "fed" / "run.toml", configuration.read_toml(tmp_path / "fed" / "run.toml")
    for rounds in (3, 6):
        file.write_text(tomli_w.dumps(said | {"run": said["run"] | {"rounds": rounds}}))
        members = sites(tmp_path / "fed", "often")
        result = between(tmp_path / "fed", members, "often")
        for site in members.values():
            site.close()
    assert np.array_equal(model(result.folder), model(whole.folder))
    assert metrics(result.folder) == metrics(whole.folder)
    assert "extended to 6 rounds" in (result.folder / "run.log").read_text()
    file.write_text(tomli_w.dumps(said | {"run": said["run"] | {"rounds": 3}}))
    with pytest.raises(FedtierError, match="a run is never shortened"):
        between(tmp_path / "fed", {}, "often")


@pytest.mark.slow
def test_a_stopped_run_goes_on_from_its_folder_bit_for_bit_and_not_as_a_simulation(tmp_path):
    setup(tmp_path, "method.name=scaffold")
    whole = between(tmp_path / "fed", sites(tmp_path / "fed", "whole"), "whole")
    polls = [0]

    def stopped():
        polls[0] += 1
        return polls[0] % 3 == 0

    lives = 0
    while True:
        lives += 1
        members = sites(tmp_path / "fed", "often")
        try:
            result = between(tmp_path / "fed", members, "often", stopped=stopped)
            break
        except Stopped:
            pass
        finally:
            for site in members.values():
                site.close()
        with pytest.raises(FedtierError, match="between sites"):
            resume_experiment(tmp_path / "often", progress=QUIET)
        tables = configuration.read_toml(tmp_path / "fed" / "run.toml")  # the rules of a round may change meanwhile
        tables["wire"] |= {"quorum": 1 / lives, "deadline": 30.0 + lives, "start": CLIENTS}
        (tmp_path / "fed" / "run.toml").write_text(tomli_w.dumps(tables))
    assert lives > 2
    assert np.array_equal(model(result.folder), model(whole.folder))
    assert metrics(result.folder) == metrics(whole.folder)


@pytest.mark.slow
def test_a_sites_own_limits_bind_and_where_it_keeps_its_scores_the_row_does_without(tmp_path):
    config = setup(tmp_path, "method.name=zo_hfl", "method.radius=1.0", "run.dropouts=0", "run.stragglers=0")
    free = between(tmp_path / "fed", sites(tmp_path / "fed", "free"), "free")
    site = tmp_path / "fed" / "site-0.toml"
    site.write_text(site.read_text() + "max_steps = 1\nradius = 0.01\nproximity = 5.0\nshare_scores = false\n")
    bound = between(tmp_path / "fed", sites(tmp_path / "fed", "bound"), "bound")
    assert free.final[0]["local_steps"] > bound.final[0]["local_steps"]
    scores = json.loads((bound.folder / "clients.json").read_text())[0]["personal"]
    assert scores[0] is None and None not in scores[1:]
    bundle = Bundle.load(tmp_path / "fed" / "bound" / "0")
    y, x = bundle.personal["site-0"].weight, bundle.model.weight
    assert 0 < np.linalg.norm(y - x) <= 0.01 * (1 + 1e-5)
    assert config.run.rounds == bound.final[0]["round"]


@pytest.mark.slow
def test_a_site_without_time_makes_one_step_and_with_much_time_all(tmp_path):
    """What fits in between is in tests/engines/test_limits.py, where no clock is asked."""
    setup(tmp_path, "method.name=fedavg", "run.tau=2000", "run.dropouts=0", "run.stragglers=0", "run.rounds=4")
    for k in range(CLIENTS):
        site = tmp_path / "fed" / f"site-{k}.toml"
        site.write_text(site.read_text() + f"seconds = {1e-9 if k == 0 else 1e6}\n")
    bound = between(tmp_path / "fed", sites(tmp_path / "fed"))
    plan = bound.experiment.plan
    hurried = plan.ids == 0
    assert hurried.sum() > 1
    assert bound.final[0]["local_steps"] == int(plan.steps[~hurried].sum()) + hurried.sum()


@pytest.mark.slow
def test_between_sites_further_metrics_judge_the_global_model_alone(tmp_path):
    setup(tmp_path, "method.name=fedavg", "run.rounds=2", 'run.metrics=["log_loss"]')
    (row,) = between(tmp_path / "fed", sites(tmp_path / "fed")).final
    assert row["metrics"]["log_loss"]["global"] == pytest.approx(row["global_loss"], rel=1e-5)
    assert row["metrics"]["log_loss"]["personal"]["mean"] is None


@pytest.mark.slow
def test_sites_in_processes_of_their_own_give_the_same_bits(tmp_path):
    setup(tmp_path, "method.name=fedavg", "run.rounds=4")
    here = between(tmp_path / "fed", sites(tmp_path / "fed", "here"), "here")
    solvers = {
        f"site-{k}": SolverProcess(site_command(tmp_path / "fed" / f"site-{k}.toml", tmp_path / "apart" / str(k)))
        for k in range(CLIENTS)
    }
    try:
        ask = loopback({name: solver.answer for name, solver in solvers.items()})
        apart = serve_rounds(tmp_path / "fed" / "run.toml", tmp_path / "out", ask, progress=QUIET)
    finally:
        for solver in solvers.values():
            solver.close()
    assert np.array_equal(model(apart.folder), model(here.folder)) and metrics(apart.folder) == metrics(here.folder)


def test_a_site_whose_rows_do_not_fit_the_servers_card_refuses_and_the_server_says_why(tmp_path):
    setup(tmp_path, "method.name=fedavg")
    with np.load(tmp_path / "fed" / "site-1.npz") as rows:
        np.savez(tmp_path / "fed" / "site-1.npz", inputs=rows["inputs"], labels=np.full(len(rows["labels"]), "unheard of"))
    members, asked = sites(tmp_path / "fed"), [0]

    def stopped():
        asked[0] += 1
        return asked[0] > 2

    with pytest.raises(Stopped):
        between(tmp_path / "fed", members, stopped=stopped)
    log = (tmp_path / "wire" / "run.log").read_text()
    assert "site-1: refused: its hello" in log and "unheard of" in log and "is no label of this federation" in log


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('sites = ["a", "a"]', "names a site twice"),
        ("quorum = 1.5", "wire.quorum"),
        ("deadlin = 3", "did you mean 'deadline'"),
        ('server = "nowhere.npz"', "is not there"),
    ],
)
def test_a_run_file_that_is_wrong_is_refused_before_anybody_is_asked(tmp_path, change, words):
    setup(tmp_path)
    file = tmp_path / "fed" / "run.toml"
    key = change.split(" =")[0]
    lines = [line for line in file.read_text().split("[wire]")[1].splitlines() if not line.startswith(f"{key} =")]
    table = "\n".join(lines)
    if key == "sites":
        table = table[table.index("]") + 1 :]
    file.write_text(file.read_text().split("[wire]")[0] + f"[wire]\n{change}\n" + table)
    with pytest.raises(FedtierError, match=words):
        serve_rounds(file, tmp_path / "wire", lambda letters, seconds: pytest.fail("asked"), progress=QUIET)


@pytest.mark.parametrize(("served", "tested"), [(np.uint8, np.float32), (np.float32, np.uint8), (np.uint8, np.uint8)])
def test_test_rows_keep_their_values_beside_server_rows_of_another_type(tmp_path, served, tested):
    """A float of -1.7 among bytes was 255 once."""
    rng = np.random.default_rng(0)
    files = {
        "server": rng.integers(0, 255, (12, 1, 3, 3)).astype(served),
        "test": rng.integers(0, 255, (6, 1, 3, 3)).astype(tested),
    }
    if tested == np.float32:
        files["test"] -= np.float32(1.7)
    for name, inputs in files.items():
        np.savez(tmp_path / f"{name}.npz", inputs=inputs, labels=np.resize(["a", "b", "c"], len(inputs)))
    (tmp_path / "run.toml").write_text('[wire]\nsites = ["north", "south"]\nserver = "server.npz"\ntest = "test.npz"\n')
    experiment, _ = open_server(load_run_file(tmp_path / "run.toml"))
    rows = np.asarray(experiment.federation.arrays.inputs)
    np.testing.assert_array_equal(rows[:6], files["test"])
    np.testing.assert_array_equal(rows[6:], files["server"])
    assert rows.dtype == np.result_type(served, tested)


def test_the_columns_of_an_npz_are_prepared_like_those_of_a_table(tmp_path):
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(3.0, 2.0, (18, 5)), np.resize(["a", "b", "c"], 18)
    lines = [",".join([*map(repr, row.tolist()), label]) for row, label in zip(inputs, labels, strict=True)]
    for name, chosen in (("server", slice(0, 12)), ("test", slice(12, None))):
        np.savez(tmp_path / f"{name}.npz", inputs=inputs[chosen], labels=labels[chosen])
        (tmp_path / f"{name}.csv").write_text("\n".join(["0,1,2,3,4,label", *lines[chosen]]) + "\n")
    found = []
    for kind in ("npz", "csv"):
        words = f'[wire]\nsites = ["north", "south"]\nserver = "server.{kind}"\ntest = "test.{kind}"\n'
        (tmp_path / "run.toml").write_text(words)
        found.append(open_server(load_run_file(tmp_path / "run.toml"))[0].federation.arrays)
    np.testing.assert_allclose(np.asarray(found[0].inputs)[6:].mean(axis=0), 0.0, atol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, *found)
