"""Progress on stderr: a live bar where there is a terminal, a plain line now and then where there is none."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

PLAIN_EVERY = 10.0  # seconds between two plain lines


class Progress:
    """start, update at every evaluation, stop."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = Console(stderr=True)
        self.bar: Bar | None = None
        self.last = 0.0
        self.cell = ""  # which of several runs this is

    def start(self, rounds: int, first: int, title: str, compile_seconds: float) -> None:
        self.rounds, self.first, self.clock = rounds, first, time.perf_counter()
        if self.quiet:
            return
        title = self.cell or title
        if not self.console.is_terminal:
            print(f"{title}: compiled in {compile_seconds:.1f} s, {rounds - first} rounds to go", file=sys.stderr, flush=True)
            return
        self.bar = Bar(
            TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[words]}"),
            TimeRemainingColumn(), console=self.console, transient=True,
        )  # fmt: skip
        self.task = self.bar.add_task(title, total=rounds, completed=first, words="")
        self.bar.start()

    def update(self, number: int, rows: list[dict[str, Any]]) -> None:
        if self.quiet:
            return
        seconds = max(time.perf_counter() - self.clock, 1e-9)
        rate = (number - self.first) / seconds
        words = f"loss {_mean(rows, 'global_loss')}  accuracy {_mean(rows, 'global_accuracy')}  {rate:.0f} rounds/s"
        if self.bar is not None:
            self.bar.update(self.task, completed=number, words=words)
        elif time.perf_counter() - self.last > PLAIN_EVERY or number == self.rounds:
            self.last = time.perf_counter()
            left = (self.rounds - number) / rate if rate else 0.0
            print(f"round {number}/{self.rounds}  {words}  {left:.0f} s left", file=sys.stderr, flush=True)

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def _mean(rows: list[dict[str, Any]], key: str) -> str:
    known = [row[key] for row in rows if row[key] is not None]
    return f"{sum(known) / len(known):.4f}" if known else "-"
