"""What FLARE's tables mean for us."""

from __future__ import annotations

from typing import Any

import pytest

from fedtier.deploy.flare.admin import Admin

pytestmark = pytest.mark.flare


def test_a_silent_site_is_not_one_without_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped site must not make the job restart; one that came back without it must."""
    rows: list[dict[str, Any]] = [
        {"client_name": "north", "app_name": "fedtier", "job_id": "old", "status": "stopping"},
        {"client_name": "north", "app_name": "fedtier", "job_id": "new", "status": "started"},
        {"client_name": "south", "status": "no_jobs"},
        {"client_name": "west", "status": "no_reply"},
        {"client_name": "east", "app_name": "fedtier", "job_id": "old", "status": "started"},
    ]
    admin = Admin.__new__(Admin)
    monkeypatch.setattr(Admin, "_call", lambda self, name: rows)
    assert admin.has_job("new") == {"north": True, "south": False, "east": False}
