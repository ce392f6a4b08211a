"""A client whose local solver is scikit-learn: one linear classifier per class, trained by SGDClassifier.partial_fit.

In the site's file:    solver = "sklearn_client:make"

It does not know fedtier: it gets the weights of a softmax regression by name, takes `steps` minibatches from there, and
gives its own weights back. The limits of the site (`radius`) hold all the same: what it returns is projected.
"""

import numpy as np
from sklearn.linear_model import SGDClassifier


class Linear:
    def __init__(self, inputs, labels, settings):
        self.inputs = inputs.reshape(len(inputs), -1)
        self.labels = labels
        self.classes = np.arange(settings["classes"])
        self.batch = min(settings.get("batch", 32), len(labels))

    def solve(self, x, steps, seed):
        rng = np.random.default_rng(seed)
        model = SGDClassifier(
            loss="log_loss", penalty=None, fit_intercept="bias" in x, learning_rate="constant", eta0=0.02, random_state=seed
        )
        model.partial_fit(self.inputs[:1], self.labels[:1], classes=self.classes)  # only to make room for the weights
        model.coef_ = x["weight"].copy()
        if "bias" in x:
            model.intercept_ = x["bias"].copy()
        for _ in range(steps):
            rows = rng.integers(0, len(self.labels), self.batch)
            model.partial_fit(self.inputs[rows], self.labels[rows])
        return {"weight": model.coef_} | ({"bias": model.intercept_} if "bias" in x else {})


def make(inputs, labels, settings):
    """inputs [N, ...] float32, already scaled; labels [N] from 0; settings: the run's [method], and `classes`."""
    return Linear(inputs, labels, settings)
