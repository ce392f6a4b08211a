"""Progress on stderr: a live bar where there is a terminal, a plain line now and then where there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

PLAIN_EVERY = 10.0  # seconds between two plain lines


class Progress:
    """One run: start, update at every evaluation, stop. Several: `cells` before them, `next_cell` and `cell_done` around
    each, `end` after."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = Console(stderr=True)
        self.bar: Bar | None = None
        self.all: TaskID | None = None  # the bar over all cells
        self.last = 0.0
        self.cell = ""  # which of several runs this is
        self.said: set[str] = set()

    def cells(self, count: int) -> None:
        """`count` runs follow."""
        self.count, self.done = count, 0
        if not self.quiet and self.console.is_terminal:
            self.all = self._live().add_task("all cells", total=count, words="")

    def next_cell(self, label: str) -> None:
        self.cell = f"[{self.done + 1}/{self.count}] {label}"

    def cell_done(self, *, found: bool) -> None:
        """The cell is finished, or was `found` in the store."""
        self.done += 1
        if self.bar is not None and self.all is not None:
            self.bar.update(self.all, completed=self.done)
        elif not self.quiet and found:
            print(f"{self.cell}: found in the store", file=sys.stderr, flush=True)

    def end(self) -> None:
        """No more cells; also when one of them failed."""
        self.all = None
        self.stop()

    def say(self, lines: Iterable[str]) -> None:
        """Lines that stay, each once however many cells say it."""
        for line in () if self.quiet else [line for line in lines if line not in self.said]:
            self.said.add(line)
            (self.bar.console.print if self.bar else self.console.print)(line, markup=False, highlight=False, soft_wrap=True)

    def start(self, rounds: int, first: int, title: str, compile_seconds: float) -> None:
        self.rounds, self.first, self.clock = rounds, first, time.perf_counter()
        if self.quiet:
            return
        title = self.cell or title
        if not self.console.is_terminal:
            print(f"{title}: compiled in {compile_seconds:.1f} s, {rounds - first} rounds to go", file=sys.stderr, flush=True)
            return
        self.task = self._live().add_task(title.replace("[", "\\["), total=rounds, completed=first, words="")

    def update(self, number: int, rows: list[dict[str, Any]]) -> None:
        if self.quiet:
            return
        seconds = max(time.perf_counter() - self.clock, 1e-9)
        rate = (number - self.first) / seconds
        measure = "rmse" if any("global_rmse" in row for row in rows) else "accuracy"
        words = f"loss {_mean(rows, 'global_loss')}  {measure} {_mean(rows, f'global_{measure}')}  {rate:.0f} rounds/s"
        if self.bar is not None:
            self.bar.update(self.task, completed=number, words=words)
        elif number > self.first and (time.perf_counter() - self.last > PLAIN_EVERY or number == self.rounds):
            self.last = time.perf_counter()
            left = (self.rounds - number) / rate if rate else 0.0
            print(f"round {number}/{self.rounds}  {words}  {left:.0f} s left", file=sys.stderr, flush=True)

    def stop(self) -> None:
        """The run is over; the bar over all cells stays."""
        if self.bar is None:
            return
        if self.all is not None:
            self.bar.remove_task(self.task)
            return
        self.bar.stop()
        self.bar = None

    def _live(self) -> Bar:
        if self.bar is None:
            self.bar = Bar(
                TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[words]}"),
                TimeElapsedColumn(), TimeRemainingColumn(), console=self.console, transient=True,
            )  # fmt: skip
            self.bar.start()
        return self.bar


def _mean(rows: list[dict[str, Any]], key: str) -> str:
    known = [row[key] for row in rows if row[key] is not None]
    return f"{sum(known) / len(known):.4f}" if known else "-"
