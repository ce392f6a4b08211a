"""What a model of a client's own must offer, and what it gets."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from ...errors import FedtierError, require
from ...problem import Rows

LEAST = 1e-6  # of a probability, where a logarithm is taken of it


class Guidance(NamedTuple):
    """What a client is told beside its own rows, in each fit."""

    inputs: np.ndarray  # [P, ...]: the rows that the server shows, prepared as its own are
    shares: np.ndarray  # [P, C]: how likely each class is, by the server's model
    weight: float  # mu: how much they count beside the client's own rows, all of either together; 0: not at all
    classes: int  # C
    steps: int  # H: how much work it may do; what a step is, is the model's own business
    seed: int  # for its draws: with the same arguments it must come to the same model


@runtime_checkable
class OwnModel(Protocol):
    """A client's own model. What it keeps between two fits is what it keeps when it is pickled."""

    def fit(self, rows: Rows, guidance: Guidance) -> object:
        """Fits the model; what is returned does not matter."""
        ...

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        """[B, C] probabilities of the classes."""
        ...


def require_model(key: str, made: object) -> OwnModel:
    """`made` as a model; refused where it lacks one of the two functions."""
    if not isinstance(made, OwnModel):
        hint = "def fit(self, rows, guidance) and def predict_proba(self, inputs)"
        raise FedtierError(key, type(made).__name__, "is no model: it must have fit and predict_proba", hint)
    return made


def logits_of(found: object, rows: int, classes: int, what: str) -> tuple[np.ndarray, np.ndarray]:
    """(logits [rows, classes], of which rows something is said), from what predict_proba returned."""
    shares = np.asarray(found, np.float32)
    rule = f"predict_proba must return the shape ({rows}, {classes}): a probability for each class of each row"
    require(shares.shape == (rows, classes), what, f"shape {shares.shape}", rule)
    said = np.asarray(np.isfinite(shares).all(axis=1))
    return np.log(np.maximum(np.where(said[:, None], shares, 1.0), LEAST)), said
