"""Data sets by name.

>>> data = load("digits")
>>> data.inputs.shape, data.classes
((1797, 1, 8, 8), 10)

Published sets are downloaded once into the user's cache, or read from the folder in FEDTIER_DATA (or `folder`), in the
publishers' own layouts. One's own data is `load("file", file="patients.csv", label="outcome", owner="hospital")`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import FedtierError, choice
from . import heart, images, own, synthetic
from .dataset import Dataset
from .synthetic import curvatures

__all__ = ["NAMES", "NEEDS", "OPTIONS", "UNLABELLED", "Dataset", "curvatures", "load"]

# Each set's loader, and the options of `load` that it understands.
_LOADERS: dict[str, tuple[Callable[..., Dataset], tuple[str, ...]]] = {
    "digits": (images.digits, ()),
    "mnist": (images.mnist, ("folder",)),
    "fashion-mnist": (images.fashion_mnist, ("folder",)),
    "cifar10": (images.cifar10, ("folder",)),
    "heart-disease": (heart.heart_disease, ("folder",)),
    "synthetic": (synthetic.synthetic, ("clients", "rows", "features", "classes", "spread", "seed")),
    "quadratic": (synthetic.quadratic, ("clients", "rows", "features", "spread", "seed")),
    "file": (own.from_file, ("file", "folder", "label", "owner", "image_size")),
}
NAMES = tuple(_LOADERS)
NEEDS = {"file": {"file": "must name your file"}}  # options without which a set cannot be loaded, and what to say then
UNLABELLED = ("quadratic",)  # sets whose rows have no labels, hence nothing that sites could share
OPTIONS = {name: known for name, (_, known) in _LOADERS.items()}  # what `load` takes besides the name


def load(
    name: str = "digits",
    *,
    folder: str | Path | None = None,
    file: str | Path | None = None,
    label: str | None = None,
    owner: str | None = None,
    image_size: int | None = None,
    clients: int | None = None,
    rows: int | None = None,
    features: int | None = None,
    classes: int | None = None,
    spread: float | None = None,
    seed: int | None = None,
) -> Dataset:
    """The data set called `name`, all rows pooled.

    folder: where the published files are (default: FEDTIER_DATA; without either they are downloaded).
    file, label, owner, image_size: one's own data, name "file".
    clients, rows (per client), features, classes, spread, seed: data made on the spot, "synthetic" and "quadratic".

    None means the set's own default. An option that is not in OPTIONS[name] is refused, except `folder`, which may stand
    in every configuration.
    """
    choice("data.name", name, NAMES)
    loader, known = _LOADERS[name]
    given: dict[str, Any] = {
        "folder": folder, "file": file, "label": label, "owner": owner, "image_size": image_size, "clients": clients,
        "rows": rows, "features": features, "classes": classes, "spread": spread, "seed": seed,
    }  # fmt: skip
    options = {key: value for key, value in given.items() if value is not None}
    for key, value in options.items():
        if key not in known and key != "folder":
            meant = [other for other, keys in OPTIONS.items() if key in keys]
            raise FedtierError(f"data.{key}", value, f"is not an option of {name}", f"it is one of {', '.join(meant)}")
    try:
        return loader(**{key: value for key, value in options.items() if key in known})
    except OSError as error:  # no permission, a broken disk
        rule = f"cannot be read ({error.strerror or error})"
        raise FedtierError("data", str(error.filename or name), rule, "check the file and its permissions") from error
