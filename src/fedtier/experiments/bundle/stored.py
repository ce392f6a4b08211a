"""Personal models by their client's name: in memory, or read from a file one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import jax
import numpy as np
import safetensors
from jaxtyping import PyTree

from ...errors import NOTHING, FedtierError, nearest
from ...storage import named_arrays

FORMAT = "fedtier-bundle-1"
HINT = "copy the bundle again, or write it anew: `fedtier resume RUN`"


class UnknownClient(FedtierError, KeyError):
    """No personal model has this name."""

    __str__ = Exception.__str__  # KeyError's own would quote the sentence


class Personal(Mapping[str, PyTree]):
    """The personal models that a bundle has; `why` says in words why it has none, or not all."""

    def __init__(self, models: Mapping[str, PyTree], why: str = "") -> None:
        self._models, self.why = models, why

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
    """The models of one seed in a file whose leaves are [seeds, clients, ...]: each is read when it is asked for."""

    def __init__(self, path: Path, names: tuple[str, ...], like: PyTree, seeds: int, s: int) -> None:
        self.path, self.like, self.s = path, like, s
        self.places = {name: i for i, name in enumerate(names)}
        lead = (seeds, len(names))
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((*lead, *leaf.shape), leaf.dtype), like)
        check_shapes(path, shapes)

    def __getitem__(self, client: str) -> PyTree:
        i = self.places[client]
        with safetensors.safe_open(self.path, framework="numpy") as file:
            names = file.keys()
            arrays = {name: np.asarray(file.get_slice(name)[self.s, i]) for name in names}
        return named_arrays.from_arrays(arrays, self.like, str(self.path))

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, client: object) -> bool:
        return client in self.places


def check_shapes(path: Path, like: PyTree) -> None:
    """Refuses a file whose arrays are not those of `like`; reads its header alone."""
    wanted = {name: list(leaf.shape) for name, leaf in named_arrays.named_leaves(like).items()}
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            words = file.metadata() or {}
            found = {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise FedtierError(str(path), NOTHING, "is not there, but bundle.json says that it is", HINT) from None
    except Exception as error:  # the parser raises many types
        raise FedtierError(str(path), NOTHING, f"is damaged: {error}", HINT) from None
    if words.get("format") != FORMAT:
        raise FedtierError(str(path), words.get("format"), f"must be of format {FORMAT}", HINT)
    if found != wanted:
        odd = next(name for name in sorted(found.keys() | wanted.keys()) if found.get(name) != wanted.get(name))
        rule = f"has {odd} as {found.get(odd)}, the model has {wanted.get(odd)}"
        raise FedtierError(str(path), NOTHING, rule, HINT)
