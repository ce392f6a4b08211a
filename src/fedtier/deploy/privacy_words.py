"""What a run between sites says about privacy: the statement of a simulation, with what differs between machines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..experiments.assemble import Experiment
from ..experiments.budgets import finds_noise
from ..experiments.privacy_page import as_object, short_words, stated
from ..experiments.run_folder import RunFolder
from ..experiments.session import PRIVACY
from ..privacy.statement import GENERAL, Statement
from ..protocol import Masking
from .masks import masking_of

if TYPE_CHECKING:
    from .settings import WireTable

SECRETS = {
    "central": "the server draws its noise from a key in the run's folder, in floating point",
    "distributed": "each site draws whole numbers of the discrete Gaussian, exactly, from a secret in its state folder",
    "local": "each site draws its noise, in floating point, from a secret in its state folder, and answers once a round",
    "rows": "each site draws coins and noise, in floating point, from a secret in its state folder, answers once a round, and "
    "makes no more steps than its budget pays for",
}
OWN_NOISE = "each site finds the noise for its own number of rows, and tells neither: with more rows it is less than said here"
NOT_COVERED = (
    "a server that leaves the protocol: it may ask a site for several runs, each with a budget of its own",
    "rounds that are lost are counted as played",
)


def mask_words(how: Masking) -> tuple[str, ...]:
    """What holds by masks, and up to which collusion."""
    bear = min(2 * how.threshold - how.cohort - 1, how.threshold - 2)
    return (
        f"masks: the server learns sums over at least {how.threshold} of a round's {how.cohort} sites; X25519, HKDF-SHA256 and "
        "ChaCha20 are what they are taken for, and the authority vouches for sites alone",
        f"with up to {bear} sites on its side the server sees no reply by itself, also where it lies about who is alive; "
        f"with {how.threshold} on its side it sees all",
    )


def between_sites(experiment: Experiment, how: Masking | None) -> Statement:
    """The statement of a simulation as it holds between machines."""
    config, found = experiment.config, stated(experiment, least=True)
    place = "rows" if config.privacy.kind == "rows" else config.privacy.place
    masks = () if how is None else mask_words(how)
    if how is not None and place == "distributed":
        part = math.sqrt((how.threshold - 1) / how.threshold)
        masks = (
            *masks,
            f"sites that collude know their own noise: with one of them, the noise against it is {part:.2f} of this",
        )
    kept = tuple(line for line in found.assumptions if line not in GENERAL)
    rest = (*NOT_COVERED, "how long a site takes, and when it answers", *found.uncovered)
    secrets = (SECRETS[place], OWN_NOISE) if finds_noise(config) else (SECRETS[place],)
    viewers = found.viewers
    if how is not None and place == "rows":
        seen = "sums of replies, computed from noisy gradients"
        viewers = tuple(one._replace(sees=seen) if one.who == "the server" else one for one in viewers)
    return found._replace(viewers=viewers, assumptions=(*kept, *secrets, *masks), uncovered=rest)


def tell_privacy(
    experiment: Experiment, wire: WireTable, how: Masking | None, files: RunFolder, say: Callable[[str], None]
) -> None:
    """privacy.json and a line of the log, before the first round; a line about masks where there is nothing else to say."""
    if (files.folder / PRIVACY).exists():
        return
    privacy = experiment.config.privacy
    if privacy.kind != "none":
        found = between_sites(experiment, how)
        files.write(PRIVACY, json.dumps(as_object(found)).encode())
        say(f"privacy: {short_words(found)}")
    if how is not None:
        say(mask_words(how)[0])


def page_of(run_file: Path) -> tuple[Statement | None, tuple[str, ...]]:
    """(the statement of a run file, None without [privacy]; what holds by masks)."""
    from .rows import open_server
    from .settings import load_run_file

    run = load_run_file(run_file)
    how = masking_of(run.config, run.wire, 1) if run.config.privacy.kind == "none" else None
    if run.config.privacy.kind == "none":
        return None, () if how is None else mask_words(how)
    experiment, _ = open_server(run)
    how = masking_of(experiment.config, run.wire, 1)
    return between_sites(experiment, how), ()
