"""bundle.json: all that a bundle knows besides its arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ...datasets import Preparation
from ...errors import NOTHING, FedtierError, require
from ...storage.checksums import stamped, unstamped
from ..models import Recipe
from .rows import Reading
from .stored import FORMAT, HINT

FILE = "bundle.json"
NONE: Mapping[str, Any] = MappingProxyType({})


class About(NamedTuple):
    """What a bundle is of. Seeds are in the order of the arrays."""

    recipe: Recipe
    preparations: dict[int, Preparation]  # by seed
    clients: tuple[str, ...] = ()  # whose personal models are in it
    why: str = ""  # why personal models are missing, in words
    has_global: bool = True  # whether there is a global model
    reading: Reading = Reading()
    tables: Mapping[str, Any] = NONE  # the configuration, for what is done with the model later; {} where there is none
    parts: Mapping[str, Any] = NONE  # of the method, where a program gave them as objects (`parts`)
    steps: int = 0  # local steps of a personal model
    round: int = 0  # after which the models are as they are
    diverged: tuple[int, ...] = ()  # seeds that have no end, hence no model
    data: Mapping[str, Any] = NONE  # name, digest, citation, licence
    versions: Mapping[str, Any] = NONE

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
            recipe = Recipe(**content.pop("recipe"))
            reading = Reading(**content["reading"] | {"columns": tuple(content["reading"]["columns"])})
            prepared = {int(seed): Preparation.from_json(json.dumps(one)) for seed, one in content["preparations"].items()}
            given = content | {
                "preparations": prepared, "reading": reading,
                "clients": tuple(content["clients"]), "diverged": tuple(content["diverged"]),
            }  # fmt: skip
            return cls(recipe._replace(shape=tuple(recipe.shape)), **given)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, FedtierError):
                raise
            raise FedtierError(str(path), NOTHING, f"is damaged: {error}", HINT) from None
