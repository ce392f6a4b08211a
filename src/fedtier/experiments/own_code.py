"""`fedtier check FILE.py`: the battery on a user's method or problem.

The file defines one or both of

    def method(problem): ...       -> a Method
    def problem(): ...             -> (Bilevel, x, rows) or (Bilevel, x, rows, spec): a model, a few rows, one client's spec
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ..engines.battery import method_claims, problem_claims
from ..errors import FedtierError


def check_file(file: Path) -> dict[str, Any]:
    """{"file", "claims": [{"claim", "holds", "why"}]} for what the file defines."""
    module = _load(file)
    claims = []
    for name in ("method", "problem"):
        if hasattr(module, name) and not callable(getattr(module, name)):
            raise FedtierError(name, type(getattr(module, name)).__name__, "must be a function", f"def {name}(...): return ...")
    if hasattr(module, "method"):
        claims += method_claims(module.method)
    if hasattr(module, "problem"):
        parts = module.problem()
        fits = isinstance(parts, tuple) and len(parts) in (3, 4)
        if not fits:
            raise FedtierError("problem()", parts, "must return (Bilevel, x, rows) or (Bilevel, x, rows, spec)")
        claims += problem_claims(*parts)
    if not claims:
        raise FedtierError("FILE", str(file), "defines neither method nor problem", "def method(problem): return Method(...)")
    return {"file": str(file), "claims": [claim._asdict() for claim in claims]}


def _load(file: Path) -> ModuleType:
    if not file.is_file():
        raise FedtierError("FILE", str(file), "is not there", "give the path of a Python file")
    spec = importlib.util.spec_from_file_location("fedtier_user_file", file)
    if spec is None or spec.loader is None:
        raise FedtierError("FILE", str(file), "is not a Python file", "its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise FedtierError("FILE", str(file), f"cannot be imported: {type(error).__name__}: {error}") from error
    return module
