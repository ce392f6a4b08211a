"""What clients say together of the rows that are shown, and labels as predictions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ...federation import View
from .divergences import Outputs
from .learners import Said

EDGE = 0.05  # of a label as a prediction: what all other classes have together


def consensus(ups: Said, arrived: Bool[Array, "S"], before: Outputs) -> tuple[Outputs, Bool[Array, ""]]:
    """Row by row the mean of what was said of it, or `before` where nobody said anything; and whether anybody did."""
    said = ups.said & arrived[:, None]
    count = jnp.sum(said, axis=0)
    mean = jnp.sum(jnp.where(said[:, :, None], ups.outputs, 0.0), axis=0) / jnp.maximum(count, 1)[:, None]
    return jnp.where((count > 0)[:, None], mean, before), jnp.any(said)


def labels_as_outputs(view: View, rows: int, classes: int) -> Outputs:
    """The labels of the rows that are shown, as logits of a model that is almost sure of them."""
    places = jnp.minimum(jnp.arange(rows), view.size - 1)
    labels = view.arrays.labels[view.index[view.start + places]]
    sure = jax.nn.one_hot(labels, classes) * (1.0 - EDGE) + EDGE / max(classes, 1)
    return jnp.log(sure)
