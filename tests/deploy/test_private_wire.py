"""[privacy] between sites is the mechanism of the simulation: the same numbers with the same draws, counted and kept within."""

import json

import jax
import numpy as np
import pytest
import tomli_w

from fedtier import keys
from fedtier.deploy.masks import secret_key
from fedtier.deploy.privacy_words import page_of
from fedtier.deploy.server import serve_rounds
from fedtier.deploy.site import _within_budget
from fedtier.deploy.site_table import SiteTable
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments.budgets import finds_noise
from fedtier.experiments.run import run_experiment
from fedtier.experiments.run_folder import RunFolder
from fedtier.privacy import Cohorts, epsilon_of
from fedtier.protocol import Site, letters, loopback
from fedtier.protocol.letters import Kind

from ..small_runs import metrics
from .test_masked_wire import FEDAVG, PLAIN
from .test_wire import CLIENTS, QUIET, between, close, model, setup, sites

DELTA, NOISE, CLIP = 0.005, 5.0, 0.05


def settings(**privacy):
    return [*PLAIN, *FEDAVG, "method.batch=4", *(f"privacy.{key}={value}" for key, value in privacy.items())]


@pytest.fixture
def same_draws(monkeypatch):
    """Server and sites draw from run.seed, as a simulation does, in place of their secrets."""
    monkeypatch.setattr("fedtier.deploy.server.secret_key", lambda files: keys.root(0))
    monkeypatch.setattr(Site, "_key_of", lambda self, key, question, player: key)


@pytest.mark.slow
def test_the_server_s_noise_is_that_of_the_simulation_and_the_run_ends_when_the_budget_is_spent(tmp_path, same_draws):
    """Of four rounds the budget pays for two. What leaves a site is clipped, and has no noise yet."""
    spent = [epsilon_of(NOISE, rounds, Cohorts("all", CLIENTS, CLIENTS), DELTA, "rdp") for rounds in range(4)]
    how = {"kind": "clients", "noise": NOISE, "epsilon": (spent[2] + spent[3]) / 2, "delta": DELTA, "clip": CLIP}
    config = setup(tmp_path, *settings(**how, accountant="rdp"))
    simulated, replies = run_experiment(config, tmp_path / "sim", progress=QUIET), []

    def heard(site):
        def answer(letter):
            reply = site.answer(letter)
            if letters.unpack(letter, len(letter))[0].kind == Kind.ROUND:
                replies.append(reply)
            return reply

        return answer

    ask = loopback({name: heard(one) for name, one in sites(tmp_path / "fed").items()})
    played = serve_rounds(tmp_path / "fed" / "run.toml", tmp_path / "wire", ask, progress=QUIET)
    close(model(played.folder), model(simulated.folder))
    for found, wanted in zip(metrics(played.folder), metrics(simulated.folder), strict=True):
        assert found["round"] == wanted["round"] and found["epsilon"] == wanted["epsilon"]
        assert found["global_loss"] == pytest.approx(wanted["global_loss"], rel=1e-5)
    assert metrics(played.folder)[-1]["round"] == 2 and metrics(played.folder)[-1]["epsilon"] == pytest.approx(spent[2])
    lengths = [np.linalg.norm(np.frombuffer(reply[-4 * model(played.folder).size :], "<f4")) for reply in replies]
    assert len(replies) == 2 * CLIENTS and max(lengths) <= CLIP * 1.00001
    start = np.asarray(played.experiment.x.weight[0])
    assert np.linalg.norm(model(played.folder) - start) > 2 * CLIP, "the replies alone could not move it so far"


