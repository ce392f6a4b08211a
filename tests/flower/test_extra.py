"""The extra stays an extra, and the app folder is checked before it is written."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fedtier import deploy as wire
from fedtier.deploy.flower import folder as apps
from fedtier.deploy.flower.extra import need_flower
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration


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
    assert users == {("engines", "flower")}


def test_the_app_is_one_file_without_code_and_a_folder_in_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apps, "need_flower", lambda: None)
    wire.export(configuration.load_config(None, ["data.name=synthetic", "data.clients=2", "run.rounds=2"]), tmp_path / "fed")
    apps.write_app(tmp_path / "app", tmp_path / "fed" / "run.toml", tmp_path / "out")
    assert [path.name for path in (tmp_path / "app").iterdir()] == ["pyproject.toml"]
    app = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    assert app["config"] == {"run": str(tmp_path / "fed" / "run.toml"), "out": str(tmp_path / "out")}
    with pytest.raises(FedtierError, match="already holds an app"):
        apps.write_app(tmp_path / "app", tmp_path / "fed" / "run.toml", None)


def test_a_run_that_cannot_start_gets_no_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "need_flower", lambda: None)
    wire.export(configuration.load_config(None, ["data.name=synthetic", "data.clients=2", "run.rounds=2"]), tmp_path / "fed")
    (tmp_path / "fed" / "server.npz").unlink()
    with pytest.raises(FedtierError, match="is not there"):
        apps.write_app(tmp_path / "app", tmp_path / "fed" / "run.toml", None)
    assert not (tmp_path / "app").exists()


@pytest.mark.flower
def test_a_node_that_only_says_who_it_is_loads_no_jax() -> None:
    program = "import sys, fedtier.deploy.flower.client; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
