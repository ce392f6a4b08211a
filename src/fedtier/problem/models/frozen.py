"""A trained model of which a part is trained further, its head for example, and the rest stays as it is."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from ... import trees
from ...errors import called, require
from .leaves import check_rule, join, marks, split
from .model import Model


def frozen(model: Model, base: PyTree, trained: str = "head", *, anew: bool = False) -> Model:
    """`model` whose parameters are its part `trained` alone: "head", "body", "norm" or a pattern of names (`leaves`). The rest
    stays for ever what it is in `base`, parameters of a model that somebody has trained.

    The part starts as in `base`, or with `anew` from the model's own draw: then `model` may have another number of outputs
    than `base`. Messages, states and personal models hold the part alone.

    >>> bundle = ft.Bundle.load("runs/pretrained")
    >>> ft.train(ft.fedavg(), data, model=ft.frozen(bundle.network, bundle.model))
    """
    rule = "must be a Model, that of which `base` has the parameters"
    require(isinstance(model, Model), "model", type(model).__name__, rule, "frozen(bundle.network, bundle.model)")
    with called({"kept": "trained"}):
        check_rule(trained)
        shapes = jax.eval_shape(model.init, jax.random.key(0))
        chosen = marks(shapes, trained)
        require(not all(chosen), "trained", trained, "is the whole model: nothing would be frozen", "give the model itself")
        require(any(chosen), "trained", trained, f"is no part of {model.name}", f"its leaves: {', '.join(trees.names(shapes))}")
        _check_base(base, shapes, chosen, anew)
    numbers = [np.asarray(leaf) for leaf in jax.tree.leaves(base)]
    fixed, start = split(jax.tree.unflatten(jax.tree.structure(shapes), numbers), trained)

    def init(key: Key[Array, ""]) -> PyTree:
        return split(model.init(key), trained)[1] if anew else trees.map(jax.numpy.asarray, start)

    def whole(part: PyTree) -> PyTree:
        return join(fixed, part)

    features = model.features
    return Model(
        f"{model.name}, {trained} trained",
        init,
        apply=lambda part, inputs: model.apply(whole(part), inputs),
        features=None if features is None else lambda part, inputs: features(whole(part), inputs),
    )


def _check_base(base: PyTree, shapes: PyTree, chosen: list[bool], anew: bool) -> None:
    """Refuses parameters of another model: leaf by leaf, but for those that are drawn anew."""
    names, theirs = trees.names(shapes), trees.names(base)
    require(theirs == names, "base", ", ".join(theirs), f"must have the leaves of the model: {', '.join(names)}")
    for name, ours, theirs, part in zip(names, jax.tree.leaves(shapes), jax.tree.leaves(base), chosen, strict=True):
        hint = "anew = True draws it for this model" if part else ""
        fits = np.shape(theirs) == ours.shape or (part and anew)
        require(fits, "base", f"{name} {np.shape(theirs)}", f"must have the shape of the model's, {ours.shape}", hint)
