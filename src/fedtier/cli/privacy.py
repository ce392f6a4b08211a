"""The command that says what holds for the numbers that leave a client, and tries to refute it."""

from __future__ import annotations

import sys
from pathlib import Path

from ..errors import require
from ..storage.json_value import Json
from .shared import Config, Settings, prepare_jax, show


def privacy(
    file: Config = None, settings: Settings = (), audit: bool = False, runs: int = 2000, seed: int = 0, json: bool = False
) -> None:
    """Say who sees what under a configuration's [privacy], and what epsilon holds against whom.

    Args:
        file: The configuration, or the folder of a run.
        settings: Change one key, for example --set privacy.epsilon=4. May be repeated.
        audit: Also try to refute it: a canary client or row in and out, thousands of times. Exits with 1 if that succeeds.
        runs: Runs of each kind in the audit.
        seed: Of the audit.
        json: One JSON object on stdout instead of a page.
    """
    from ..experiments.assemble import assemble
    from ..experiments.config import load_config, preset_words, read_toml
    from ..experiments.privacy_audit import audit_words, audited
    from ..experiments.privacy_page import as_object, page_words, stated

    prepare_jax()
    path = None if file is None else Path(file)
    if path is not None and path.is_file() and "wire" in read_toml(path):
        refuse_between_sites(settings, audit)
        show(between_sites_page(path, json))
        return
    config = load_config(path / "config.toml" if path is not None and path.is_dir() else path, settings)
    if config.privacy.kind == "none":
        show({"unit": None} if json else NOTHING_SAID)
        return
    for line in preset_words(config):
        print(line, file=sys.stderr)
    print("computing what the budget pays for; this takes some seconds", file=sys.stderr)
    experiment = assemble(config)
    if experiment.config.run.rounds < config.run.rounds:
        print(f"the budget is spent after {experiment.config.run.rounds} rounds", file=sys.stderr)
    found, tried = stated(experiment), audited(experiment, runs, seed) if audit else None
    if json:
        show(as_object(found) | ({} if tried is None else {"audit": tried._asdict() | {"holds": tried.holds}}))
    else:
        show(page_words(found) + ("" if tried is None else "\n\n" + audit_words(tried)))
    if tried is not None and not tried.holds:
        raise SystemExit(1)


def refuse_between_sites(settings: Settings, audit: bool) -> None:
    hint = "change the file"
    require(not settings, "--set", list(settings), "is not there for a run between sites", hint)
    require(not audit, "--audit", True, "is of a simulation's mechanism, which draws from run.seed", "a file without [wire]")


def between_sites_page(path: Path, json: bool) -> str | dict[str, Json]:
    """The page of a run file: what a simulation of it would say, with what differs between machines."""
    from ..deploy.privacy_words import page_of
    from ..experiments.privacy_page import as_object, page_words

    found, masks = page_of(path)
    if json:
        table: dict[str, Json] = {"unit": None} if found is None else as_object(found)
        lines: list[Json] = list(masks)
        return {**table, "masks": lines}
    nothing = MASKS_ALONE if masks else NOTHING_SAID
    return "\n\n".join([nothing if found is None else page_words(found), *masks])


NOTHING_SAID = """privacy.kind = "none": nothing is promised. The server sees every reply, everyone sees every model."""
MASKS_ALONE = """privacy.kind = "none": nothing is promised of what sums and models tell. Replies are masked:"""
