"""The first moment of `fedtier join`: what it was given is checked, then it becomes the site's supervisor (`join`).

Loads neither JAX nor FLARE, which would take longer than all of its checks.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from ...errors import FedtierError, require
from ...experiments.toml import checked, read_toml
from ...storage.files import make_private, write_whole
from ..site_table import SiteTable, site_command
from .extra import need_flare
from .workspace import SIGNING, Kit, read_kit


def check_and_join(kit_folder: Path, data: Path | None, state: Path, site_file: Path | None) -> None:
    """`fedtier join`; does not return."""
    need_flare()
    kit = read_kit(kit_folder, "site")
    table = read_toml(site_file) if site_file is not None else {}
    rows = data or _named(table, site_file)
    require(rows.exists(), "--data", str(rows), "is not there")
    require(table.get("name", kit.party) == kit.party, "site.name", table.get("name"), f"the kit is of {kit.party}")
    table |= {"name": kit.party, "data": str(rows.resolve())}
    hung = checked("site", SiteTable, table).hung_after
    make_private(state)
    os.umask(0o077)  # for this process and all that come from it
    merged = state.resolve() / "site.toml"
    write_whole(merged, tomli_w.dumps(table).encode())
    paths = [str(site_file.resolve().parent)] if site_file is not None else []  # where a solver of one's own lies
    paths += [path for path in [os.environ.get("PYTHONPATH")] if path]
    _become(kit, state.resolve(), site_command(merged, merged.parent / "memory", kit.folder / SIGNING), hung, paths)


def _named(table: dict[str, Any], site_file: Path | None) -> Path:
    named = table.get("data")
    if site_file is None or not isinstance(named, str):
        raise FedtierError("--data", named, "must name this site's rows", "--data rows.csv, or data in --site")
    return site_file.parent / named


def _become(kit: Kit, state: Path, solver: Sequence[str], hung: float, python_path: Sequence[str]) -> None:
    """Turns this process, with all it has loaded for its checks, into the small one that stays."""
    environment = dict(os.environ) | ({"PYTHONPATH": os.pathsep.join(python_path)} if python_path else {})
    line = [sys.executable, "-m", f"{__package__}.join", str(kit.folder), str(state), json.dumps(list(solver)), str(hung)]
    sys.stderr.flush()
    os.execve(sys.executable, line, environment)
