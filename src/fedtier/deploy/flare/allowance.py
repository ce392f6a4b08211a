"""How much a site may send to the server's job between two letters: a reply, a late one, and room for FLARE's own words.

FLARE puts a message together from its pieces before anybody sees how long it is. Each piece says how long the whole will be, so
what is too long is dropped piece by piece, and no memory is taken for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from .peers import Tally

ROOM = 1 << 18  # bytes beside the replies
SMALLEST = 1 << 12  # bytes that a piece costs at least: each is work, however small


class Allowance:
    """By site. Used by FLARE's threads; `note` gets a line for the 1st, 2nd, 4th, 8th, ... piece of a site that is dropped."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note
        self.left: dict[str, int] = {}
        self._refusals, self._lock = Tally(), threading.Lock()

    def renew(self, site: str, most: int) -> None:
        """A letter goes out whose reply may have `most` bytes; 0: any number."""
        with self._lock:
            if most:
                self.left[site] = 2 * most + ROOM
            else:
                self.left.pop(site, None)

    def takes(self, site: str, announced: object, size: int) -> bool:
        """Whether to take a piece of `size` bytes of a message that is said to have `announced`. Who was never written to, such
        as FLARE's server, may send what it likes."""
        with self._lock:
            if site not in self.left:
                return True
            left, cost = self.left[site], max(size, SMALLEST)
            if isinstance(announced, int) and 0 <= announced <= left and cost <= left:
                self.left[site] = left - cost
                return True
            told = self._refusals.worth_telling(site)
        if told:
            said = f"{announced:,} bytes" if isinstance(announced, int) else "an unknown number of bytes"
            self.note(f"{site}: sends {said} where at most {left:,} are taken; not read ({self._refusals.counts[site]} pieces)")
        return False
