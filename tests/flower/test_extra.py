"""The extra stays an extra, and the app folder is checked before it is written."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fedtier.deploy.export import export_rows
from fedtier.deploy.flower import folder as apps
from fedtier.deploy.flower.extra import need_flower
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.protocol import Letters, ServerSeal, SiteSeal, read_identity

TWO = ["data.name=synthetic", "data.partition=natural", "data.clients=2", "run.rounds=2"]


def test_without_the_extra_the_line_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FedtierError) as refusal:
        need_flower()
    assert 'pip install "fedtier[flower]"' in str(refusal.value)


def test_only_the_adapter_imports_flower() -> None:
    source = Path(sys.modules["fedtier.errors"].__file__ or "").parent
    users = {
        path.relative_to(source).parts[:2]
        for path in source.rglob("*.py")
        if "import flwr" in (t := path.read_text()) or "from flwr" in t
    }
    assert users == {("deploy", "flower")}


def test_the_app_is_one_file_without_code_and_a_folder_in_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apps, "need_flower", lambda: None)
    export_rows(
        configuration.load_config(None, TWO),
        tmp_path / "fed",
    )
    apps.write_app(tmp_path / "app", tmp_path / "fed" / "run.toml", tmp_path / "out", tmp_path / "keys")
    assert [path.name for path in (tmp_path / "app").iterdir()] == ["pyproject.toml"]
    app = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    keys = tmp_path / "keys"
    where = {"run": tmp_path / "fed" / "run.toml", "out": tmp_path / "out", "keys": keys / "server.json"}
    assert app["config"] == {key: str(path) for key, path in where.items()}
    with pytest.raises(FedtierError, match="already holds an app"):
        apps.write_app(tmp_path / "app", tmp_path / "fed" / "run.toml", None, tmp_path / "keys")


def test_a_run_that_cannot_start_gets_no_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "need_flower", lambda: None)
    export_rows(
        configuration.load_config(None, TWO),
        tmp_path / "fed",
    )
    (tmp_path / "fed" / "server.npz").unlink()
    with pytest.raises(FedtierError, match="is not there"):
        apps.write_app(tmp_path / "app", tmp_path / "fed" / "run.toml", None, tmp_path / "keys")
    assert not (tmp_path / "app").exists()


def test_each_party_gets_a_key_of_one_authority_for_its_owner_alone_and_keys_that_are_there_stay(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    apps.write_keys(keys, ["north", "south"])
    before = {path.name: path.read_bytes() for path in keys.iterdir()}
    assert before.keys() == {"authority.json", "server.json", "north.json", "south.json"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (keys, *keys.iterdir()))
    apps.write_keys(keys, ["north", "south", "west"])
    assert {name: (keys / name).read_bytes() for name in before} == before
    seal, site = ServerSeal(read_identity(keys / "server.json")), SiteSeal(read_identity(keys / "west.json"))
    sent, hashes = seal.seal(Letters(b"x", {"west": b"own"}))
    content, asked = site.open(sent.whole("west"))
    assert content == b"ownx" and seal.open(site.seal(b"reply", asked), "west", hashes["west"]) == b"reply"


def test_keys_do_not_lie_where_flower_would_send_them_nor_do_sites_take_the_names_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apps, "need_flower", lambda: None)
    with pytest.raises(FedtierError, match="which Flower sends to the sites"):
        apps.write_app(tmp_path / "app", tmp_path / "run.toml", None, tmp_path / "app" / "keys")
    for name in ("server", "authority", "../north"):
        with pytest.raises(FedtierError, match="cannot be the name of a file of keys"):
            apps.write_keys(tmp_path / "keys", ["north", name])
    assert not (tmp_path / "app").exists() and not (tmp_path / "keys").exists()


@pytest.mark.flower
def test_a_node_that_only_says_who_it_is_loads_no_jax() -> None:
    program = "import sys, fedtier.deploy.flower.client; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
