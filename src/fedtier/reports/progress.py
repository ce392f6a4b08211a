"""Progress on stderr: a live bar where there is a terminal, a plain line now and then where there is none."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from ..experiments.metric_row import Row, at
from ..experiments.progress import Progress

PLAIN_EVERY = 10.0  # seconds between two plain lines


class TerminalProgress(Progress):
    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.bar: Bar | None = None
        self.all: TaskID | None = None  # the bar over all cells
        self.last = 0.0
        self.cell = ""  # which of several runs this is
        self.said: set[str] = set()

    def cells(self, count: int) -> None:
        self.count, self.done = count, 0
        if self.console.is_terminal:
            self.all = self._live().add_task("all cells", total=count, words="")

    def next_cell(self, label: str) -> None:
        self.cell = f"[{self.done + 1}/{self.count}] {label}"

    def cell_done(self, *, found: bool) -> None:
        self.done += 1
        if self.bar is not None and self.all is not None:
            self.bar.update(self.all, completed=self.done)
        elif found:
            print(f"{self.cell}: found in the store", file=sys.stderr, flush=True)

    def waiting(self, holder: str) -> None:
        self.say(f"{self.cell}: process {holder} is at it, waiting")

    def say(self, *lines: str) -> None:
        for line in [line for line in lines if line not in self.said]:
            self.said.add(line)
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def end(self) -> None:
        self.all = None
        self.stop()

    def start(self, rounds: int, first: int, title: str, compile_seconds: float) -> None:
        self.rounds, self.first, self.clock = rounds, first, time.perf_counter()
        title = self.cell or title
        if not self.console.is_terminal:
            ready = f"compiled and evaluated once in {compile_seconds:.1f} s"
            print(f"{title}: {ready}, {rounds - first} rounds to go", file=sys.stderr, flush=True)
            return
        self.task = self._live().add_task(title.replace("[", "\\["), total=rounds, completed=first, words="")

    def update(self, number: int, rows: list[Row]) -> None:
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


class NotebookProgress(Progress):
    """One line below a notebook's cell that is written anew; it goes when the run is over."""

    def __init__(self) -> None:
        self.handle: Any = None
        self.cell, self.count, self.done = "", 0, 0

    def cells(self, count: int) -> None:
        self.count, self.done = count, 0

    def next_cell(self, label: str) -> None:
        self.cell = f"[{self.done + 1}/{self.count}] {label}: "

    def cell_done(self, *, found: bool) -> None:
        self.done += 1

    def start(self, rounds: int, first: int, title: str, compile_seconds: float) -> None:
        self.rounds, self.title = rounds, self.cell or f"{title}: "
        self._show(f"{self.title}compiled and evaluated once in {compile_seconds:.1f} s")

    def update(self, number: int, rows: list[Row]) -> None:
        filled = round(30 * number / max(1, self.rounds))
        measure = "rmse" if any("global_rmse" in row for row in rows) else "accuracy"
        words = f"loss {_mean(rows, 'global_loss')}  {measure} {_mean(rows, f'global_{measure}')}"
        self._show(f"{self.title}{'█' * filled}{'░' * (30 - filled)} round {number}/{self.rounds}  {words}")

    def end(self) -> None:
        self.count = 0
        self.stop()

    def stop(self) -> None:
        if self.done + 1 >= self.count:
            self._show("")

    def _show(self, text: str) -> None:
        from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

        page = HTML(f"<pre>{escape(text)}</pre>" if text else "")
        if self.handle is None:
            self.handle = display(page, display_id=True)
        else:
            self.handle.update(page)


def fitting(asked: bool | Progress | None) -> Progress:
    """What a program shows of a run: what it gives, a bar where it says so, by default one where a person is watching."""
    if isinstance(asked, Progress):
        return asked
    if asked is False:
        return Progress()
    if _in_notebook():
        return NotebookProgress()
    return TerminalProgress() if asked or sys.stderr.isatty() else Progress()


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    found = None if shell is None else shell.get_ipython()
    return found is not None and type(found).__name__ == "ZMQInteractiveShell"


def _mean(rows: list[Row], key: str) -> str:
    known = [value for value in (at(row, (key,)) for row in rows) if value is not None]
    return f"{sum(known) / len(known):.4f}" if known else "-"
