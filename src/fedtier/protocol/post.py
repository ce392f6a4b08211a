"""Letters that are out, one a site, whose answers are taken as they come."""

from __future__ import annotations

import queue
import threading
from typing import Protocol, runtime_checkable

from .letters import Ask, Letters


@runtime_checkable
class Post(Protocol):
    """What `AsyncDriver` needs of a transport. `Threads` makes one from any `ask`."""

    def send(self, site: str, letters: Letters, seconds: float) -> None:
        """Sends the letter to `site`, which has none out, and returns at once."""
        ...

    def wait(self, seconds: float) -> tuple[str, bytes | None] | None:
        """The next site that has answered, or None in place of its answer when its time was over; None when `seconds` were."""
        ...


class Threads:
    """A post over an `ask` that may be called from several threads: each letter that is out has a thread that waits for it."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._came: queue.SimpleQueue[tuple[str, bytes | BaseException | None]] = queue.SimpleQueue()

    def send(self, site: str, letters: Letters, seconds: float) -> None:
        threading.Thread(target=self._carry, args=(site, letters, seconds), name=f"letter to {site}", daemon=True).start()

    def _carry(self, site: str, letters: Letters, seconds: float) -> None:
        try:
            self._came.put((site, self._ask(letters, seconds).get(site)))
        except BaseException as error:  # for whoever waits
            self._came.put((site, error))

    def wait(self, seconds: float) -> tuple[str, bytes | None] | None:
        try:
            site, reply = self._came.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(reply, BaseException):
            raise reply
        return site, reply
