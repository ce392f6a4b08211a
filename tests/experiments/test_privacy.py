"""[privacy] in a configuration: what is refused, what is written, and that a budget cannot be overspent."""

import json

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments.assemble import assemble
from fedtier.experiments.budgets import budgeted, epsilon_after
from fedtier.experiments.config import preset_words, validate
from fedtier.experiments.privacy_audit import audited
from fedtier.experiments.privacy_page import page_words, stated
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import resume_experiment, run_experiment
from fedtier.experiments.run_folder import RunFolder
from fedtier.privacy import Cohorts, epsilon_of

DATA = {"name": "synthetic", "clients": 6, "rows": 20, "features": 3, "classes": 2, "server_share": 0.0, "partition": "iid"}
METHOD = {"name": "fedavg", "client_lr": 0.1, "batch": 4}
RUN = {"rounds": 6, "participation": 0.5, "order": "poisson", "local_steps": 2, "eval_every": 3}
DELTA = 0.004
PRIVACY = {"kind": "clients", "epsilon": 5.0, "delta": DELTA, "accountant": "rdp"}


def tables(**changes):
    base = {"data": DATA, "method": METHOD, "run": RUN, "privacy": PRIVACY}
    return {table: base.get(table, {}) | changes.get(table, {}) for table in {*base, *changes}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"privacy": {"epsilon": 0.0}}, "privacy.epsilon"),
        ({"privacy": {"epsilon": None}}, "must be given, or privacy.noise"),
        ({"privacy": {"delta": 0.2}}, r"below 1/clients"),
        ({"method": {"name": "rfa"}}, "sums of its replies alone"),
        ({"method": {"name": "zo_hfl", "client_lr": 0.1}}, "sums of its replies alone"),
        ({"run": {"order": "drawn"}, "privacy": {"accountant": "pld"}}, "no bound for cohorts of a fixed size"),
        ({"privacy": {"kind": "none"}}, "is not read with privacy.kind = 'none'"),
        ({"privacy": {"by_rows": {"3": 1.0}}}, "is not read with privacy.kind = 'clients'"),
        ({"privacy": {"kind": "rows", "by_rows": {"few": 1.0}}}, "by numbers of rows"),
        ({"privacy": {"kind": "rows", "by_rows": {"3": 1.0}, "noise": 1.0}}, "leave out one of the two"),
        ({"privacy": {"kind": "rows", "place": "local"}}, "is not read with privacy.kind = 'rows'"),
        ({"privacy": {"kind": "rows"}, "method": {"name": "scaffold"}}, "more than what noisy steps end at"),
        ({"privacy": {"kind": "rows"}, "method": {"name": "zo_hfl", "preset": "paper"}}, "their difference has none"),
        ({"privacy": {"kind": "rows"}, "run": {"epochs": 2.0, "local_steps": None}}, "a budget counts steps"),
        ({"privacy": {"quorum": 0.5}}, "is for distributed noise"),
        ({"privacy": {"place": "distributed"}, "run": {"dropouts": 0.2}}, "too little noise"),
        ({"data": {"server_share": 0.3}, "method": {"server_seat": True}}, "the server is no client"),
        ({"attack": {"kind": "signs"}}, "changes what was made private"),
        ({"method": {"name": "fedbuff"}, "run": {"order": "drawn"}}, "has no rounds"),
    ],
)
def test_what_cannot_be_promised_is_refused_before_any_work(changes, words):
    given = {table: {k: v for k, v in content.items() if v is not None} for table, content in tables(**changes).items()}
    with pytest.raises(FedtierError, match=words):
        validate(given)


def test_the_recommended_preset_gives_way_to_shared_directions_and_says_so():
    config = validate({"method": {"name": "zo_hfl", "shared_directions": True}})
    assert config.method.options["remembered"] == 0 and not config.method.options["fading"] and config.method.options["bounded"]
    (line,) = preset_words(config)
    assert "remembered = 0 in place of 10, fading = false in place of true, spread = 0.0 in place of 0.3" in line
    assert preset_words(validate({})) == [] and validate({}).method.options["remembered"] == 10
    with pytest.raises(FedtierError, match="no reply is known alone"):
        validate({"method": {"name": "zo_hfl", "shared_directions": True, "remembered": 10}})


def test_what_is_not_remembered_is_not_spread_and_the_run_says_so():
    config = validate({"method": {"remembered": 0}})
    assert config.method.options["spread"] == 0
    assert preset_words(config) == ["method.remembered = 0: the recommended preset gives way, spread = 0.0 in place of 0.3"]
    with pytest.raises(FedtierError, match="remembered is 0"):
        validate({"method": {"remembered": 0, "spread": 0.3}})


def test_a_budget_sets_the_noise_and_clients_count_alike():
    experiment = assemble(validate(tables()))
    noise = experiment.config.privacy.noise
    assert epsilon_of(noise, 6, Cohorts("poisson", 6, 3), DELTA, "rdp") == pytest.approx(5.0, rel=0.02)
    assert np.all(np.asarray(experiment.federation.spec.weight) == 1)
    again = assemble(experiment.config)
    assert again.config == experiment.config, "what a run writes down reads back as itself"


@pytest.mark.slow
def test_noise_and_a_budget_end_the_run_when_it_is_spent():
    config = validate(tables(privacy={"noise": 1.0, "epsilon": 3.0}, run={"rounds": 50}))
    rounds = assemble(config).config.run.rounds
    spent = [epsilon_of(1.0, r, Cohorts("poisson", 6, 3), DELTA, "rdp") for r in (rounds, rounds + 1)]
    assert 1 <= rounds < 50 and spent[0] <= 3.0 < spent[1]
    with pytest.raises(FedtierError, match="is spent in the first round"):
        assemble(validate(tables(privacy={"noise": 1.0, "epsilon": 0.1})))


