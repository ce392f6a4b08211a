"""A model of the user's own: a function that makes one for the sizes of the data, or an object of the program.

What it makes, or is, may be a `Model`, an Equinox module over one row, or a PyTorch module over a batch.
"""

from __future__ import annotations

import inspect
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from ..errors import FedtierError, require
from ..own_code.by_path import calling, find, model_options
from ..own_code.held import Held
from ..own_code.naming import short
from ..own_code.torch_models import from_torch, is_torch
from ..problem import Model, from_equinox
from .tables import ModelTable


def own_model(table: ModelTable, shape: tuple[int, ...], outputs: int) -> Model:
    """The model that model.name stands for, one output for each that the data ask for."""
    made = table.name.value if isinstance(table.name, Held) else None
    if made is None or inspect.isroutine(made):
        made = _made(table, shape, outputs)
    model = as_model(made, short(table.name))
    _check_outputs(model, str(table.name), shape, outputs)
    return model


def _made(table: ModelTable, shape: tuple[int, ...], outputs: int) -> object:
    word = table.name
    make, options = find("model.name", word), model_options(word)
    known = {"features": math.prod(shape), "shape": shape, "outputs": outputs, "classes": outputs}
    asked = {name: known[name] for name in inspect.signature(make).parameters if name in known and name not in options}
    given = {key: getattr(table, key) for key in options if hasattr(table, key)}
    with calling("model.name", word):
        return make(**asked, **given)


def as_model(made: object, name: str) -> Model:
    """`made` as a Model; refused where it is none of the three kinds."""
    if isinstance(made, Model):
        return made
    if isinstance(made, eqx.Module):

        def same(key: Key[Array, ""]) -> eqx.Module:
            return made

        return from_equinox(name, same)
    if is_torch(made):
        return from_torch(made, name)  # pyright: ignore[reportArgumentType]  `is_torch` has looked
    hint = "return Model(name, init, apply), an Equinox module over one row, or a PyTorch nn.Module"
    raise FedtierError("model", type(made).__name__, "is no model", hint)


def _check_outputs(model: Model, word: str, shape: tuple[int, ...], outputs: int) -> None:
    """Tries the model on two rows, without computing anything."""
    rows = jax.ShapeDtypeStruct((2, *shape), np.float32)
    with calling("model.name", word):
        found = jax.eval_shape(lambda key, inputs: model.apply(model.init(key), inputs), jax.random.key(0), rows).shape
    rule = f"gives outputs of shape {found[1:]} for a row, the data ask for {outputs}"
    require(found == (2, outputs), "model.name", word, rule, "one number for each class, or one for a regression")


def is_start(table: ModelTable) -> bool:
    """Whether the program gave an array to start from, of a problem that has nothing to predict."""
    return isinstance(table.name, Held) and isinstance(table.name.value, np.ndarray | jax.Array)


def start_of(table: ModelTable, otherwise: Array) -> Array:
    """The array to start from."""
    return jnp.asarray(table.name.value, jnp.float32) if isinstance(table.name, Held) and is_start(table) else otherwise
