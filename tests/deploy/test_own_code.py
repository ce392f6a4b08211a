"""Own code between sites: each party loads its own file, and only what its own file lists."""

import json

import pytest

from fedtier.deploy.export import export_rows
from fedtier.deploy.server import serve_rounds
from fedtier.deploy.site import Brief, _with_own_code, brief_of, open_site
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment
from fedtier.protocol import loopback

from ..small_runs import metrics

MINE = """
from fedtier.methods import fedavg, projected_sgd
from fedtier.problem import softmax


def method(problem, *, rate=0.05):
    return fedavg(problem, local=projected_sgd(rate, batch=8))


def make(features, classes):
    return softmax(features, classes, bias=False)
"""
SETTINGS = ["data.name=synthetic", "data.clients=2", "data.partition=natural", "data.client_test_share=0.3", "run.rounds=2"]
SETTINGS += ["run.eval_every=2", "run.participation=1", "run.tau=2", "method.rate=0.1", "method.server_seat=false"]


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    own = ["method.name=mine.py:method", "model.name=mine.py:make"]
    return configuration.load_config(settings=[*SETTINGS, *own])


@pytest.mark.slow
@pytest.mark.checked
def test_a_run_of_own_code_between_sites_is_the_simulation(config, tmp_path):
    export_rows(config, tmp_path / "fed")
    sites = {f"site-{k}": open_site(tmp_path / "fed" / f"site-{k}.toml", tmp_path / "state" / str(k)) for k in range(2)}
    ask = loopback({name: site.answer for name, site in sites.items()})
    wire = serve_rounds(tmp_path / "fed" / "run.toml", tmp_path / "wire", ask, progress=Progress())
    run_experiment(config, tmp_path / "simulated", progress=Progress())
    for ours, theirs in zip(metrics(wire.folder), metrics(tmp_path / "simulated"), strict=True):
        assert ours["global_loss"] == pytest.approx(theirs["global_loss"], rel=1e-6)
        assert ours["personal_accuracy"]["mean"] == pytest.approx(theirs["personal_accuracy"]["mean"], rel=1e-6)


@pytest.mark.parametrize(
    ("table", "key", "word"),
    [
        ("method", "name", "mine.py:method"), ("model", "name", "mine.py:make"), ("method", "problem", "/etc/evil.py:run"),
        ("data", "name", "mine.py:load"), ("method", "name", "python:method"), ("run", "tau", "mine.py:method"),
    ],
)  # fmt: skip
def test_code_that_the_site_s_own_file_does_not_list_is_never_loaded(tmp_path, table, key, word):
    (tmp_path / "mine.py").write_text("raise SystemExit('loaded')")
    (tmp_path / "site.toml").write_text('name = "a"\ndata = "rows.csv"\ncode = ["other.py:method"]\n')
    (tmp_path / "rows.csv").write_text("a,label\n1,0\n2,1\n")
    from fedtier.deploy.site_table import SiteTable
    from fedtier.experiments.toml import checked

    site = checked("site", SiteTable, configuration.read_toml(tmp_path / "site.toml"))
    with pytest.raises(FedtierError, match="does not list"):
        _with_own_code({table: {key: word}}, site, tmp_path)


def test_a_brief_says_the_name_of_the_code_and_not_where_it_lies(config, tmp_path, monkeypatch):
    (tmp_path / "run.toml").write_text('[method]\nname = "mine.py:method"\n')
    monkeypatch.chdir("/")
    found = configuration.load_config(tmp_path / "run.toml")
    from fedtier.datasets import load

    text = brief_of(found, load("digits").preparation).text()
    assert json.loads(text)["tables"]["method"]["name"] == "mine.py:method" and str(tmp_path) not in text
    assert Brief.parse(text).tables["method"]["name"] == "mine.py:method"


def test_a_brief_says_among_what_a_site_chooses_by_its_own_rows():
    from fedtier.datasets import load

    tables = {"run": {"personal_check": 0.2, "personal_scales": [0.3, 1.0]}}
    chosen, none = (brief_of(configuration.validate(given), load("digits").preparation) for given in (tables, {}))
    assert Brief.parse(chosen.text()).tables["run"] == tables["run"]
    assert "run" not in none.tables
