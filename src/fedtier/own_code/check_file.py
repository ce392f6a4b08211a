"""`fedtier check FILE.py`: the battery on a user's method or problem.

The file defines one or both of

    def method(problem, *, ...): ...   -> a Method
    def problem(loss, *, ...): ...     -> a Bilevel, checked with softmax regression on a few rows
    def problem(): ...                 -> (Bilevel, x, rows) or (Bilevel, x, rows, spec): a model, a few rows, a client's spec
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TypedDict

import jax
import numpy as np
from jaxtyping import PyTree

from ..engines.battery import method_claims, problem_claims
from ..errors import FedtierError
from ..problem import Bilevel, Rows, cross_entropy, softmax
from .by_path import calling, load_file, signature_of


class CheckedClaim(TypedDict):
    """One claim of the battery, for machines."""

    claim: str
    holds: bool
    why: str


class Checked(TypedDict):
    """What the battery says of a file, for machines."""

    file: str
    claims: list[CheckedClaim]


def check_file(file: Path) -> Checked:
    """What is found of what the file defines."""
    module = load_file("FILE", file)
    claims = []
    for name in ("method", "problem"):
        if hasattr(module, name) and not callable(getattr(module, name)):
            raise FedtierError(name, type(getattr(module, name)).__name__, "must be a function", f"def {name}(...): return ...")
    if hasattr(module, "method"):
        claims += method_claims(module.method)
    if hasattr(module, "problem"):
        claims += problem_claims(*_problem(file, module))
    if not claims:
        raise FedtierError("FILE", str(file), "defines neither method nor problem", "def method(problem): return Method(...)")
    return {"file": str(file), "claims": [{"claim": claim.claim, "holds": claim.holds, "why": claim.why} for claim in claims]}


def _problem(file: Path, module: ModuleType) -> tuple[Bilevel, PyTree, PyTree]:
    """What `problem_claims` takes, from either form of the function."""
    word = f"{file}:problem"
    asks = signature_of("FILE", word).required
    with calling("FILE", word):
        if not asks:
            parts = module.problem()
        else:
            model = softmax(features=3, classes=2)
            rng = np.random.default_rng(0)
            inputs = rng.standard_normal((8, 3)).astype(np.float32)
            rows = Rows(inputs, (inputs[:, 0] > 0).astype(np.int32))
            parts = (module.problem(cross_entropy(model)), model.init(jax.random.key(0)), rows)
    fits = isinstance(parts, tuple) and len(parts) in (3, 4) and isinstance(parts[0], Bilevel)
    if not fits:
        rule = "must return a Bilevel, or without arguments (Bilevel, x, rows) or (Bilevel, x, rows, spec)"
        raise FedtierError("problem()", parts, rule)
    return parts
