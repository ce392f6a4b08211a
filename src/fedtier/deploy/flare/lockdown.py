"""What a kit allows: our classes alone, no code by wire, no shell, no logs that leave a site, storage of its own.

FLARE's defaults are wider: a scheme of http, some seventy classes of its own, shell commands at sites, error logs that
stream to the server, one job store for every server of a host. Paths are written as `{workspace}`, because a kit is
made on another machine than the one it works on; `workspace.py` puts the real folder in.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CLASSES = ["fedtier.deploy.flare."]  # every class a job may name, by prefix
RIGHTS = {
    "submit_job": "any", "manage_job": "any", "view": "any", "operate": "any", "app_command": "any",
    "clone_job": "none", "download_job": "none", "shell_commands": "none", "byoc": "none", "server-predeployed-flwr": "none",
}  # fmt: skip
LAUNCHERS = "nvflare.app_common.job_launcher"


def lock(kit: Path, kind: str) -> None:
    """Writes the rules of a server's or a site's kit; they take the place of FLARE's defaults."""
    resources = _server() if kind == "server" else _site()
    classes = {"class_list_enforcement_mode": "enforce", "class_allow_list": CLASSES}
    _write(kit / "local" / "resources.json", resources | classes)
    (kit / "local" / "resources.json.default").unlink(missing_ok=True)
    rights = {"format_version": "1.0", "permissions": {"project_admin": RIGHTS}}
    _write(kit / "local" / "authorization.json", rights)


def _server() -> dict[str, Any]:
    storage = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    scheduler = {"max_jobs": 1, "min_schedule_interval": 1.0, "max_schedule_interval": 5.0, "max_schedule_count": 100_000}
    return {
        "format_version": 2,
        "servers": [{"admin_storage": "transfer", "max_num_clients": 1000, "heart_beat_timeout": 600, "admin_timeout": 10.0}],
        "components": [
            _part("job_scheduler", "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler", scheduler),
            _part(
                "job_manager",
                "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                {"uri_root": "{workspace}/jobs", "job_store_id": "job_store"},
            ),
            _part("job_store", storage),
            _part("process_launcher", f"{LAUNCHERS}.server_process_launcher.ServerProcessJobLauncher"),
        ],
    }


def _site() -> dict[str, Any]:
    manager = "nvflare.app_common.resource_managers.passthrough_resource_manager.PassthroughResourceManager"
    consumer = "nvflare.app_common.resource_consumers.gpu_resource_consumer.GPUResourceConsumer"
    return {
        "format_version": 2,
        "allow_log_streaming": False,
        "client": {"retry_timeout": 30},
        "components": [
            _part("resource_manager", manager),
            _part("resource_consumer", consumer),
            _part("process_launcher", f"{LAUNCHERS}.client_process_launcher.ClientProcessJobLauncher"),
        ],
    }


def _part(name: str, path: str, args: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"id": name, "path": path, "args": args or {}}


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
