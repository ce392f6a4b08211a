"""Metrics beyond accuracy, by scikit-learn, and the user's own: each a number for some rows, from what was predicted for them.

Where rows have weights, each metric is the weighted one: scikit-learn's sample_weight.

A metric of one's own is a function metric(truth, predicted) -> number, which may take probabilities as a third and weights as a
fourth argument. It gets names of classes, or numbers in the label's own unit; probabilities are [N, classes],
None for a regression; weights are [N], None where rows have none. Larger is better unless the function has an attribute
`larger_is_better = False`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..datasets.preparation import Label
from ..errors import FedtierError, choice
from ..own_code import by_path, naming

BINS = 10  # of equal width, in which the calibration error compares confidence and accuracy


class Rows(NamedTuple):
    """Some rows, what is true of them, and what a model says."""

    truth: np.ndarray  # [N] codes of the classes, or numbers in the label's own unit
    predicted: np.ndarray  # [N] likewise
    probabilities: np.ndarray | None  # [N, K]; None for a regression
    label: Label
    weights: np.ndarray | None = None  # [N] how much each row counts; None: all alike


class Judge(NamedTuple):
    """A metric."""

    name: str
    task: Literal["classification", "regression", "any"]
    larger: bool  # is a larger number better?
    of: Callable[[Rows], float]

    def __call__(self, rows: Rows) -> float:
        """NaN where it is not defined: the AUC of rows of one class, for example, or of no rows."""
        if not len(rows.truth) or (rows.weights is not None and not rows.weights.any()):
            return float("nan")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # classes that these rows do not have
            return float(self.of(rows))


def _auc(rows: Rows) -> float:
    """The mean over the classes that these rows have, each against the rest: of two classes the usual AUC. NaN where all rows
    are of one class. scikit-learn's own mean wants every class of the model among the rows, which few clients have."""
    from sklearn.metrics import roc_auc_score

    found, probabilities = np.unique(rows.truth), _known(rows.probabilities)
    if len(found) < 2:
        return float("nan")
    return float(np.mean([roc_auc_score(rows.truth == k, probabilities[:, k], sample_weight=rows.weights) for k in found]))


def _calibration_error(rows: Rows) -> float:
    """The mean distance of confidence and accuracy over BINS bins of the confidence, each row counting once, or by its weight
    (Naeini, Cooper, Hauskrecht, 2015). scikit-learn's calibration_curve has neither more than two classes nor the size of the
    bins."""
    confidence = _known(rows.probabilities).max(axis=1)
    right = rows.predicted == rows.truth
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    weights = np.ones(len(right)) if rows.weights is None else rows.weights
    gaps = np.bincount(bins, weights * (right - confidence), minlength=BINS)
    return float(np.abs(gaps).sum() / weights.sum())


def _known(probabilities: np.ndarray | None) -> np.ndarray:
    assert probabilities is not None
    return probabilities


def _of(name: str, **options: str | int) -> Callable[[Rows], float]:
    """scikit-learn's function of this name, from the true and the predicted labels."""

    def judge(rows: Rows) -> float:
        import sklearn.metrics

        return getattr(sklearn.metrics, name)(rows.truth, rows.predicted, sample_weight=rows.weights, **options)

    return judge


def _log_loss(rows: Rows) -> float:
    from sklearn.metrics import log_loss

    classes = range(len(rows.label.classes))
    return log_loss(rows.truth, _known(rows.probabilities), labels=classes, sample_weight=rows.weights)


JUDGES = {
    judge.name: judge
    for judge in (
        Judge("accuracy", "classification", True, _of("accuracy_score")),
        Judge("balanced_accuracy", "classification", True, _of("balanced_accuracy_score")),
        Judge("macro_f1", "classification", True, _of("f1_score", average="macro", zero_division=0)),
        Judge("auc", "classification", True, _auc),
        Judge("log_loss", "classification", False, _log_loss),
        Judge("calibration_error", "classification", False, _calibration_error),
        Judge("rmse", "regression", False, _of("root_mean_squared_error")),
        Judge("mae", "regression", False, _of("mean_absolute_error")),
        Judge("r2", "regression", True, _of("r2_score")),
    )
}


def check_names(words: Sequence[str]) -> None:
    """Refuses a metric that is neither ours nor a function of the user's; loads the user's file."""
    for word in words:
        if naming.is_own(word):
            by_path.find("run.metrics", word)
        else:
            choice("run.metrics", word, JUDGES)


def judges_of(words: Sequence[str], task: str) -> list[Judge]:
    """The metrics that these words name; refuses one that the task does not have."""
    found = [_own(word) if naming.is_own(word) else JUDGES[word] for word in words]
    for judge in found:
        if judge.task not in ("any", task):
            known = ", ".join(name for name, one in JUDGES.items() if one.task == task)
            raise FedtierError("run.metrics", judge.name, f"is for a {judge.task}, this is a {task}", f"known: {known}")
    return found


def _own(word: str) -> Judge:
    function = by_path.find("run.metrics", word)
    count = len(inspect.signature(function).parameters)

    def judge(rows: Rows) -> float:
        names = np.asarray(rows.label.classes)
        truth, predicted = (names[a] if len(names) else a for a in (rows.truth, rows.predicted))
        with by_path.calling("run.metrics", word):
            return float(function(*(truth, predicted, rows.probabilities, rows.weights)[:count]))

    return Judge(naming.short(word), "any", bool(getattr(function, "larger_is_better", True)), judge)
