"""kNN-Per: a global model by FedAvg, and beside it each client's own rows as a memory.

Marfoq, Neglia, Vidal, Kameni, "Personalized Federated Learning through Local Memorization", ICML 2022,
https://arxiv.org/abs/2111.09360

    p_i(u)     <- lam_i knn_i(u) + (1 - lam_i) softmax(x; u)
    knn_i(u)_c <- sum_j exp(-|z(u) - z(u_j)|/s) / (sum over all classes)     j: those of class c among the k nearest of i's rows

z are the features of x, the output of its last hidden layer. lam_i is the best of 0, 0.1, ..., 1 by the accuracy on the
client's own training rows, each judged without itself (leave one out); of equals the smallest. Test rows have no part in it.
At lam_i = 0 it is FedAvg. The personal predictor is no model: it is x and the client's rows, which no message and no bundle
carries. Do not use it with linear models, which have no features, or where a prediction must be fast. State: none, beside
the rows.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ...errors import FedtierError, positive, whole
from ...federation import View
from ...problem import Bilevel, Rows
from ...problem.models import Inputs
from ..averaging.fedavg import LOCAL, Shared, Up, fedavg
from ..averaging.moon import features_of
from ..method import ClientSpec, Method, Turn
from ..solvers import ProjectedSgd

TENTHS = 10  # lam_i is one of 0, 1/TENTHS, ..., 1
LEAST = 1e-12  # a probability that is 0 has this logarithm


def knn_per(
    problem: Bilevel,
    *,
    neighbours: int = 10,
    stored: int = 1000,
    distance_scale: float | Float[Array, ""] = 1.0,
    local: ProjectedSgd = LOCAL,
    weighting: str = "data",
) -> Method:
    """kNN-Per on problem.f1 and problem.model, with k = `neighbours` and s = `distance_scale`; a client remembers at most
    `stored` rows, the first of its window; the rest is FedAvg's."""
    whole("neighbours", neighbours)
    whole("stored", stored)
    positive("distance_scale", distance_scale)
    features, model = features_of(problem, "knn_per"), problem.model
    assert model is not None
    base = fedavg(problem, local=local, weighting=weighting)

    def at_client(client: tuple, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[tuple, Up]:
        _check_classes(view)
        return base.local(client, shared, own, view, spec, turn)

    def predict(y: PyTree, view: View) -> Callable[[Inputs], Float[Array, "B K"]]:
        _check_classes(view)
        rows, known = _memory(view, stored)
        memory = features(y, rows.inputs)

        def votes(z: Float[Array, "B d"], usable: Bool[Array, "B M"], classes: int) -> Float[Array, "B K"]:
            squares = jnp.sum(z**2, axis=1)[:, None] - 2 * z @ memory.T + jnp.sum(memory**2, axis=1)[None]
            distance = jnp.where(usable, jnp.sqrt(jnp.maximum(squares, 0.0)), jnp.inf)
            near, which = jax.lax.top_k(-distance, min(neighbours, distance.shape[1]))
            best = jnp.where(jnp.isfinite(near[:, :1]), near[:, :1], 0.0)
            say = jnp.where(jnp.isfinite(near), jnp.exp((near - best) / distance_scale), 0.0)
            mine = jnp.sum(jax.nn.one_hot(rows.labels[which], classes) * say[:, :, None], axis=1)
            total = jnp.sum(say, axis=1, keepdims=True)
            return mine / jnp.where(total > 0, total, 1.0)

        outputs = model.apply(y, rows.inputs)
        others = known[None] & ~jnp.eye(known.shape[0], dtype=bool)
        lam = _best_share(votes(memory, others, outputs.shape[1]), jax.nn.softmax(outputs), jnp.asarray(rows.labels), known)

        def of(inputs: Inputs) -> Float[Array, "B K"]:
            shares = jax.nn.softmax(model.apply(y, inputs))
            usable = jnp.broadcast_to(known[None], (shares.shape[0], known.shape[0]))
            mixed = lam * votes(features(y, inputs), usable, shares.shape[1]) + (1 - lam) * shares
            return jnp.log(jnp.maximum(mixed, LEAST))  # a logit per class, as of any model

        return of

    return base._replace(
        name="knn_per",
        local=at_client,
        personal_model=lambda client, x, view, spec, turn: x,
        predict=predict,
        stored=stored,
    )


def _best_share(
    near: Float[Array, "M K"], shares: Float[Array, "M K"], labels: Int[Array, "M"], known: Bool[Array, "M"]
) -> Float[Array, ""]:
    """lam_i: the first of the shares with the most rows right; 0 where a client has no two rows."""

    def right(lam: Float[Array, ""]) -> Int[Array, ""]:
        return jnp.sum((jnp.argmax(lam * near + (1 - lam) * shares, axis=1) == labels) & known)

    tried = jnp.arange(TENTHS + 1) / TENTHS
    best = tried[jnp.argmax(jax.vmap(right)(tried))]
    return jnp.where(jnp.sum(known) > 1, best, 0.0)


def _memory(view: View, most: int) -> tuple[Rows, Bool[Array, "M"]]:
    """The first rows of the window, so many or all there are, and which of these places hold a row."""
    places = jnp.arange(min(most, view.index.shape[0]))
    known = places < view.size
    rows = view.index[view.start + jnp.where(known, places, 0)]
    return jax.tree.map(lambda a: a[rows], view.arrays), known


def _check_classes(view: View) -> None:
    kind = view.arrays.labels.dtype
    if not jnp.issubdtype(kind, jnp.integer):
        raise FedtierError("labels", str(kind), "knn_per needs classes", "ditto, or fedavg with fine_tune, for numbers")
