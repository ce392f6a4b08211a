"""`fedtier join`: a site's FLARE client, kept alive; jobs come over the wire, data and state stay here."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .names import SOLVER
from .supervise import Party, Say, alone, stop_signals
from .workspace import Kit

BEAT = 0.5  # seconds between two looks at the child
STEADY = 4  # looks in a row that must agree: a refused certificate connects, too, for a moment


def join(kit: Kit, state: Path, solver: Sequence[str], environment: Mapping[str, str], say: Say) -> None:
    """Runs until SIGINT or SIGTERM; `solver` is the command of the process that answers letters, `environment` for it."""
    with alone(state), stop_signals() as stopped:
        party = Party(kit, state / "flare", dict(environment) | {SOLVER: json.dumps(list(solver))}, say)
        say(f"site {kit.party}: dialling {kit.server}:{kit.port}")
        connected, looks = False, 0
        try:
            while not stopped():
                party.keep()
                looks = 0 if party.connected() == connected else looks + 1
                if looks >= STEADY:
                    connected, looks = not connected, 0
                    say(f"site {kit.party}: {'connected' if connected else 'lost the server; dialling again'}")
                time.sleep(BEAT)
        finally:
            party.end()
        say(f"site {kit.party}: stopped; its state is in {state}")