@pytest.mark.slow
def test_a_run_says_what_it_has_spent_and_cannot_be_extended_beyond_its_budget(tmp_path, monkeypatch):
    said = []

    class Quiet(Progress):
        def say(self, *lines):
            said.extend(lines)

    monkeypatch.setattr("fedtier.experiments.session.preset_words", lambda config: ["the preset gives way"])
    result = run_experiment(validate(tables()), tmp_path / "run", progress=Quiet())
    assert "the preset gives way" in said and "the preset gives way" in (tmp_path / "run" / "run.log").read_text()
    assert any("epsilon for a client at delta = 0.004 after 6 rounds" in line for line in said)
    spent = [row["epsilon"] for row in RunFolder(tmp_path / "run").rows()]
    assert spent[0] == 0 and spent == sorted(spent) and 4.8 < result.final[0]["epsilon"] <= 5.0
    page = json.loads((tmp_path / "run" / "privacy.json").read_bytes())
    assert (tmp_path / "run").stat().st_mode & 0o077 == 0, "the seed is a secret"
    assert page["viewers"][2]["epsilon"] is None and page["viewers"][0]["epsilon"] == pytest.approx(result.final[0]["epsilon"])
    with pytest.raises(FedtierError, match="pays for 6 rounds"):
        resume_experiment(tmp_path / "run", progress=Quiet(), rounds=7)


OF_ROWS = tables(privacy={"kind": "rows"}, run={"order": "drawn"})
SIZES = np.asarray([[3, 40, 41], [3, 40, 200]])


def test_each_client_s_rows_have_the_whole_budget_and_clients_with_more_of_them_less_noise():
    """12 gradients with minibatches of 4; 41 rows are near enough to 40 to share their noise, and 3 are drawn in every step."""
    config = validate(OF_ROWS | {"privacy": OF_ROWS["privacy"] | {"epsilon": 0.3}})
    found = budgeted(config, 3, SIZES)
    noises = {int(rows): noise for rows, noise in found.privacy.by_rows.items()}
    assert [*noises] == [3, 40, 200] and found.privacy.noise is None
    assert noises[200] < noises[40] / 2 < noises[3] / 6
    spent = [epsilon_of(noise, 12, Cohorts("poisson", rows, min(4, rows)), DELTA, "rdp") for rows, noise in noises.items()]
    assert max(spent) <= 0.3 and min(spent) > 0.298, "nobody overpays"
    assert budgeted(found, 3, SIZES) == found, "what a run writes down reads back as itself"
    assert found.digest() == config.digest()


def test_the_clients_worst_off_decide_what_written_noises_promise():
    given = tables(privacy={"kind": "rows", "by_rows": {"3": 4.0, "40": 2.0}}, run={"order": "drawn"})
    config = validate(given)
    wanted = [(4.0, Cohorts("poisson", 3, 3)), (2.0, Cohorts("poisson", 40, 4))]
    spent = max(epsilon_of(noise, 12, cohorts, DELTA, "rdp") for noise, cohorts in wanted)
    assert epsilon_after(config, 3, SIZES, 6) == spent
    tight = config.model_copy(update={"privacy": config.privacy.model_copy(update={"epsilon": spent * 0.8})})
    assert 0 < budgeted(tight, 3, SIZES).run.rounds < 6
    with pytest.raises(FedtierError, match="says nothing for the client with 3 rows"):
        budgeted(validate(tables(privacy={"kind": "rows", "by_rows": {"4": 4.0}}, run={"order": "drawn"})), 3, SIZES)


@pytest.mark.slow
def test_a_delta_that_would_let_one_row_of_any_client_be_published_is_refused():
    with pytest.raises(FedtierError, match=r"privacy.delta = 0.01: must be below 1/200 for a client with 200 rows"):
        budgeted(validate(tables(privacy={"kind": "rows", "delta": 0.01}, run={"order": "drawn"})), 3, SIZES)


def test_a_page_about_rows_says_what_each_client_spends():
    experiment = assemble(validate(OF_ROWS | {"privacy": OF_ROWS["privacy"] | {"public_sizes": True}}))
    found = stated(experiment)
    assert found.unit == "a row" and len({viewer.epsilon for viewer in found.viewers}) == 1 and 4.9 < found.epsilon <= 5.0
    fewest = int(experiment.sizes.min())
    assert f"a client with {fewest} rows, each drawn with chance {4 / fewest:.3g}" in page_words(found)
    assert any("may be known: replies are weighted by it" in line for line in found.assumptions)
    tried = audited(experiment, 200, 0)
    assert tried.holds and tried.what.startswith("a row of a client with")


@pytest.mark.parametrize("place", ["local", "distributed"])
def test_without_trust_there_is_no_secret_cohort(place):
    """The server knows who is asked, so the bound is that of a client in every round, or in as many as it was asked in."""
    found = stated(assemble(validate(tables(privacy={"place": place}))))
    assert found.viewers[2].epsilon <= 5.0 and found.viewers[2].epsilon == found.epsilon
    noise = found.noise
    assert epsilon_of(noise, 6, Cohorts("all", 6, 6), DELTA, "rdp") == pytest.approx(5.0, rel=0.02)
    assert "not covered" in page_words(found)
