"""Personal models by their client's name: in memory, or read from a file one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import jax
from jaxtyping import PyTree

from ...errors import FedtierError, nearest
from ...storage import named_arrays
from ...storage.array_files import ArrayFile

FORMAT = "fedtier-bundle-1"
HINT = "copy the bundle again, or write it anew: `fedtier resume RUN`"


class UnknownClient(FedtierError, KeyError):
    """No personal model has this name."""

    __str__ = Exception.__str__  # KeyError's own would quote the sentence


class Personal(Mapping[str, PyTree]):
    """The personal models that a bundle has; `why` says in words why it has none, or not all. `kept` is held as long as they
    are: what would remove their file."""

    def __init__(self, models: Mapping[str, PyTree], why: str = "", kept: object = None) -> None:
        self._models, self.why, self.kept = models, why, kept

    def keeping(self, kept: object) -> Personal:
        """The same models, which hold `kept`."""
        return Personal(self._models, self.why, kept)

    def __getitem__(self, client: str) -> PyTree:
        if client not in self._models:
            hint = nearest(str(client), self._models) if len(self._models) else self.why
            raise UnknownClient("client", client, "has no personal model in this bundle", hint)
        return self._models[client]

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    def __contains__(self, client: object) -> bool:
        return client in self._models

    def __repr__(self) -> str:
        some = ", ".join([*self._models][:5]) + ", ..." * (len(self._models) > 5)
        return f"Personal({len(self._models)} models: {some})" if len(self._models) else f"Personal(none: {self.why})"


class Stored(Mapping[str, PyTree]):
    """The models of one seed in a file whose leaves are [seeds, clients, ...]: each is read, and its
    checksum checked, when it is asked for."""

    def __init__(self, path: Path, names: tuple[str, ...], like: PyTree, seeds: int, s: int) -> None:
        self.path, self.like, self.s = path, like, s
        self.places = {name: i for i, name in enumerate(names)}
        lead = (seeds, len(names))
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((*lead, *leaf.shape), leaf.dtype), like)
        self.file = ArrayFile(path, FORMAT, HINT)
        self.file.require_shapes(shapes)

    def __getitem__(self, client: str) -> PyTree:
        return named_arrays.from_arrays(self.file.one((self.s, self.places[client])), self.like, str(self.path))

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, client: object) -> bool:
        return client in self.places
