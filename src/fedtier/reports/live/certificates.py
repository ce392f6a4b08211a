"""Certificates that end soon or were revoked, as `deploy.flare.validity` has written them down."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .files import Cache, read_object

CERTIFICATES = "certificates.json"  # in FLARE's workspace at the server
WORKSPACE = ("flare", "server")  # in a run's folder
SOON = 30  # days before a certificate's end in which one is told
DAY = 86_400


def certificates(folder: Path, cache: Cache) -> Mapping[str, Mapping[str, Any]]:
    """{party: {"until": seconds since the epoch or None, "revoked": likewise}}; empty for other runs."""
    return cache.get("certificates", folder.joinpath(*WORKSPACE, CERTIFICATES), read_object)


def ends_soon(table: Mapping[str, Mapping[str, Any]], now: float) -> list[str]:
    """A line for each certificate that ends within SOON days or has ended."""
    ends = {party: (said["until"] - now) / DAY for party, said in table.items() if said.get("until")}
    return [f"{party}: certificate {ends_in(days)}" for party, days in ends.items() if days < SOON]


def ends_in(days: float) -> str:
    return f"ends in {days:.0f} days" if days >= 0 else f"ended {-days:.0f} days ago"


def revoked_on(moment: float) -> str:
    return f"its certificate was revoked on {datetime.datetime.fromtimestamp(moment, datetime.UTC):%Y-%m-%d %H:%M} UTC"
