# pyright: reportMissingImports=false
"""One thread that forgets what FLARE has received, instead of one for each message.

FLARE 2.9 remembers a message that has come for a minute or two, in case its sender repeats it, and starts a thread for each
that does nothing but wait for the end of that time: some 4,000 in a server that gets 75 replies a second.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class Sweeper:
    """Calls functions when their time has come, one after another, in a thread of its own."""

    def __init__(self) -> None:
        self._queue: list[tuple[float, int, Later]] = []
        self._count = itertools.count()  # among equals the first comes first
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(self, due: float, later: Later) -> None:
        with self._changed:
            heapq.heappush(self._queue, (due, next(self._count), later))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue or self._queue[0][0] > time.monotonic():
                    self._changed.wait(self._queue[0][0] - time.monotonic() if self._queue else None)
                later = heapq.heappop(self._queue)[2]
            function = later.function
            if function is not None:
                with suppress(Exception):  # a thread of its own would have died alone, too
                    function()


class Later:
    """What `threading.Timer` is, as far as FLARE uses it."""

    def __init__(self, sweeper: Sweeper, seconds: float, function: Callable[[], object]) -> None:
        self.sweeper, self.seconds = sweeper, seconds
        self.function: Callable[[], object] | None = function

    def start(self) -> None:
        self.sweeper.put(time.monotonic() + self.seconds, self)

    def cancel(self) -> None:
        self.function = None  # and what it holds: the entry stays until its time


def install() -> None:
    """In this process's FLARE; a second time changes nothing."""
    from nvflare.fuel.f3.streaming.byte_receiver import RxTask

    if RxTask._schedule_remove_task.__module__ == __name__:
        return
    sweeper = Sweeper()

    def schedule(self: Any, ttl: float | None = None) -> None:
        with self.stop_lock:
            if self.cleanup_timer is None:
                seconds = self.completed_task_ttl if ttl is None else ttl
                self.cleanup_timer = Later(sweeper, seconds, self._remove_task)
                self.cleanup_timer.start()

    RxTask._schedule_remove_task = schedule
