"""MOON: model-contrastive federated learning.

Li, He, Song, "Model-Contrastive Federated Learning", CVPR 2021, https://arxiv.org/abs/2103.16257

    con(y; u) = -log( e^{cos(z_y, z_x)/T} / (e^{cos(z_y, z_x)/T} + e^{cos(z_y, z_prev)/T}) )      z: features of input u
    y_i <- y_i - tilde_gamma_t grad (f1 + mu mean con)(y_i, zeta_t)     from y_i = x, H_i times; then averaged as in FedAvg
    prev_i <- y_i

The term pulls a client's features towards those of the global model and away from those of its own last model; the gradient
goes through z_y alone. At mu = 0, and where prev_i = x (a client's first turn), it is FedAvg. T = 0.5; mu in 0.1, 1, 5, 10
in the paper. Features are the output of the last hidden layer; the paper's nets have a projection head after it, which is a
matter of the model. A step costs three forward passes. Do not use it with linear models: they have no features. State: one
model per client.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ... import keys, trees
from ...errors import FedtierError, not_negative, positive
from ...federation import View
from ...keys import Tag
from ...problem import Bilevel, Rows
from ...problem.models import Features
from ..method import ClientSpec, Method, Turn
from ..personal import PersonalRule
from ..solvers import ProjectedSgd
from .fedavg import LOCAL, PERSONAL, Shared, Up, fedavg


class Client(NamedTuple):
    previous: PyTree  # prev_i [n]


def moon(
    problem: Bilevel,
    *,
    contrast: float | Float[Array, ""] = 1.0,
    temperature: float | Float[Array, ""] = 0.5,
    local: ProjectedSgd = LOCAL,
    weighting: str = "data",
    personal: PersonalRule = PERSONAL,
) -> Method:
    """MOON on problem.f1 and problem.model's features with mu = `contrast` and T = `temperature`; the rest is FedAvg's."""
    not_negative("contrast", contrast)
    positive("temperature", temperature)
    features = features_of(problem, "moon")
    base = fedavg(problem, local=local, weighting=weighting, personal=personal)

    def loss(y: PyTree, rows: Rows, x: PyTree, previous: PyTree) -> Float[Array, ""]:
        ours, theirs, last = (_unit(features(model, rows.inputs)) for model in (y, x, previous))
        away = (jnp.sum(ours * last, axis=1) - jnp.sum(ours * theirs, axis=1)) / temperature
        return problem.f1(y, rows) + contrast * jnp.mean(jax.nn.softplus(away))  # -log(e^a/(e^a + e^b)) = softplus(b - a)

    def at_client(client: Client, shared: Shared, own: tuple, view: View, spec: ClientSpec, turn: Turn) -> tuple[Client, Up]:
        def gradient(y: PyTree, rows: Rows) -> PyTree:
            return jax.grad(loss)(y, rows, shared.x, client.previous)

        y = local.descend(gradient, shared.x, view, spec, turn.steps, keys.at(turn.key, Tag.SOLVE))
        return Client(trees.where(turn.steps > 0, y, client.previous)), Up(trees.sub(y, shared.x))

    return base._replace(name="moon", client_init=lambda x, spec: Client(x), local=at_client, foreign=False)


def features_of(problem: Bilevel, name: str) -> Features:
    """The features of the problem's model; refused where it has none."""
    model = problem.model
    if model is None or model.features is None:
        shown = "none" if model is None else model.name
        raise FedtierError("model", shown, f"{name} needs a model with features", "mlp, cnn, lenet, pfl_cnn or residual")
    return model.features


def _unit(z: Float[Array, "B d"]) -> Float[Array, "B d"]:
    square = jnp.sum(z**2, axis=1, keepdims=True)
    return z / jnp.sqrt(jnp.where(square > 0, square, 1.0))  # behind a ReLU all features may be 0
