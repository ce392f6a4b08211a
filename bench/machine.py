"""The machine: its description, the compiled programs, and the fixed reference that tells how busy it is."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BUILD = HERE / ".build"
CC = os.environ.get("CC", "cc")
REFERENCE_STEPS = 3000


def reference() -> float:
    """Seconds of the fixed compiled workload on all cores."""
    command = [str(BUILD / "reference"), str(len(os.sched_getaffinity(0))), str(REFERENCE_STEPS)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0])


def compile_all() -> None:
    BUILD.mkdir(exist_ok=True)
    fast = ["-O3", "-march=native"]
    jobs = [
        [*fast, "-ffast-math", "-o", str(BUILD / "reference"), str(HERE / "reference.c")],
        [*fast, "-shared", "-fPIC", "-o", str(BUILD / "c_loop.so"), str(HERE / "peers" / "c_loop.c")],
    ]
    for job in jobs:
        try:
            subprocess.run([CC, *job, "-lm", "-lpthread"], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"the C compiler failed: {error}\n  hint: the benchmarks need cc, for example gcc") from None


def description() -> dict[str, Any]:
    names = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    return {
        "cpu": names[0] if names else platform.processor(), "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()}", "python": platform.python_version(),
        "compiler": _first_line([CC, "--version"]), "fedtier": _first_line(["git", "describe", "--always", "--dirty"]),
    }  # fmt: skip


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, check=False, cwd=HERE, capture_output=True, text=True)
    return (done.stdout.splitlines() or ["unknown"])[0]
