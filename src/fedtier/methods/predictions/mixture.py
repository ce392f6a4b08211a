"""A client's own model and the global one together: p = (1 - a) y_i's probabilities + a x~, the share a chosen by the client.

    x~_c  in proportion to  x_c pi_c / q_c      pi: how often the client's own rows have class c, one row more of each class
                                                q:  how likely x thinks class c, on average over the rows that are shown

x has learnt from rows of all, and a client may have few classes: x~ is what x says where classes come as often as they do there
(Saerens, Latinne, Decaestecker, "Adjusting the Outputs of a Classifier to New a Priori Probabilities", Neural Computation
2002). A client knows both frequencies without being told: its own labels, and what x says of the rows that it is shown.
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
from .learners import outputs_at, shown_to

LEAST = 1e-6  # of a probability, where it divides or a logarithm is taken of it


class Mixed(NamedTuple):
    """A personal model that is two."""

    own: PyTree  # the client's own, whatever its learner keeps
    x: PyTree  # the global model
    share: Float[Array, ""]  # a
    odds: Float[Array, "C"]  # pi / q


def odds_of(model: Model, x: PyTree, view: View) -> Float[Array, "C"]:
    """pi / q of a client with the rows of `view`."""
    shown = shown_to(view)
    said = jnp.where(shown.known[:, None], jax.nn.softmax(outputs_at(model, x, shown)), 0.0)
    q = jnp.sum(said, axis=0) / jnp.maximum(jnp.sum(shown.known), 1)
    inside = jnp.arange(view.index.shape[0]) - view.start
    own = (inside >= 0) & (inside < view.size)
    counts = own.astype(jnp.float32) @ jax.nn.one_hot(view.arrays.labels[view.index], q.shape[0]) + 1.0
    return counts / jnp.sum(counts) / jnp.maximum(q, LEAST)


@jax.jit  # one program instead of a dozen, where nothing around it is compiled
def mixed(own: ArrayLike, x: ArrayLike, share: ArrayLike, odds: ArrayLike) -> Outputs:
    """The logarithm of p, from the outputs of both; at a = 0 the client's own outputs, to the bit."""
    own, x, share, odds = (jnp.asarray(a, jnp.float32) for a in (own, x, share, odds))
    p = (1.0 - share) * jax.nn.softmax(own) + share * jax.nn.softmax(x + jnp.log(odds)[None])
    return jnp.where(share > 0, jnp.log(jnp.maximum(p, LEAST)), own)


def predicting(model: Model, predict: Predict) -> Predict:
    """How a client predicts by a `Mixed`, where it predicts by its own model as `predict` says."""

    def of(y: Mixed, view: View) -> Callable[..., PyTree]:
        own = predict(y.own, view)
        return lambda inputs: mixed(own(inputs), model.apply(y.x, jnp.asarray(inputs)), y.share, y.odds)

    return of
