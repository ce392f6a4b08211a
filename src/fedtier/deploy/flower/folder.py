"""`fedtier flower`: the app folder that `flwr run` takes. One file, no code: what runs is the installed package."""

from __future__ import annotations

from pathlib import Path

import tomli_w

from ... import __version__
from ...errors import require
from ...experiments.comparison import cell_name
from ...storage.files import told, write_whole
from ..rows import open_server
from ..settings import load_run_file
from .extra import need_flower

HERE = "fedtier.deploy.flower"


def write_app(folder: Path, run_file: Path, out: Path | None) -> Path:
    """pyproject.toml in `folder`, which names the run and its results; whatever is wrong with the run is said here."""
    need_flower()
    require(not (folder / "pyproject.toml").exists(), "DIR", str(folder), "already holds an app", "choose another folder")
    run = load_run_file(run_file)
    open_server(run)
    results = (out or Path("runs/wire") / cell_name(run.config)).resolve()
    content = {
        "project": {
            "name": "fedtier-run", "version": __version__, "license": "Apache-2.0",
            "description": f"{run.config.method.name} between {len(run.wire.sites)} sites",
        },
        "tool": {
            "flwr": {
                "app": {
                    "publisher": "fedtier",
                    "components": {"serverapp": f"{HERE}.server:app", "clientapp": f"{HERE}.client:app"},
                    "config": {"run": str(run_file.resolve()), "out": str(results)},
                }
            }
        },
    }  # fmt: skip
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pyproject.toml"
    write_whole(path, tomli_w.dumps(content).encode())
    return path
