"""`fedtier join`: a site's FLARE client, kept alive; jobs come over the wire, data and state stay here.

    python -m fedtier.deploy.flare.join KIT STATE SOLVER HUNG        SOLVER: the command that answers letters, as JSON

A process that loads neither JAX nor FLARE: it lives as long as the site, beside those that do the work.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from .names import HUNG, SOLVER
from .supervise import Party, Space, alone, stop_signals, tell
from .workspace import Kit, certificate_ends, read_kit

BEAT = 0.5  # seconds between two looks at the child
STOPPED = 130  # exit status of a command that a signal stopped
STEADY = 4  # looks in a row that must agree: a refused certificate connects, too, for a moment


def join(kit: Kit, state: Path, solver: str, hung: str) -> None:
    """Runs until SIGINT or SIGTERM."""
    with alone(state), stop_signals() as stopped:
        party = Party(kit, state / "flare", {SOLVER: solver, HUNG: hung}, tell)
        tell(f"site {kit.party}: dialling {kit.server}:{kit.port}")
        connected, looks, disk = False, 0, Space(state, tell)
        try:
            while not stopped():
                party.keep()
                disk.look()
                if party.renewed():
                    party.take_over()
                    tell(f"site {kit.party}: renewed certificate, until {certificate_ends(kit.folder, kit.kind):%Y-%m-%d}")
                looks = 0 if party.connected() == connected else looks + 1
                if looks >= STEADY:
                    connected, looks = not connected, 0
                    tell(f"site {kit.party}: {'connected' if connected else 'lost the server; dialling again'}")
                time.sleep(BEAT)
        finally:
            party.end()
        tell(f"site {kit.party}: stopped; its state is in {state}")


if __name__ == "__main__":
    join(read_kit(Path(sys.argv[1]), "site"), Path(sys.argv[2]), *sys.argv[3:])
    raise SystemExit(STOPPED)
