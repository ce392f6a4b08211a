"""The model and the loss that a configuration names, for the task of its data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import numpy as np

from ..datasets import Dataset
from ..errors import FedtierError, require
from ..own_code.naming import Place, is_own, is_path
from ..problem import (
    Loss,
    Model,
    cnn,
    cross_entropy,
    halved,
    huber_error,
    lenet,
    linear,
    logistic,
    mlp,
    pfl_cnn,
    residual,
    scaled,
    softmax,
    squared_error,
    zo_cnn,
    zo_cnn_wide,
)  # fmt: skip
from ..storage.json_value import Json, as_text
from .own_models import own_model
from .tables import Config, ModelTable

NETS: dict[str, Callable[..., Model]] = {
    "cnn": cnn, "lenet": lenet, "pfl_cnn": pfl_cnn, "zo_cnn": zo_cnn, "zo_cnn_wide": zo_cnn_wide, "residual": residual,
}  # fmt: skip
"""For images."""


class Recipe(NamedTuple):
    """How to build a model: what [model] says, and the form of its inputs and outputs."""

    table: Mapping[str, Json]  # the keys of [model]
    shape: tuple[int, ...]  # of one row, as the model sees it
    outputs: int  # one per class, or 1 for a regression
    task: Literal["classification", "regression"]

    def build(self) -> Model:
        """The model, fed with inputs that are scaled already."""
        table, outputs, features = ModelTable.model_validate(self.table), self.outputs, math.prod(self.shape)
        numeric = self.task == "regression"
        if is_own(table.name):
            return own_model(table, self.shape, outputs)
        if numeric and table.name == "softmax":
            hint = 'use "linear", "mlp" or "cnn"'
            raise FedtierError("model.name", "softmax", "is for classes, but the label is a number", hint)
        makers: dict[str, Callable[[], Model]] = {
            "linear": lambda: linear(features, bias=table.bias) if numeric else softmax(features, outputs, bias=table.bias),
            "softmax": lambda: softmax(features, outputs, bias=table.bias),
            "logistic": lambda: _logistic(features, outputs, numeric, table.bias),
            "mlp": lambda: mlp(features, outputs, table.hidden, table.depth, bias=table.bias),
        }
        if table.name in makers:
            return makers[table.name]()
        shape = _image_shape(table.name, self.shape)
        try:
            return NETS[table.name](outputs, shape, bias=table.bias)
        except FedtierError as error:
            if error.name != "shape":
                raise
            last = shape[2] < min(shape[:2])  # (height, width, channels)
            hint = "put the channels first: numpy.moveaxis(images, -1, 1)" if last else "mlp; cnn for sides of 8 or more"
            raise FedtierError("model.name", table.name, f"its images {error.rule}, these rows are {shape}", hint) from None


def _logistic(features: int, outputs: int, numeric: bool, bias: bool) -> Model:
    found = "a number" if numeric else f"one of {outputs} classes"
    rule = f"is for two classes, but the label is {found}"
    require(outputs == 2 and not numeric, "model.name", "logistic", rule, 'use "linear"')
    return logistic(features, bias=bias)


def recipe_of(config: Config, dataset: Dataset) -> Recipe:
    """The recipe of the model that `config` trains on `dataset`."""
    task = "regression" if dataset.task == "regression" else "classification"
    return Recipe(absolute(config.model.model_dump()), dataset.shape, dataset.outputs, task)


def absolute(table: dict[str, Json]) -> dict[str, Json]:
    """[model] with the file of a model of one's own by its whole path, so that it is found from anywhere on this machine."""
    word = as_text(table["name"])
    if not is_path(word):
        return table
    file, name = Place.of(word)
    return table | {"name": f"{file.absolute()}:{name}"}


def model_of(config: Config, dataset: Dataset) -> Model:
    """The model of [model], fed with scaled inputs: one output per class, or one number for a regression."""
    return _fed(recipe_of(config, dataset).build(), dataset)


def trained_model_of(config: Config, dataset: Dataset, model: Model) -> Model:
    """`model`, that of `model_of`, as steps compute it: with the digits of model.precision."""
    return model if config.model.precision == "full" else _fed(halved(recipe_of(config, dataset).build()), dataset)


def _fed(model: Model, dataset: Dataset) -> Model:
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


def _image_shape(name: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise FedtierError("model.name", name, f"needs images, but rows have the shape {shape}", "use linear or mlp")
    return shape
