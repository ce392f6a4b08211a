"""A claim holds or says why not; and two ways for trees to be alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from ... import trees
from ...storage import named_arrays

TOLERANCE = 1e-5  # relative, float32, after a few rounds of a small federation


class Claim(NamedTuple):
    claim: str
    holds: bool
    why: str = ""


def tried(*claims: tuple[str, Callable[[], None]]) -> list[Claim]:
    """Each claim with what its test had to say; a test raises where the claim does not hold."""

    def one(claim: str, test: Callable[[], None]) -> Claim:
        try:
            test()
        except Exception as error:  # whatever a user's function raises is the answer
            words = str(error).strip().splitlines()
            plain = isinstance(error, AssertionError) and words
            return Claim(claim, False, words[0] if plain else f"{type(error).__name__}: {error}")
        return Claim(claim, True)

    return [one(claim, test) for claim, test in claims]


def raise_broken(claims: list[Claim]) -> None:
    broken = [f"{claim.claim}: {claim.why}" for claim in claims if not claim.holds]
    if broken:
        raise AssertionError("\n".join(broken))


def same_shapes(found: PyTree, wanted: PyTree, what: str) -> None:
    a, b = jax.eval_shape(lambda t: t, found), jax.eval_shape(lambda t: t, wanted)
    assert jax.tree.structure(a) == jax.tree.structure(b), f"{what}: another structure"
    for name, one, other in zip(trees.names(b), jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        fits = (one.shape, one.dtype) == (other.shape, other.dtype)
        assert fits, f"{what}.{name}: {one.dtype}{list(one.shape)}, must be {other.dtype}{list(other.shape)}"


def close(found: PyTree, wanted: PyTree, what: str, *, exact: bool = False) -> None:
    same_shapes(found, wanted, what)
    arrays, others = named_arrays.to_arrays(found), named_arrays.to_arrays(wanted)
    for name, one in arrays.items():
        other = others[name]
        scale = float(np.max(np.abs(other), initial=0.0)) or 1.0
        error = float(np.max(np.abs(one.astype(float) - other.astype(float)), initial=0.0))
        limit = 0.0 if exact else TOLERANCE * scale
        assert error <= limit, f"{what}: {name} differs by {error:.3g} (allowed: {limit:.3g})"
