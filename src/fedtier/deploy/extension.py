"""More rounds for a run between sites: run.toml with a larger `run.rounds`, and the same command again.

A site never hears how many rounds there are, so only the server's folder changes: what belonged to the old end alone goes, and
the run goes on from its last round as the one that had so many from the start. Not so under a budget of privacy: the noise of
the rounds that were played was found for so many.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import require
from ..experiments.config import load_config
from ..experiments.run_folder import PLAN, RunFolder
from ..experiments.tables import Config
from .settings import WireRun, buffer_of

END = "clients.json"  # the last file that a run writes


def is_longer(run: WireRun, folder: Path) -> bool:
    """Whether `run` is the run in `folder` with more rounds; refuses the same with fewer."""
    held = _held(folder)
    if held is None or held.digest(endless=True) != run.config.digest(endless=True):
        return False  # a new run, or another one: whoever opens the folder says so
    fewer, now = held.run.rounds, run.config.run.rounds
    require(now >= fewer, "run.rounds", now, f"must not be below the {fewer} that the run has", "a run is never shortened")
    return now > fewer


def extend(run: WireRun, files: RunFolder) -> None:
    """Gives the run in a held folder the rounds of `run`, where those are more."""
    if not is_longer(run, files.folder):
        return
    config = run.config
    rule = "cannot grow for a method without rounds, whose order of answers is part of its checkpoint"
    require(not buffer_of(config), "run.rounds", config.run.rounds, rule, "start another run")
    fixed = config.privacy.kind == "rows" or config.privacy.calibrated
    rule = "cannot grow: sites were told the noise, or the steps, that the budget of privacy has for the rounds that there were"
    require(not fixed, "run.rounds", config.run.rounds, rule, "a run of its own, with a budget of its own")
    for name in (PLAN, END):
        (files.folder / name).unlink(missing_ok=True)
    files.write("config.toml", config.toml().encode())
    files.log(f"extended to {config.run.rounds} rounds")


def _held(folder: Path) -> Config | None:
    path = folder / "config.toml"
    return load_config(path) if path.exists() else None
