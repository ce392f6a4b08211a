"""A client's own model and the global one together: log p = (1 - a) log y_i + a log x, up to a constant; the client chooses a.

y_i and x stand for probabilities, of which 2 % are dealt out evenly first, so that no model rules a class out for both. This
is the logarithmic opinion pool (Genest, Zidek, "Combining Probability Distributions", Statistical Science 1986). How often the
client has each class is in y_i already; to correct x for it as well, and the mean of the probabilities themselves, were tried
and gained less (docs/own-models.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from ...federation import View
from ...problem import Model
from ..method import Predict
from .divergences import Outputs

EVENLY = 0.02  # of each model's probability


class Mixed(NamedTuple):
    """A personal model that is two."""

    own: PyTree  # the client's own, whatever its learner keeps
    x: PyTree  # the global model
    share: Float[Array, ""]  # a


@jax.jit  # one program instead of a dozen, where nothing around it is compiled
def mixed(own: ArrayLike, x: ArrayLike, share: ArrayLike) -> Outputs:
    """log p up to a constant, from the outputs of both; at a = 0 the client's own outputs, to the bit."""
    own, x, share = (jnp.asarray(a, jnp.float32) for a in (own, x, share))
    pooled = (1.0 - share) * _log_shares(own) + share * _log_shares(x)
    return jnp.where(share > 0, pooled, own)


def _log_shares(outputs: Outputs) -> Outputs:
    return jnp.log((1 - EVENLY) * jax.nn.softmax(outputs) + EVENLY / outputs.shape[-1])


def predicting(model: Model, predict: Predict) -> Predict:
    """How a client predicts by a `Mixed`, where it predicts by its own model as `predict` says."""

    def of(y: Mixed, view: View) -> Callable[..., PyTree]:
        own = predict(y.own, view)
        return lambda inputs: mixed(own(inputs), model.apply(y.x, jnp.asarray(inputs)), y.share)

    return of
