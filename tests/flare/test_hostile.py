"""An admitted site with its own executor writes to the others as if it were the server: it gets nothing and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtier.deploy.server import serve_rounds
from fedtier.deploy.site import open_site
from fedtier.experiments.progress import Progress
from fedtier.protocol import loopback, verify_record

from .federation import Federation, federation, model

pytestmark = pytest.mark.flare

HERE = Path(__file__).parent
TABLES: dict[str, Any] = {
    "data": {"name": "digits", "clients": 3, "alpha": 0.5},
    "run": {"rounds": 6, "participation": 1.0, "tau": 2.0, "eval_every": 3},
    "method": {"name": "scaffold"},  # whose clients have a state that a forged round would move
}
GUARDED, OPEN, HOSTILE = "site-0", "site-1", "site-2"
KINDS = {"HELLO", "ROUND", "LOST", "SCORE"}


def join(made: Federation) -> Path:
    """Three sites: one as it is, one without its look at FLARE's sender, one hostile; the file in which that one writes."""
    hooks, log = {"PYTHONPATH": str(HERE / "hooks")}, made.root / "hostile.jsonl"
    executor = {"HOSTILE_EXECUTOR": str(HERE / "hostile_executor.py"), "HOSTILE_VICTIMS": f"{GUARDED} {OPEN}"}
    keys = {"HOSTILE_KEYS": str(made.root / "kits" / HOSTILE / "signing.json"), "HOSTILE_LOG": str(log)}
    made.join(GUARDED)
    made.join(OPEN, hooks | {"OPEN_EXECUTOR": "1"})
    made.join(HOSTILE, hooks | executor | keys)
    return log


def undisturbed(made: Federation, run: Path) -> np.ndarray:
    """The same run where the third site merely declines, without a network."""
    file = made.root / "data" / f"{HOSTILE}.toml"
    file.write_text(file.read_text() + "participation = 0.0\n")
    sites = {name: open_site(made.root / "data" / f"{name}.toml", made.root / "calm" / name) for name in made.sites}
    ask = loopback({name: site.answer for name, site in sites.items()})
    return model(serve_rounds(run, made.root / "runs/calm", ask, progress=Progress()).folder)


def test_a_site_that_forges_letters_to_others_gets_nothing_and_changes_nothing(tmp_path: Path) -> None:
    with federation(tmp_path, TABLES) as made:
        run = made.configure("run", {"method": TABLES["method"]})
        log = join(made)
        folder = made.play(run, "runs/attacked")

    tried = [json.loads(line) for line in log.read_text().splitlines()]
    for victim in (GUARDED, OPEN):
        ours = [line for line in tried if line["victim"] == victim]
        assert {line["kind"] for line in ours} == KINDS and len(ours) == 75
        assert {line["way"] for line in ours} == {"bare", "own key", "seal of my letter", "my letter passed on"}
    # At the one no request reached the solver, at the other the solver saw each and said the words that it says to anybody.
    assert not any("got" in line for line in tried if line["victim"] == GUARDED)
    answered = [line for line in tried if line["victim"] == OPEN and "got" in line]
    assert {line["kind"] for line in answered} == KINDS and all(line["constant"] for line in answered)
    record = made.root / "state" / OPEN / "memory"
    assert verify_record(record).refused > 0 == verify_record(made.root / "state" / GUARDED / "memory").refused
    assert len(list(record.glob("*/brief.json"))) == 1  # no run but the server's

    told = json.loads((folder / "sites.json").read_text())["sites"]
    assert [told[site]["counted"] for site in made.sites] == [6, 6, 0] and not any(one["refused"] for one in told.values())
    np.testing.assert_array_equal(model(folder), undisturbed(made, run))
    for place in (made.root / "state" / GUARDED, folder):
        assert all(path.stat().st_mode & 0o077 == 0 for path in (place, *place.rglob("*")) if not path.is_symlink())
