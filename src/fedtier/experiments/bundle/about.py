"""bundle.json: all that a bundle knows besides its arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ...datasets import Preparation
from ...errors import NOTHING, FedtierError, require
from ...storage.checksums import stamped, unstamped
from ...storage.json_value import Json, as_list, as_object, as_text, as_whole
from ..models import Recipe
from .rows import Reading
from .stored import FORMAT, HINT

FILE = "bundle.json"


class About(NamedTuple):
    """What a bundle is of. Seeds are in the order of the arrays."""

    recipe: Recipe
    preparations: dict[int, Preparation]  # by seed
    clients: tuple[str, ...] = ()  # whose personal models are in it
    why: str = ""  # why personal models are missing, in words
    has_global: bool = True  # whether there is a global model
    reading: Reading = Reading()
    tables: Mapping[str, Json] = MappingProxyType({})  # the configuration, for what is done with the model later; {}: none
    parts: Mapping[str, Json] = MappingProxyType({})  # of the method, where a program gave them as objects (`parts`)
    steps: int = 0  # local steps of a personal model
    round: int = 0  # after which the models are as they are
    diverged: tuple[int, ...] = ()  # seeds that have no end, hence no model
    data: Mapping[str, Json] = MappingProxyType({})  # name, digest, citation, licence
    versions: Mapping[str, Json] = MappingProxyType({})

    @property
    def seeds(self) -> tuple[int, ...]:
        """In the order of the arrays."""
        return tuple(self.preparations)

    def to_json(self) -> bytes:
        """What `read` reads back."""
        content = self._asdict() | {
            "format": FORMAT, "recipe": self.recipe._asdict(), "reading": self.reading._asdict(),
            "tables": dict(self.tables), "parts": dict(self.parts), "data": dict(self.data), "versions": dict(self.versions),
            "preparations": {str(seed): json.loads(one.to_json()) for seed, one in self.preparations.items()},
        }  # fmt: skip
        return stamped(content, indent=1).encode()

    @classmethod
    def read(cls, folder: Path) -> About:
        """Of a bundle's folder; refuses a file that `to_json` has not written."""
        path = folder / FILE
        try:
            content = unstamped(path.read_bytes())
            rule = f"must be of format {FORMAT}"
            require(content.pop("format", None) == FORMAT, str(path), NOTHING, rule, "is it from another version of fedtier?")
            return _about(content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, FedtierError):
                raise
            raise FedtierError(str(path), NOTHING, f"is damaged: {error}", HINT) from None


def _about(content: dict[str, Json]) -> About:
    odd = content.keys() - {*About._fields}
    if odd:
        raise ValueError(f"it has unknown keys: {', '.join(sorted(odd))}")
    told = _DEFAULTS | content
    return About(
        _recipe(as_object(content["recipe"])),
        {int(seed): Preparation.from_json(json.dumps(one)) for seed, one in as_object(content["preparations"]).items()},
        clients=_texts(content["clients"]),
        why=as_text(told["why"]),
        has_global=bool(told["has_global"]),
        reading=_reading(as_object(content["reading"])),
        tables=as_object(told["tables"]),
        parts=as_object(told["parts"]),
        steps=as_whole(told["steps"]),
        round=as_whole(told["round"]),
        diverged=tuple(map(as_whole, as_list(content["diverged"]))),
        data=as_object(told["data"]),
        versions=as_object(told["versions"]),
    )


# What a file that was written before there was such a key leaves out.
_DEFAULTS: dict[str, Json] = {
    "why": "", "has_global": True, "tables": {}, "parts": {}, "steps": 0, "round": 0, "data": {}, "versions": {},
}  # fmt: skip


def _recipe(content: dict[str, Json]) -> Recipe:
    task = as_text(content["task"])
    if task not in ("classification", "regression"):
        raise ValueError(f"{task!r} is no task of a model")
    shape = tuple(map(as_whole, as_list(content["shape"])))
    return Recipe(as_object(content["table"]), shape, as_whole(content["outputs"]), task)


def _reading(content: dict[str, Json]) -> Reading:
    size = content.get("image_size")
    decimal = as_text(content.get("decimal", ""))
    return Reading(
        _texts(content["columns"]), bool(content.get("header", True)), None if size is None else as_whole(size), decimal
    )


def _texts(content: Json) -> tuple[str, ...]:
    return tuple(map(as_text, as_list(content)))
