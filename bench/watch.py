"""A process and its children under watch: a time limit, and the peak of their resident memory taken together."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

PAGE = resource.getpagesize()


def watched(command: list[str], environment: dict[str, str], log: Any, limit: float) -> tuple[int | None, int]:
    """(exit status, None past the limit; peak bytes). Memory is sampled twice a second; pages that children share count
    in each of them. A lone process's own peak comes from the kernel."""
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    end, peak = time.monotonic() + limit, 0
    while process.poll() is None:
        family = descendants(process.pid)
        peak = max(peak, sum(resident(pid) for pid in family), high_water(process.pid))
        if time.monotonic() > end:
            _end(family)
            process.wait()
            return None, peak
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            continue
    return process.returncode, peak


def descendants(pid: int) -> list[int]:
    """`pid` and all below it, from the children lists of the kernel."""
    found = [pid]
    for parent in found:
        for path in Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in _read(path).split()]
    return found


def resident(pid: int) -> int:
    fields = _read(Path(f"/proc/{pid}/statm")).split()
    return int(fields[1]) * PAGE if fields else 0


def high_water(pid: int) -> int:
    lines = [line for line in _read(Path(f"/proc/{pid}/status")).splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) * 1024 if lines else 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has ended
        return ""


def _end(family: list[int]) -> None:
    for pid in reversed(family):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
