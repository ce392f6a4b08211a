"""`fedtier status`: who is connected, which job runs, and how far it is, as FLARE's server tells an administrator."""

from __future__ import annotations

import datetime
import tempfile
import time
from pathlib import Path
from typing import Any

from ...errors import FedtierError
from ...reports.live.certificates import ends_soon
from .admin import NOT_TAKEN, Admin, NoAnswer, hushed
from .names import PROGRESS
from .workspace import Kit, certificate_ends


def status(kit: Kit) -> dict[str, Any]:
    """One object for people and machines; refuses when the server does not answer."""
    with tempfile.TemporaryDirectory(prefix="fedtier-") as space, hushed():
        admin = Admin(kit, Path(space) / "admin")
        try:
            return _ask(kit, admin)
        except NoAnswer as error:
            rule, hint = f"does not answer: {error}", "is `fedtier serve` running there?"
            if NOT_TAKEN in str(error):
                rule, hint = "does not take this kit for an administrator's", "its certificate is another party's: renew it"
            raise FedtierError("server", f"{kit.server}:{kit.port}", rule, hint) from None
        finally:
            admin.close()


def _ask(kit: Kit, admin: Admin) -> dict[str, Any]:
    heard, jobs, now = admin.sites(), admin.jobs(), time.time()
    job = jobs[0] if jobs else None
    having = admin.has_job(job) if job else {}
    progress = admin.progress(job, PROGRESS) if job else {}
    shown, ends = progress.get("certificates", {}), certificate_ends(kit.folder, kit.kind)
    return {
        "server": f"{kit.server}:{kit.port}",
        "job": job,
        "status": admin.status(job) if job else None,
        "round": progress.get("round"),
        "rounds": progress.get("rounds"),
        "sites": [
            {
                "site": site,
                "connected": site in heard,
                "heard": round(max(0.0, now - heard[site]), 1) if site in heard else None,
                "job": having.get(site, False),
                "silent": site in progress.get("silent", []),
                "certificate": _day(shown.get(site, {}).get("until")),
                "revoked": _day(shown.get(site, {}).get("revoked")),
            }
            for site in kit.sites
        ],
        "certificate": f"{ends:%Y-%m-%d}",
        "warnings": ends_soon({"this kit": {"until": ends.timestamp()}} | shown, now),
    }


def _day(moment: float | None) -> str | None:
    return None if not moment else f"{datetime.datetime.fromtimestamp(moment, datetime.UTC):%Y-%m-%d}"