@pytest.mark.slow
def test_each_site_finds_the_noise_of_its_own_rows_as_the_simulation_does_and_tells_nobody_how_many_they_are(
    tmp_path, same_draws
):
    config = setup(tmp_path, *settings(kind="rows", epsilon=3.0, delta=DELTA, clip=1.0, accountant="rdp"))
    simulated = run_experiment(config, tmp_path / "sim", progress=QUIET)
    sizes = {str(rows) for rows in np.ravel(simulated.experiment.sizes).tolist()}
    assert {*simulated.config.privacy.by_rows} == sizes and len(sizes) > 2, "each number of rows has a noise of its own"
    played = between(tmp_path / "fed", sites(tmp_path / "fed"))
    close(model(played.folder), model(simulated.folder))
    assert finds_noise(played.config) and [row["epsilon"] for row in metrics(played.folder)] == [0.0, 3.0]
    told = json.loads((played.folder / "sites.json").read_text())["sites"]
    assert {site["rows"] for site in told.values()} == {1}
    page = json.loads((played.folder / "privacy.json").read_text())
    assert {viewer["epsilon"] <= 3.0 for viewer in page["viewers"]} == {True} and page["unit"] == "a row"
    worst = max(simulated.config.privacy.by_rows.values())
    assert page["noise"] >= worst and any("finds the noise for its own number" in line for line in page["assumptions"])
    file = tmp_path / "fed" / "run.toml"
    content = configuration.read_toml(file)
    file.write_text(tomli_w.dumps(content | {"run": content["run"] | {"rounds": 9}}))
    with pytest.raises(FedtierError, match="the budget of privacy has for the rounds that there were"):
        between(tmp_path / "fed", {}, stopped=lambda: True)


def test_what_the_server_draws_comes_from_a_key_of_the_run_s_folder_that_run_seed_does_not_tell(tmp_path):
    one, other = RunFolder(tmp_path / "one"), RunFolder(tmp_path / "other")
    with one.held(), other.held():
        words = [np.asarray(jax.random.key_data(secret_key(files))).tolist() for files in (one, one, other)]
    assert words[0] == words[1] != words[2]


def rows_config(**privacy):
    return configuration.load_config(None, settings(kind="rows", delta=DELTA, **privacy))


def test_a_site_with_fewer_rows_than_a_noise_is_given_for_takes_no_part_nor_does_one_with_a_solver_of_its_own():
    table = SiteTable(name="site-0", data="rows.npz")
    config, sizes = _within_budget(rows_config(by_rows='{"30" = 4.0}'), table, 30)
    assert sizes is not None and sizes.tolist() == [[30]] and config.privacy.by_rows == {"30": 4.0}
    with pytest.raises(FedtierError, match="says nothing for the client with 29 rows"):
        _within_budget(rows_config(by_rows='{"30" = 4.0}'), table, 29)
    with pytest.raises(FedtierError, match="makes steps without noise"):
        _within_budget(rows_config(noise=4.0), table.model_copy(update={"solver": "mine:make"}), 30)


def test_noises_that_are_given_promise_what_the_fewest_rows_spend_and_one_noise_what_a_single_row_does(tmp_path):
    """tau = 3 in four rounds: 3, 5, 6 and 6 steps."""
    setup(tmp_path, *settings(kind="rows", delta=DELTA, accountant="rdp", by_rows='{"20" = 4.0, "100" = 1.0}'))
    file = tmp_path / "fed" / "run.toml"
    page, _ = page_of(file)
    wanted = [epsilon_of(noise, 20, Cohorts("poisson", rows, 4), DELTA, "rdp") for rows, noise in ((20, 4.0), (100, 1.0))]
    assert page is not None and page.epsilon == max(wanted) and "at least 20 rows" in page.groups[0]
    content = configuration.read_toml(file)
    file.write_text(tomli_w.dumps(content | {"privacy": content["privacy"] | {"by_rows": {}, "noise": 4.0}}))
    page, _ = page_of(file)
    assert page is not None and page.epsilon == epsilon_of(4.0, 20, Cohorts("all", 1, 1), DELTA, "rdp")
    assert page.groups[0].startswith("a client with at least 1 row, each drawn with chance 1 or less: noise of 4 C")
