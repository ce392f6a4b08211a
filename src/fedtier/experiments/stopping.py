"""Stopped by a signal: the stretch in progress ends, the state is saved, and the words say how to go on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


class Stopped(Exception):
    """SIGINT or SIGTERM came; the state is on disk."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.round = folder, number
        super().__init__(f"stopped after round {number}, saved\n  hint: fedtier resume {folder}")


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """SIGINT and SIGTERM end the stretch in progress instead of the process; a second one ends it at once."""
    caught: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: whoever runs the thread handles signals
        before = {}
    try:
        yield lambda: bool(caught)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
