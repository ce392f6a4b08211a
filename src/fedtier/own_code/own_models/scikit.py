"""scikit-learn's classifiers as they are, and others with its interface: XGBoost's and LightGBM's.

The guidance becomes rows: each row that the server shows stands once for every class that its model thinks likely, with that
share as its weight. All of them together weigh `guidance.weight` times what the client's own rows do. Every fit starts anew.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.base import clone

from ...errors import FedtierError
from ...problem import Rows
from .contract import Guidance

LIKELY = 0.05  # a share from which a class has a row of its own


class Scikit:
    """A classifier with fit(X, y, sample_weight) and predict_proba(X)."""

    def __init__(self, estimator: Any) -> None:
        takes = "sample_weight" in inspect.signature(estimator.fit).parameters
        if not (takes and hasattr(estimator, "predict_proba")):
            rule = "must take sample_weight in fit, and have predict_proba"
            raise FedtierError("clients.models", type(estimator).__name__, rule, "RandomForestClassifier, for example")
        self.estimator = estimator
        self.known, self.classes = np.zeros(0, int), 0

    def fit(self, rows: Rows, guidance: Guidance) -> None:
        inputs, labels, weights = flat(np.asarray(rows.inputs)), np.asarray(rows.labels), np.ones(len(rows.labels))
        if guidance.weight > 0:
            which, taught = np.nonzero(guidance.shares >= LIKELY)
            shares = guidance.shares[which, taught]
            share = guidance.weight * len(labels) / shares.sum()
            inputs = np.concatenate([inputs, flat(guidance.inputs)[which]])
            labels, weights = np.concatenate([labels, taught]), np.concatenate([weights, share * shares])
        self.known, coded = np.unique(labels, return_inverse=True)
        self.classes, self.estimator = guidance.classes, seeded(clone(self.estimator), guidance.seed)
        if len(self.known) > 1:
            self.estimator.fit(inputs, coded, sample_weight=weights)

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        shares = np.zeros((len(inputs), self.classes))
        shares[:, self.known] = self.estimator.predict_proba(flat(inputs)) if len(self.known) > 1 else 1.0
        return shares


def seeded(estimator: Any, seed: int) -> Any:
    """The estimator with its draws from this seed, where it draws."""
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=seed % 2**31)
    return estimator


def flat(inputs: np.ndarray) -> np.ndarray:
    """[N, features]."""
    return np.asarray(inputs).reshape(len(inputs), -1)
