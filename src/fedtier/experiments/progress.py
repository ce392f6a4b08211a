"""What a run tells of itself while it goes on. This one says nothing; `reports.progress` shows it on a terminal."""

from __future__ import annotations

from .metric_row import Row


class Progress:
    """One run: start, update at every evaluation, stop. Several: `cells` before them, `next_cell` and `cell_done` around
    each, `end` after."""

    def cells(self, count: int) -> None:
        """`count` runs follow."""

    def next_cell(self, label: str) -> None:
        """The next of several runs begins."""

    def cell_done(self, *, found: bool) -> None:
        """The cell is finished, or was `found` in the store."""

    def waiting(self, holder: str) -> None:
        """Another process is at this cell."""

    def end(self) -> None:
        """No more cells; also when one of them failed."""

    def start(self, rounds: int, first: int, title: str, compile_seconds: float) -> None:
        """The rounds begin, from `first` on."""

    def update(self, number: int, rows: list[Row]) -> None:
        """`number` rounds are done; `rows` are their metrics, one per seed."""

    def stop(self) -> None:
        """The run is over."""

    def say(self, *lines: str) -> None:
        """Lines for people, each once however many cells say it."""
