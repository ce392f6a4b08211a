"""Many members of one experiment in one program: every point of a grid with every seed, shared among the devices."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import PyTree

from .. import trees
from ..compilation import jitted
from ..federation import Federation
from .devices import dealt, everywhere, on_all
from .layout import each


@runtime_checkable
class Member(Protocol):
    """What is computed for one point and one seed. An engine used in it is made with `devices=()`."""

    def __call__(self, point: PyTree, federation: Federation, /, *of_seed: PyTree) -> PyTree: ...


def sweep(member: Member, points: PyTree, federation: Federation, *of_seeds: PyTree) -> PyTree:
    """member(point, federation, ...) for every row of `points` and every seed: leading axes [points, seeds], as NumPy.

    `federation` (but its arrays) and `of_seeds` have a leading axis, one row per seed. Devices share the points.
    """
    devices = tuple(jax.devices())

    def program(points: PyTree, federation: Federation, *of_seeds: PyTree) -> PyTree:
        def all_seeds(point: PyTree) -> PyTree:
            def one(row: tuple) -> PyTree:
                rest, *of_seed = row
                return member(point, rest._replace(arrays=federation.arrays), *of_seed)

            return each(one, (federation._replace(arrays=()), *of_seeds))

        return dealt(lambda points: each(all_seeds, points), points, devices)

    given = everywhere((points, federation, *of_seeds), devices)
    return trees.map(np.asarray, jitted(on_all(devices, program))(*given))
