"""What FLARE's tables mean for us."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fedtier.deploy.flare.admin import Admin

pytestmark = pytest.mark.flare


def test_a_silent_site_is_not_one_without_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """`status` tells which sites have the job, of those that answer."""
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


def test_threads_of_a_session_that_was_given_up_are_not_waited_for_at_the_end() -> None:
    """Python joins the threads of every pool when it ends; FLARE's dial a server that is gone for ever."""
    from concurrent.futures import thread as pools

    admin, forever = Admin.__new__(Admin), threading.Event()
    with ThreadPoolExecutor(1) as mine, ThreadPoolExecutor(1) as lost:
        mine.submit(int)
        admin.session, admin.before = None, set(pools._threads_queues)
        lost.submit(forever.wait)
        (worker,) = set(pools._threads_queues) - admin.before
        admin.close()
        assert worker not in pools._threads_queues and set(pools._threads_queues) == admin.before
        forever.set()
