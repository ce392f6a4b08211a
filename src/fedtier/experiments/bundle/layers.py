"""A built-in model as a list of layers, for those who rebuild it elsewhere: plain NumPy, ONNX."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import PyTree

from ...errors import FedtierError
from ...own_code.own_models.contract import OwnModel
from ...problem.models import Convolutional
from .bundle import Bundle


class Dense(NamedTuple):
    """inputs @ weight.T + bias, of flat rows."""

    weight: np.ndarray  # [out, in]
    bias: np.ndarray  # [out]
    relu: bool  # followed by max(0, .)


class Convolution(NamedTuple):
    """A 3x3 convolution with zeros beyond the border, then 2x2 pooling (an odd last row or column is left out), then ReLU."""

    kernel: np.ndarray  # [out, channels, 3, 3]
    bias: np.ndarray  # [out]


Layer = (
    Dense | Convolution
)  # between the last convolution and the first dense layer, rows are flattened as [height, width, channels]


def layers_of(bundle: Bundle, client: str | None = None) -> list[Layer]:
    """The layers of the global model, or of a client's; refuses a model that has no export."""
    parameters, name = bundle.parameters(client), str(bundle.about.recipe.table["name"])
    if client is not None and isinstance(parameters, OwnModel):
        rule = "is a model of the client's own, which has no export"
        raise FedtierError("--client", client, rule, "fedtier predict RUN ROWS --client NAME uses it as it is")
    if name in ("linear", "softmax"):
        return [_dense(parameters.weight, parameters.bias)]
    if name == "logistic":  # class 0 has the logit 0
        dense = _dense(parameters.weight, parameters.bias)
        return [Dense(np.pad(dense.weight, ((1, 0), (0, 0))), np.pad(dense.bias, (1, 0)), relu=False)]
    if name == "mlp":
        *hidden, last = parameters.layers
        return [*(_dense(one.weight, one.bias, relu=True) for one in hidden), _dense(last.weight, last.bias)]
    if name == "cnn":
        return _convolutional(parameters)
    raise FedtierError("model.name", name, "has no export", "linear, softmax, logistic, mlp and cnn have one")


def _convolutional(parameters: Convolutional) -> list[Layer]:
    layers: list[Layer] = []
    for kernel, bias in zip(parameters.kernels, parameters.biases, strict=True):
        out = kernel.shape[1]
        patches = np.asarray(kernel).reshape(3, 3, -1, out)  # a patch is stored place by place, each with all channels
        layers.append(Convolution(patches.transpose(3, 2, 0, 1), _or_zeros(bias, out)))
    return [*layers, _dense(parameters.weight, parameters.bias)]


def _dense(weight: PyTree, bias: PyTree | None, *, relu: bool = False) -> Dense:
    return Dense(np.asarray(weight), _or_zeros(bias, len(weight)), relu)


def _or_zeros(bias: PyTree | None, size: int) -> np.ndarray:
    return np.zeros(size, np.float32) if bias is None else np.asarray(bias)
