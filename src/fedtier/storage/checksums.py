"""The checksum of everything that is kept: SHA-256, cut to 32 letters, against damage and not against people.

Lines and files of JSON carry theirs as a last key, over the letters before it:

    {"round": 3, "f1": 0.25, "checksum": "0f3a..."}
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from .json_value import Json

LETTERS = 32
KEY = "checksum"
_STAMP = re.compile(rb'(.*), "%s": "([0-9a-f]{%d})"\}' % (KEY.encode(), LETTERS), re.DOTALL)
_SUM = re.compile(f"[0-9a-f]{{{LETTERS}}}")


def checksum(*parts: bytes | bytearray | memoryview) -> str:
    """Of bytes, one after the other."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()[:LETTERS]


def stamped(content: Mapping[str, object], indent: int | None = None) -> str:
    """`content`, which is not empty, as JSON with its checksum; one line unless indented."""
    text = json.dumps(content, indent=indent)[:-1].rstrip()
    return f'{text}, "{KEY}": "{checksum(text.encode())}"}}'


def unstamped(data: bytes) -> dict[str, Json]:
    """The content of `stamped`; ValueError when a byte of it has changed. What never had a checksum is taken as it is."""
    content = json.loads(data)
    if not isinstance(content, dict):
        raise ValueError("it must be one object")
    last = next(reversed(content.values()), None)
    if KEY not in content and not (isinstance(last, str) and _SUM.fullmatch(last)):  # one byte cannot change both
        return content
    found = _STAMP.fullmatch(data)
    if found is None or checksum(found[1]) != found[2].decode():
        raise ValueError("its checksum does not hold")
    del content[KEY]
    return content


def is_overlong(tail: bytes) -> bool:
    """Whether `tail`, the end of a file of stamped lines after its last line break, is a whole line and more: no crash leaves
    that, so its line break has been damaged."""
    return any(found.end() < len(tail) for found in _STAMP.finditer(tail))
