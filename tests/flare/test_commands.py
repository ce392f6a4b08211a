"""Bad input to the wire's commands: refused by name, before anything starts."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fedtier.deploy.export import export_rows
from fedtier.deploy.flare import commands as flare
from fedtier.deploy.flare.authority import check_sites, provision
from fedtier.deploy.flare.joining import check_and_join
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments import run_folder
from fedtier.experiments.run_folder import RunFolder
from fedtier.experiments.session import nobody

from .federation import free_port

pytestmark = pytest.mark.flare

PORT = free_port()
TABLES: dict[str, Any] = {"data": {"name": "digits", "clients": 2}, "run": {"rounds": 2}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("place")
    provision(check_sites({"name": "trial", "server": "localhost", "port": PORT, "sites": ["site-0", "site-1"]}), root / "kits")
    export_rows(configuration.validate(TABLES), root / "data")
    yield root


def test_a_run_for_sites_without_kits_is_refused(place: Path, tmp_path: Path) -> None:
    tables = configuration.read_toml(place / "data/run.toml")
    tables["wire"]["sites"] = ["site-0", "site-7"]
    (place / "data/other.toml").write_text(tomli_w.dumps(tables))
    with pytest.raises(FedtierError, match="has no kit") as refusal:
        flare.serve_run(place / "kits/server", place / "data/other.toml", tmp_path / "run")
    assert refusal.value.value == "site-7"
    assert not (tmp_path / "run").exists()


def test_a_port_that_is_in_use_is_refused(place: Path, tmp_path: Path) -> None:
    with socket.create_server(("", PORT)), pytest.raises(FedtierError, match="cannot be served") as refusal:
        flare.serve_run(place / "kits/server", place / "data/run.toml", tmp_path / "run")
    assert refusal.value.value == PORT


def test_serving_with_a_site_s_kit_is_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(FedtierError, match="must be of kind server"):
        flare.serve_run(place / "kits/site-0", place / "data/run.toml", tmp_path / "run")


@pytest.mark.parametrize(
    ("site", "data", "words"),
    [
        ({}, None, "must name this site's rows"),
        ({}, "nowhere.csv", "is not there"),
        ({"name": "site-1", "data": "site-1.npz"}, None, "the kit is of site-0"),
        ({"data": "site-0.npz", "max_step": 3}, None, "did you mean 'max_steps'"),
        ({"data": "site-0.npz", "participation": 2.0}, None, "site.participation"),
    ],
)
def test_a_site_that_is_badly_described_does_not_join(
    place: Path, tmp_path: Path, site: dict[str, Any], data: str | None, words: str
) -> None:
    file = place / "data/trial.toml"
    file.write_text(tomli_w.dumps(site))
    with pytest.raises(FedtierError, match=words):
        check_and_join(place / "kits/site-0", Path(data) if data else None, tmp_path / "state", file)
    assert not (tmp_path / "state").exists()


def test_a_log_that_grows_long_is_set_aside_and_whoever_follows_it_misses_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, told = RunFolder(tmp_path), list[str]()
    monkeypatch.setattr(run_folder, "MOST_LOG", 500)
    monkeypatch.setattr(flare, "tell", told.append)
    watch = flare._Watch(tmp_path, 1, nobody(configuration.validate(TABLES), tmp_path))
    for k in range(100):
        folder.log(f"line {k}")
        if k % 3 == 0:
            watch()
    watch()
    assert told == [f"line {k}" for k in range(100)]
    assert all((tmp_path / name).stat().st_size < 560 for name in ("run.log", "run.log.1"))


def test_a_server_that_is_not_there_is_told_in_words(place: Path) -> None:
    with pytest.raises(FedtierError, match="does not answer") as refusal:
        flare.federation_status(place / "kits/admin")
    assert "fedtier serve" in refusal.value.hint
