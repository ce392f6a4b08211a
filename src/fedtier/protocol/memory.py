"""What a site remembers of a run, on disk before any reply leaves: the brief, its state, and its last reply.

    kept       the state after the last round that the server counted
    pending    the state and the reply of the round since then, of which the site does not yet know whether it counted

    past       the replies to the letters of this round and the one before (without rounds also the last that counted), so
               that a server which had to go back to the checkpoint before its last gets the same answers again; old letters
               change nothing

The next letter tells: its `last` is the last round of this site that counted. So a reply that was late, lost or refused
leaves no trace, a repeated round gets the same reply, and both hold whatever dies in between.

Two generations are kept. Where the newest is damaged the site goes on from the one before it; where both are, they are set
aside, the letter in hand is refused in words, and the next one finds a site that does not know the run.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import secrets
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from ..errors import NOTHING, require
from ..storage import array_files, named_arrays
from ..storage.checksums import stamped, unstamped
from ..storage.files import Damaged, make_private, previous, read_generations, set_aside, told, write_whole
from ..storage.json_value import as_text, as_whole

FORMAT, MEMORY, BRIEF, SHOWN = "fedtier-site-1", "memory.safetensors", "brief.json", "shown.safetensors"
SECRET, SECRET_BYTES = "secret", 32  # what masks and noise are drawn from; never leaves
BEFORE = -1  # the round of the initial state


class Pending(NamedTuple):
    """The answer to the latest round."""

    round: int
    state: PyTree
    reply: bytes
    letter: str = ""  # checksum of the letter that it answers
    question: str = ""  # checksum of what was played, without the masks; where it matters
    group: str = ""  # with whom the reply is masked, where it is


class Answered(NamedTuple):
    """The answer to a letter of the rounds before."""

    round: int
    letter: str
    reply: bytes


class Memo(NamedTuple):
    """All that a site remembers of a run between two letters."""

    round: int  # of `kept`
    kept: PyTree
    pending: Pending | None
    past: tuple[Answered, ...] = ()
    brief: str = ""  # checksum of the brief that the states belong to
    revealed: tuple[tuple[int, str], ...] = ()  # of the last rounds: for which sum it has revealed shares


class Memory:
    """The folder of one site: a folder per run in it. Without a folder nothing outlives the process."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            make_private(folder)
            with told(folder):
                self._lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)  # held until the process ends
                fcntl.flock(self._lock, fcntl.LOCK_EX)  # a relaunched process waits for the last one to be gone

    def close(self) -> None:
        """Lets another process have the folder."""
        if self.folder is not None:
            os.close(self._lock)

    @functools.cached_property
    def secret(self) -> bytes:
        """This site's own, made at the first use and kept: who has it has the masks and the noise of all its replies."""
        path = None if self.folder is None else self.folder / SECRET
        if path is None:
            return secrets.token_bytes(SECRET_BYTES)
        with told(path):
            if not path.exists():
                write_whole(path, secrets.token_bytes(SECRET_BYTES))
            found = path.read_bytes()
        require(len(found) == SECRET_BYTES, str(path), f"{len(found)} bytes", f"must have {SECRET_BYTES} bytes", "remove it")
        return found

    def place(self, run: bytes) -> Path | None:
        return None if self.folder is None else self.folder / run.hex()

    def save_brief(self, run: bytes, client: int, text: str) -> None:
        place = self.place(run)
        if place is not None:
            make_private(place)
            write_whole(place / BRIEF, stamped({"client": client, "brief": text}).encode())

    def load_brief(self, run: bytes) -> tuple[int, str] | None:
        """(the client's number, the brief); None where it is not known, or damaged: the server tells it again with a hello, and
        `Memo.brief` says whether it is the same."""
        place = self.place(run)
        path = None if place is None else place / BRIEF
        if path is None or not path.exists():
            return None
        try:
            content = unstamped(path.read_bytes())
            return as_whole(content["client"]), as_text(content["brief"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            with told(path):
                say(f"{path}: is damaged: {error}; asks the server for it" + set_aside(path))
            return None

    def save_shown(self, run: bytes, shown: PyTree) -> None:
        """Writes down the rows that the server shows, where it shows some: they come once."""
        place = self.place(run)
        if place is not None and jax.tree.leaves(shown):
            make_private(place)
            array_files.save(place / SHOWN, {"shown": shown}, {"format": FORMAT})

    def load_shown(self, run: bytes, like: PyTree) -> PyTree | None:
        """The rows that the server has shown; None where they are not known, or damaged: it shows them again with a hello."""
        place = self.place(run)
        if not jax.tree.leaves(like):
            return like
        if place is None or not (place / SHOWN).exists():
            return None
        try:
            arrays = array_files.ArrayFile(place / SHOWN, FORMAT, "").whole()
            return named_arrays.from_arrays(arrays, {"shown": like}, str(place / SHOWN))["shown"]
        except Damaged as error:
            say(f"{place / SHOWN}: {error.rule}; asks the server for it" + set_aside(place / SHOWN))
            return None

    def save(self, run: bytes, memo: Memo) -> None:
        """Writes the memo down; the one before it stays as the previous generation."""
        place = self.place(run)
        if place is None:
            return
        trees: dict[str, PyTree] = {"kept": memo.kept, "past": [_bytes(one.reply) for one in memo.past]}
        header = {"format": FORMAT, "kept": str(memo.round), "brief": memo.brief}
        header["past"] = json.dumps([[one.round, one.letter] for one in memo.past])
        if memo.pending is not None:
            trees["pending"], trees["reply"] = memo.pending.state, _bytes(memo.pending.reply)
            header |= {"pending": str(memo.pending.round), "letter": memo.pending.letter}
            header |= {key: value for key in ("question", "group") if (value := getattr(memo.pending, key))}
        if memo.revealed:
            header["revealed"] = json.dumps(memo.revealed)
        array_files.save(place / MEMORY, trees, header, keep_previous=True)

    def load(self, run: bytes, like: PyTree) -> Memo | None:
        """The memo whose states are shaped like `like`; None where there is none yet. Damaged where no generation is good: they
        are then set aside."""
        place = self.place(run)
        if place is None:
            return None
        path = place / MEMORY
        try:
            return read_generations(path, lambda path: _read(path, like), say)
        except Damaged as error:
            with told(path):
                aside = set_aside(path, previous(path))
            rule = f"is damaged{aside}: this site forgets the run and starts it anew; {error.rule}"
            say(f"{error.name}: {rule}")
            raise Damaged(MEMORY, NOTHING, rule) from None


def say(line: str) -> None:
    """A line in the site's own log."""
    print(line, file=sys.stderr, flush=True)


def _read(path: Path, like: PyTree) -> Memo:
    file = array_files.ArrayFile(path, FORMAT, "")
    arrays, words = file.whole(), file.words
    past: list[tuple[int, str]] = json.loads(words.get("past", "[]"))
    nothing = np.zeros(0, np.uint8)
    shape: dict[str, PyTree] = {"kept": like, "past": [arrays.get(f"past.{k}", nothing) for k in range(len(past))]}
    if "pending" in words:
        shape |= {"pending": like, "reply": arrays.get("reply", nothing)}
    found = named_arrays.from_arrays(arrays, shape, str(path))
    answered = [Answered(*one, reply.tobytes()) for one, reply in zip(past, found["past"], strict=True)]
    pending = None
    if "pending" in words:
        rest = (words.get(key, "") for key in ("letter", "question", "group"))
        pending = Pending(int(words["pending"]), found["pending"], found["reply"].tobytes(), *rest)
    revealed: list[tuple[int, str]] = json.loads(words.get("revealed", "[]"))
    told_of = tuple((number, split) for number, split in revealed)
    return Memo(int(words["kept"]), found["kept"], pending, tuple(answered), words.get("brief", ""), told_of)


def _bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)
