"""Sites with models of their own between which letters go: the numbers of the simulation, whatever is started again."""

import json

import numpy as np
import pytest

from fedtier.deploy.server import serve_rounds
from fedtier.deploy.site import open_site
from fedtier.experiments.bundle import Bundle
from fedtier.experiments.run import run_experiment
from fedtier.experiments.stopping import Stopped
from fedtier.protocol import loopback

from ..small_runs import metrics
from .test_wire import CLIENTS, QUIET, between, close, model, same_rows, setup, sites

MODELS = (
    'clients.models=["sklearn:LogisticRegression", "sklearn:RandomForestClassifier(n_estimators=5)", "jax:softmax(epochs=1)", '
    '"sklearn:GaussianNB"]'
)
OWN = ["method.name=codistil", "method.public_rows=20", "method.server_steps=2", "run.rounds=3", "run.eval_every=3", MODELS]


def reopening(folder, state):
    """Every letter finds sites that have just been started: nothing is remembered but what is on disk."""

    def answer(k):
        def once(letter):
            site = open_site(folder / f"site-{k}.toml", folder / state / str(k))
            try:
                return site.answer(letter)
            finally:
                site.close()

        return once

    return loopback({f"site-{k}": answer(k) for k in range(CLIENTS)})


def same_run(found, wanted):
    close(model(found), model(wanted))
    for row, other in zip(metrics(found), metrics(wanted), strict=True):
        same_rows(row, other)


@pytest.mark.slow
def test_between_sites_the_numbers_are_those_of_the_simulation_and_each_site_predicts(tmp_path):
    settings = [*OWN, "run.rounds=2", "run.eval_every=2", "run.personal_check=0.5"]
    simulated = run_experiment(setup(tmp_path, *settings), tmp_path / "sim", progress=QUIET)
    result = between(tmp_path / "fed", sites(tmp_path / "fed"))
    same_run(result.folder, simulated.folder)
    rows = np.load(tmp_path / "fed" / "test.npz")["inputs"][:5]
    for k in ("1", "2"):  # of whom the second lets the global model count
        by_site = Bundle.load(tmp_path / "fed" / "state" / k).predict(rows, client=f"site-{k}")
        in_simulation = Bundle.load(simulated.folder).predict(rows, client=k)
        np.testing.assert_allclose(by_site.probabilities, in_simulation.probabilities, rtol=1e-4, atol=1e-6)
    chosen = json.loads((simulated.folder / "own.json").read_text())["mixed"]["0"]
    files = [next((tmp_path / "fed" / "state" / str(k)).rglob("own.json")) for k in range(CLIENTS)]
    told = [json.loads(file.read_text())["mixed"]["0"][f"site-{k}"] for k, file in enumerate(files)]
    assert told == list(chosen.values()) and not told[1] and told[2]


@pytest.mark.slow
def test_sites_that_die_after_every_letter_give_the_numbers_of_the_simulation(tmp_path):
    simulated = run_experiment(setup(tmp_path, *OWN), tmp_path / "sim", progress=QUIET)
    ask = reopening(tmp_path / "fed", "state")
    same_run(serve_rounds(tmp_path / "fed" / "run.toml", tmp_path / "wire", ask, progress=QUIET).folder, simulated.folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "words"),
    [('uplinks = ["values"]', "lets only values leave"), ('model = "sklearn:Nothing"', "is no classifier of sklearn")],
)
def test_a_site_refuses_what_its_own_file_does_not_allow(tmp_path, line, words):
    setup(tmp_path, *OWN)
    file = tmp_path / "fed" / "site-0.toml"
    kept = [text for text in file.read_text().splitlines() if not text.startswith(line.split()[0])]
    file.write_text("\n".join([*kept, line, ""]))
    with pytest.raises(Stopped):
        between(tmp_path / "fed", sites(tmp_path / "fed"), stopped=lambda: True)
    assert words in (tmp_path / "wire" / "run.log").read_text()


@pytest.mark.slow
def test_a_site_may_coarsen_what_leaves_and_refuse_rows_and_the_run_goes_on(tmp_path):
    setup(tmp_path, *OWN, "run.rounds=1", "run.eval_every=1", "run.dropouts=0", "run.stragglers=0", "run.participation=1.0")
    (tmp_path / "fed" / "shy.py").write_text(
        "import numpy as np\n\nclass Shy:\n    def fit(self, rows, guidance):\n        self.classes = guidance.classes\n\n"
        "    def predict_proba(self, inputs):\n        shares = np.full((len(inputs), self.classes), 1 / self.classes)\n"
        "        shares[::2] = np.nan\n        return shares\n"
    )
    for k, lines in enumerate(["decimals = 1\ntop = 2\nnoise = 0.1\n", 'model = "shy.py:Shy"\n']):
        file = tmp_path / "fed" / f"site-{k}.toml"
        kept = "\n".join(text for text in file.read_text().splitlines() if k == 0 or not text.startswith("model"))
        file.write_text(kept + "\n" + lines)
    result = between(tmp_path / "fed", sites(tmp_path / "fed"))
    assert np.isfinite(model(result.folder)).all() and metrics(result.folder)[-1]["round"] == 1
