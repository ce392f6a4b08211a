"""Data sets by name.

>>> data = load("digits")
>>> data.inputs.shape, data.classes
((1797, 1, 8, 8), 10)

Published sets are downloaded once into the user's cache, or read from the folder in FEDTIER_DATA (or `folder`), in the
publishers' own layouts. One's own data is `load("file", file="patients.csv", label="outcome", owner="hospital")`, where the
file may also be a DataFrame. Tables come with their columns as they are: `Dataset.prepared` turns them into inputs once it is
known which rows are training rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ..errors import FedtierError, choice
from . import fed_heart, heart, images, own, people, schools, synthetic
from .dataset import Dataset
from .preparation import Preparation
from .synthetic import curvatures

__all__ = ["NAMES", "OPTIONS", "SETS", "Dataset", "Preparation", "curvatures", "load"]


class Set(NamedTuple):
    loader: Callable[..., Dataset]
    natural: bool = False  # rows have owners of their own, who are the clients unless another partition is named
    split: bool = False  # its publisher says who has which rows: nothing is drawn
    labelled: bool = True  # without labels there is nothing that sites could share
    needs: Mapping[str, str] = MappingProxyType({})  # options without which it cannot be loaded, and what to say then

    @property
    def options(self) -> tuple[str, ...]:
        """What the loader takes, read from its signature."""
        return tuple(inspect.signature(self.loader).parameters)


SETS = {
    "digits": Set(images.digits),
    "mnist": Set(images.mnist),
    "fashion-mnist": Set(images.fashion_mnist),
    "cifar10": Set(images.cifar10),
    "heart-disease": Set(heart.heart_disease, natural=True),
    "fed-heart-disease": Set(fed_heart.fed_heart_disease, natural=True, split=True),
    "activity": Set(people.activity, natural=True),
    "qmnist": Set(people.qmnist, natural=True),
    "spoken-digits": Set(people.spoken_digits, natural=True),
    "chem97": Set(schools.chem97, natural=True),
    "exam-scores": Set(schools.exam_scores, natural=True),
    "synthetic": Set(synthetic.synthetic),
    "quadratic": Set(synthetic.quadratic, labelled=False),
    "file": Set(own.from_file, needs={"file": "must name your file"}),
}
NAMES = tuple(SETS)
OPTIONS = {name: one.options for name, one in SETS.items()}  # what `load` takes besides the name


def load(name: str = "digits", **options: object) -> Dataset:
    """The data set called `name`, all rows pooled; OPTIONS[name] are its options.

    folder: where the published files are (default: FEDTIER_DATA; without either they are downloaded).
    file, label, owner, ...: one's own data, name "file"; see `own.from_file`.
    clients, rows (per client), features, classes, spread, seed: data made on the spot, "synthetic" and "quadratic".

    None means the set's own default. An option that is not in OPTIONS[name] is refused, except `folder`, which may stand
    in every configuration.
    """
    choice("name", name, NAMES)
    given = {key: value for key, value in options.items() if value is not None}
    for key, value in given.items():
        if key not in OPTIONS[name] and key != "folder":
            raise FedtierError(key, value, f"is not an option of {name}", who_takes(key))
    try:
        return SETS[name].loader(**{key: value for key, value in given.items() if key in OPTIONS[name]})
    except OSError as error:  # no permission, a broken disk
        rule = f"cannot be read ({error.strerror or error})"
        raise FedtierError("data", str(error.filename or name), rule, "check the file and its permissions") from error


def who_takes(key: str) -> str:
    """The sets that have this option, as a hint."""
    return f"it is one of {', '.join(name for name, known in OPTIONS.items() if key in known) or 'no set'}"
