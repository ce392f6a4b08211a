"""The model and the loss that a configuration names, for the task of its data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..datasets import Dataset
from ..errors import FedtierError, require
from ..problem import Loss, Model, cnn, cross_entropy, huber_error, linear, mlp, scaled, softmax, squared_error
from .config import Config
from .own_code import is_own
from .own_models import own_model


def model_of(config: Config, dataset: Dataset) -> Model:
    """The model of [model], fed with scaled inputs: one output per class, or one number for a regression."""
    table, outputs, features = config.model, dataset.outputs, int(np.prod(dataset.shape))
    numeric = dataset.task == "regression"
    if is_own(table.name):
        return _fed(own_model(table, dataset), dataset)
    if numeric and table.name == "softmax":
        raise FedtierError("model.name", "softmax", "is for classes, but the label is a number", 'use "linear", "mlp" or "cnn"')
    makers: dict[str, Callable[[], Model]] = {
        "linear": lambda: linear(features, bias=table.bias) if numeric else softmax(features, outputs, bias=table.bias),
        "softmax": lambda: softmax(features, outputs, bias=table.bias),
        "mlp": lambda: mlp(features, outputs, table.hidden, table.depth, bias=table.bias),
        "cnn": lambda: cnn(outputs, _image_shape(dataset), bias=table.bias),
    }
    return _fed(makers[table.name](), dataset)


def _fed(model: Model, dataset: Dataset) -> Model:
    """The model with the scaling of its inputs in front, where they are not what it takes already."""
    return model if is_plain(dataset) else scaled(model, dataset.shift, dataset.scale)


def is_plain(dataset: Dataset) -> bool:
    """Whether rows are stored as a model takes them."""
    unscaled = np.all(np.asarray(dataset.shift) == 0) and np.all(np.asarray(dataset.scale) == 1)
    return bool(unscaled and dataset.inputs.dtype == np.float32)


def loss_of(config: Config, dataset: Dataset, model: Model) -> Loss:
    """The loss of [model]: cross entropy for classes, squared or Huber for numbers."""
    name = config.model.loss
    if dataset.task == "classification":
        fits = name in ("auto", "cross_entropy")
        require(
            fits,
            "model.loss",
            name,
            "is for a regression, but the label has classes",
            'data.task = "regression", or leave it out',
        )
        return cross_entropy(model)
    require(name != "cross_entropy", "model.loss", name, "is for classes, but the label is a number", '"squared" or "huber"')
    return huber_error(model, config.model.huber_width) if name == "huber" else squared_error(model)


def _image_shape(dataset: Dataset) -> tuple[int, int, int]:
    if len(dataset.shape) != 3:
        rule = f"needs images, {dataset.name} has rows of shape {dataset.shape}"
        raise FedtierError("model.name", "cnn", rule, "use linear or mlp")
    return dataset.shape
