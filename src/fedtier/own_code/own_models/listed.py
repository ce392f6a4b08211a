"""The list in a run's folder, or a site's: which file is whose personal model, and what clients took that chose (`guard`).

    {"0": {"site-1": "e146729ccb38a8b3"}, "mixed": {"0": {"site-1": 0.3}}}

by seed and client. "mixed" has the share of the global model's word beside the client's own, 0 where it has learnt alone
(`mixture`); "taught", where that is the choice, whether the model is the one that was taught.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from ... import keys
from ...keys import Tag
from ...methods.method import Turn
from ...methods.predictions.mixture import Mixed
from ...problem import Rows
from .contract import Guidance, OwnModel
from .kept import OWN, Kept, hex_of, name_of, untaught

LIST = "own.json"
MIXED, TAUGHT = "mixed", "taught"


class Listed(NamedTuple):
    """What the list says of one personal model."""

    file: str
    key: str  # MIXED or TAUGHT
    taken: float | bool


def listed(y: PyTree, turn: Turn) -> Listed:
    """Of the personal model y that was made in this turn."""
    if isinstance(y, Mixed):
        return Listed(hex_of(name_of(np.asarray(y.own))), MIXED, round(float(y.share), 6))
    name, drawn = name_of(np.asarray(y)), name_of(np.asarray(jax.random.key_data(keys.at(turn.key, Tag.PERSONAL))))
    return Listed(hex_of(name), TAUGHT, name != untaught(drawn))


def text_of(models: Mapping[str, Mapping[str, Listed]], chosen: bool) -> bytes:
    """The list, of models by seed and client; with what was `chosen` where clients chose."""
    told: dict[str, Any] = {seed: {client: one.file for client, one in of.items()} for seed, of in models.items()}
    for seed, of in models.items() if chosen else ():
        for client, one in of.items():
            told.setdefault(one.key, {}).setdefault(seed, {})[client] = one.taken
    return json.dumps(told, indent=1).encode()


class WithGlobal(NamedTuple):
    """A client's own model whose word counts beside the global model's. The two functions are those of its own model alone."""

    own: OwnModel
    share: float

    def fit(self, rows: Rows, guidance: Guidance) -> object:
        return self.own.fit(rows, guidance)

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        return self.own.predict_proba(inputs)


class OwnStored(Mapping[str, OwnModel]):
    """Models of clients' own in a run's folder, each read when it is asked for. They are pickles: read them
    from runs of your own alone."""

    def __init__(self, folder: Path, names: Mapping[str, str], shares: Mapping[str, float]) -> None:
        self.kept, self.names, self.shares = Kept(folder), names, shares

    def __getitem__(self, client: str) -> OwnModel:
        word = self.names[client]
        model = self.kept.get((int(word[:8], 16), int(word[8:], 16)))
        share = self.shares.get(client, 0.0)
        return WithGlobal(model, share) if share else model

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, client: object) -> bool:
        return client in self.names


def own_models(run: Path, seed: int) -> Mapping[str, OwnModel]:
    """The clients' own models in a run's folder; none where it has none."""
    path = run / LIST
    if not path.is_file():
        return {}
    told = json.loads(path.read_bytes())
    return OwnStored(run / OWN, told[str(seed)], told.get(MIXED, {}).get(str(seed), {}))
