"""FLARE's questions leave cycles of objects with a megabyte each: `serve` collects them as it goes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedtier.deploy.flare import serve
from fedtier.deploy.flare.workspace import Kit


class Cycle:
    def __init__(self) -> None:
        self.itself = self


class Still:
    """Stands for a part of `serve` that has nothing to do."""

    process = SimpleNamespace(poll=lambda: None)

    def __init__(self, *given: object) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *given: None


def test_a_cycle_that_one_beat_leaves_is_gone_after_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("Party", "Admin", "_Keeper", "Validity", "Space"):
        monkeypatch.setattr(serve, part, Still)
    monkeypatch.setattr(serve, "BEAT", 0.0)
    left: list[weakref.ref[Cycle]] = []
    alive: list[int] = []

    def leave_a_cycle() -> None:
        cycle = Cycle()
        left.append(weakref.ref(cycle))
        alive.append(sum(one() is not None for one in left))

    kit = Kit(tmp_path, "server", "server", ("north",), "localhost", 0, "")
    run = serve.Run("trial", tmp_path, ("north",), 1, 1, {}, lambda: len(left) >= 20, leave_a_cycle)
    gc.disable()  # what Python does by itself depends on what else is loaded
    try:
        assert serve.serve(kit, run, lambda line: None)
    finally:
        gc.enable()
    assert max(alive) <= 2 and gc.get_freeze_count() == 0
