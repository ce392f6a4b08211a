"""Where the time of a run goes: spans by name, as a table and as a trace that Perfetto (ui.perfetto.dev) opens."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..storage.json_value import Json

PHASES = {
    "start-up": "the interpreter and its imports",
    "data": "loaded, split, dealt out; the first model",
    "compile": "programs traced and compiled, or found in the cache",
    "rounds": "the rounds themselves",
    "evaluation": "scores, personal models included",
    "checkpoints": "states and rows on their way to the disk",
    "other": "everything else",
}


class Span(NamedTuple):
    phase: str
    start: float  # seconds since the process began
    seconds: float
    note: str = ""


class Profile:
    """Spans of one run. Phases do not overlap: what no span covers is "other"."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._began = time.perf_counter() - _process_age()

    def started(self) -> None:
        """Everything so far was start-up."""
        self.spans.append(Span("start-up", 0.0, self._now()))

    @contextmanager
    def span(self, phase: str, note: str = "") -> Iterator[None]:
        start = self._now()
        try:
            yield
        finally:
            self.spans.append(Span(phase, start, self._now() - start, note))

    def as_object(self) -> dict[str, float]:
        """Seconds by phase, in the order of PHASES; they add up to the age of the process."""
        sums = {phase: sum(span.seconds for span in self.spans if span.phase == phase) for phase in PHASES}
        sums["other"] = max(0.0, self._now() - sum(sums.values()))
        return {phase: round(seconds, 4) for phase, seconds in sums.items()}

    def trace(self) -> dict[str, Json]:
        """Trace events, times in microseconds."""
        process = os.getpid()
        named = {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": "fedtier"}}
        events = [
            {"ph": "X", "name": span.phase, "cat": "fedtier", "pid": process, "tid": 0, "ts": round(1e6 * span.start, 1),
             "dur": round(1e6 * span.seconds, 1), "args": {"note": span.note}}
            for span in self.spans
        ]  # fmt: skip
        return {"traceEvents": [named, *events], "displayTimeUnit": "ms"}

    def write(self, path: Path) -> None:
        from .run_folder import write_whole

        write_whole(path, json.dumps(self.trace()).encode())

    def _now(self) -> float:
        return time.perf_counter() - self._began


def _process_age() -> float:
    """Seconds since the process began; 0 where the system does not tell."""
    try:
        ticks = float(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        age = float(Path("/proc/uptime").read_text().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
    return max(0.0, age)
