"""The job that FLARE carries to every party: two configurations that name our two classes. Data, no code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

APP = "fedtier"
HERE = __package__


def write_job(folder: Path, name: str, sites: tuple[str, ...], rounds: int) -> Path:
    """A job folder that runs on the server and on every connected site. FLARE ends a job with fewer than `min_clients` sites
    alive; how many are enough is the driver's to say."""
    told = {"sites": list(sites), "rounds": rounds}
    server = {"workflows": [{"id": "rounds", "path": f"{HERE}.controller.RoundController", "args": told}]}
    site = {"executors": [{"tasks": ["*"], "executor": {"path": f"{HERE}.executor.SiteExecutor", "args": {}}}]}
    rest = {"format_version": 2, "task_data_filters": [], "task_result_filters": [], "components": []}
    config = folder / APP / "config"
    config.mkdir(parents=True, exist_ok=True)
    _write(config / "config_fed_server.json", rest | server)
    _write(config / "config_fed_client.json", rest | site)
    _write(folder / "meta.json", {"name": name, "resource_spec": {}, "min_clients": 1, "deploy_map": {APP: ["@ALL"]}})
    return folder


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
