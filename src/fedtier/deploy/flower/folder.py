"""`fedtier flower`: the app folder that `flwr run` takes, and the keys that sign the letters.

The app is one file, no code: what runs is the installed package. The keys lie in a folder of their own, because Flower sends
the app's folder to the sites: authority.json, server.json, and for each site a file that is handed to it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import tomli_w

from ... import __version__
from ...errors import require
from ...experiments.comparison import cell_name
from ...protocol.signatures import SERVER, issue, new_key
from ...storage.files import make_private, private_files, told, write_whole
from ..rows import open_server
from ..settings import load_run_file
from .extra import need_flower

HERE = "fedtier.deploy.flower"
DAYS = 360  # that a signing key holds


def write_app(folder: Path, run_file: Path, out: Path | None, keys: Path) -> Path:
    """pyproject.toml in `folder`, which names the run and its results; whatever is wrong with the run is said here. The folder
    `keys` gets a signing key for each party that has none there."""
    need_flower()
    require(not (folder / "pyproject.toml").exists(), "DIR", str(folder), "already holds an app", "choose another folder")
    outside = folder.resolve() not in (keys.resolve(), *keys.resolve().parents)
    require(outside, "--keys", str(keys), "lies in the app's folder, which Flower sends to the sites", "choose another folder")
    run = load_run_file(run_file)
    open_server(run)
    server_key = write_keys(keys, run.wire.sites)
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
                    "config": {"run": str(run_file.resolve()), "out": str(results), "keys": str(server_key.resolve())},
                }
            }
        },
    }  # fmt: skip
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pyproject.toml"
    write_whole(path, tomli_w.dumps(content).encode())
    return path


def write_keys(folder: Path, sites: Sequence[str]) -> Path:
    """A signing key for the server and for each site, where there is none yet; the server's file."""
    for site in sites:
        rule = "cannot be the name of a file of keys"
        fits = site not in (SERVER, "authority") and Path(site).name == site
        require(fits, "wire.sites", site, rule, "choose another name")
    make_private(folder)
    with private_files():
        authority = folder / "authority.json"
        if not authority.exists():
            write_whole(authority, json.dumps({"key": new_key()}).encode())
        secret = json.loads(authority.read_text(encoding="utf-8"))["key"]
        for party in (SERVER, *sites):
            path = folder / f"{party}.json"
            if not path.exists():
                write_whole(path, issue(secret, party, int(time.time()) + DAYS * 86_400).encode())
    return folder / f"{SERVER}.json"
