"""A frozen net inside the model: ZooPFL tunes what stands before it by values, and what stands behind it at each client.

The black box is a net of scikit-learn (16 hidden units, 10 outputs) that was trained once on a third of the digits, as another
organisation would have done it: their pixels are brighter by half a standard deviation, and their label 0 is our 3, their 1
our 4, and so on. Nobody here sees its weights or differentiates through it. The shifts that q can make are five: the whole
image, its upper and its left half, its centre, and a checkerboard.

    fedtier run --set method.name=zoopfl --set model.name=examples/black_box_inside.py:model
"""

from functools import cache

import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from fedtier.problem import Model
from fedtier.problem import remapped as around

BRIGHTER, RENAMED, SIDE = 0.5, 3, 8


@cache
def trained() -> list[tuple[np.ndarray, np.ndarray]]:
    """The weights of the black box, layer by layer."""
    digits = load_digits()
    inputs = (digits.data - digits.data.mean(axis=0)) / np.maximum(digits.data.std(axis=0), 1.0)
    net = MLPClassifier((16,), max_iter=1000, random_state=0, learning_rate_init=0.01)
    net.fit(inputs[::3] + BRIGHTER, (digits.target[::3] - RENAMED) % 10)
    return list(zip(net.coefs_, net.intercepts_, strict=True))


def model(features: int, classes: int) -> Model:
    """Our model: shift, black box, dense layer."""
    (w1, b1), (w2, b2) = trained()
    rows, columns = np.divmod(np.arange(features), SIDE)
    inside = (np.abs(rows - 3.5) < 2) & (np.abs(columns - 3.5) < 2)
    basis = np.stack([np.ones(features), rows < 4, columns < 4, inside, (rows + columns) % 2], axis=1).astype(np.float32)
    return around(lambda u: jnp.maximum(u @ w1 + b1[None], 0.0) @ w2 + b2[None], basis, outputs=10, classes=classes)
