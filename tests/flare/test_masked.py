"""Masked sums over NVIDIA FLARE: the model of plain replies, whoever is killed at which stage, and what it costs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtier.deploy.server import serve_rounds
from fedtier.deploy.site import open_site
from fedtier.experiments.progress import Progress
from fedtier.protocol import letters, loopback
from fedtier.protocol.letters import Kind
from fedtier.protocol.secure.settings import Masking

from .federation import Federation, federation, model, rounds_done, until

TABLES: dict[str, Any] = {
    "data": {"name": "digits", "clients": 3, "alpha": 0.5},
    "run": {"rounds": 6, "participation": 1.0, "tau": [1.0, 2.0, 3.0], "eval_every": 6},
    "method": {"name": "fedavg"},
}
KINDS = "CARD SHARES ROUND UNMASK"
STEP = 2.0**-25  # range 16, three sites
HOOKS = os.pathsep.join([str(Path(__file__).with_name("hooks")), *filter(None, [os.environ.get("PYTHONPATH")])])


def last_row(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])


@pytest.mark.flare
def test_masked_rounds_give_the_model_of_plain_ones_though_a_solver_dies_at_every_stage(tmp_path: Path) -> None:
    """One site's solver is killed before it answers the first letter of each kind; it is started again and says the same."""
    hooks = {"DYING_SOLVER": KINDS, "PYTHONPATH": HOOKS}
    with federation(tmp_path, TABLES) as made:
        for site in made.sites:
            made.join(site, hooks if site == "site-1" else {})
        plain, masked = (
            made.play(made.configure(name, {"method": TABLES["method"]}, quorum=1.0, masked=name == "masked"), f"runs/{name}")
            for name in ("plain", "masked")
        )
        assert np.abs(model(masked) - model(plain)).max() <= 6 * STEP
        told = json.loads((masked / "sites.json").read_text())["sites"]
        assert all(site["counted"] == 6 for site in told.values())
        record = [json.loads(line) for line in (masked / "record.jsonl").read_text().splitlines()]
        assert {line["kind"] for line in record if line["way"] == "out"} >= set(KINDS.split())
        assert last_row(masked)["bytes_up"] > last_row(plain)["bytes_up"]


@pytest.mark.flare
@pytest.mark.slow
def test_a_masked_run_goes_on_without_a_site_that_is_killed_and_takes_it_back(tmp_path: Path) -> None:
    """Threshold 2 of 3. The whole site dies, then the server; no round is ever a wrong sum: the model ends where it should."""
    with federation(tmp_path, TABLES) as made:
        for site in made.sites:
            made.join(site)
        changes = {"method": TABLES["method"], "run": {"rounds": 60, "eval_every": 60}}
        run = made.configure("masked", changes, masked=True, deadline=5.0, quorum=0.5)
        folder = made.root / "runs/masked"
        made.serve(run, "runs/masked")
        for number, place in ((5, "state/site-1"), (20, "runs/masked"), (35, "state/site-2")):
            until(lambda number=number: rounds_done(folder) >= number, f"round {number}")
            for process in made.marked(place):
                process.send_signal(signal.SIGKILL)
        assert made.processes["server"].wait(600) == 0, made.said("server")
        calm = made.play(made.configure("calm", changes, quorum=1.0), "runs/calm")
        found, wanted = last_row(folder)["global_accuracy"], last_row(calm)["global_accuracy"]
        assert found == pytest.approx(wanted, abs=0.05)
        assert np.linalg.norm(model(folder) - model(calm)) < 0.5 * np.linalg.norm(model(calm))


def living(folder: Path, rounds: int) -> list[set[str]]:
    """Of each round the sites that its sum is of: they alone are asked to reveal."""
    lines = [json.loads(line) for line in (folder / "record.jsonl").read_text().splitlines()]
    asked = [(line["round"], line["who"]) for line in lines if line["way"] == "out" and line.get("kind") == "UNMASK"]
    return [{who for number, who in asked if number == k} for k in range(rounds)]


def plainly(made: Federation, run: Path, alive: list[set[str]]) -> np.ndarray:
    """The model of the same rounds without masks and without a network, in which just these sites take part."""
    sites = {name: open_site(made.root / "data" / f"{name}.toml", made.root / "plain-state" / name) for name in made.sites}

    def answer(name: str, letter: bytes) -> bytes:
        head = letters.unpack(letter, len(letter))[0]
        out = head.kind == Kind.ROUND and name not in alive[head.round]
        return letters.pack(head._replace(kind=Kind.DECLINED)) if out else sites[name].answer(letter)

    ask = loopback({name: lambda letter, name=name: answer(name, letter) for name in sites})
    return model(serve_rounds(run, made.root / "runs/plain", ask, progress=Progress()).folder)


@pytest.mark.flare
@pytest.mark.slow
def test_eight_sites_of_which_one_is_killed_at_each_stage_give_the_sum_of_those_that_came_through(tmp_path: Path) -> None:
    """Every process of a site dies before its card, its shares, its masked reply, its reveal; the other seven go on."""
    tables = TABLES | {"data": TABLES["data"] | {"clients": 8, "alpha": 1.0}, "run": TABLES["run"] | {"rounds": 10, "tau": 1.0}}
    stages = {"site-1": "CARD 0", "site-2": "SHARES 2", "site-3": "ROUND 4", "site-4": "UNMASK 6"}
    with federation(tmp_path, tables) as made:
        for site in made.sites:
            death = {"DYING_SITE": f"{stages[site]} {tmp_path / site}.dead", "PYTHONPATH": HOOKS} if site in stages else {}
            made.join(site, death)
        changes = {"method": TABLES["method"], "run": {"rounds": 10, "eval_every": 10}}
        run = made.configure("masked", changes, masked=True, deadline=15.0, threshold=5)
        folder = made.play(run, "runs/masked")
        assert all((tmp_path / f"{site}.dead").exists() for site in stages)
        assert "lost: " not in (folder / "run.log").read_text()
        alive = living(folder, 10)
        assert "site-1" not in alive[0] and "site-2" not in alive[2] and "site-4" in alive[6]
        assert all(len(each) >= 5 for each in alive)
        wanted = plainly(made, made.configure("plain", changes), alive)
        step = Masking(tuple(made.sites), 8, 5, 16.0).check().grid.step
        assert np.abs(model(folder) - wanted).max() <= 10 * step
