"""The reference of the library: every public name of every public module, by autodoc."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

MODULES = (
    "fedtier.library.data",
    "fedtier.library.choices",
    "fedtier.library.train",
    "fedtier.library.result",
    "fedtier.library.compare",
    "fedtier.library.metrics",
    "fedtier.problem",
    "fedtier.problem.closed_forms",
    "fedtier.datasets",
    "fedtier.federation",
    "fedtier.federation.partition",
    "fedtier.methods",
    "fedtier.methods.two_levels.estimators",
    "fedtier.engines",
    "fedtier.privacy",
    "fedtier.protocol",
    "fedtier.protocol.foreign",
    "fedtier.experiments.tables",
    "fedtier.experiments.config",
    "fedtier.experiments.run",
    "fedtier.experiments.session",
    "fedtier.experiments.comparison",
    "fedtier.experiments.outcomes",
    "fedtier.experiments.search",
    "fedtier.own_code.by_path",
    "fedtier.own_code.black_box",
    "fedtier.theory.constants",
    "fedtier.theory.sphere",
    "fedtier.theory.local",
    "fedtier.theory.finite",
    "fedtier.theory.theorem1",
    "fedtier.theory.theorem2",
    "fedtier.schedules",
    "fedtier.trees",
    "fedtier.keys",
    "fedtier.errors",
)


def public_names(module: ModuleType) -> list[str]:
    """`__all__`, or what the module itself defines and does not hide."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed, key=str.lower)
    own = [name for name, value in vars(module).items() if _is_code(value) and value.__module__ == module.__name__]
    return sorted((name for name in own if not name.startswith("_")), key=str.lower)


def undocumented() -> list[str]:
    """The public functions, classes and modules without a docstring of their own."""
    found = []
    for path in MODULES:
        module = importlib.import_module(path)
        found += [] if (module.__doc__ or "").strip() else [path]
        for name in public_names(module):
            value = getattr(module, name)
            if _is_code(value) and not own_docstring(value):
                found.append(f"{path}.{name}")
    return found


def own_docstring(value: Any) -> str:
    """What somebody wrote: not what a base class says, nor the signature that a NamedTuple gets by itself."""
    text = value.__doc__ or ""
    if inspect.isclass(value):
        inherited = "__doc__" not in vars(value)
        automatic = hasattr(value, "_fields") and text.startswith(f"{value.__name__}(")
        return "" if inherited or automatic else text.strip()
    return text.strip()


def api_section(path: str) -> str:
    """The section of one module: its docstring, then its public names."""
    module = importlib.import_module(path)
    parts = [f"(module-{path})=\n## {path}", _block(f"automodule:: {path}", ":no-members:")]
    for name in public_names(module):
        value = getattr(module, name)
        if inspect.isclass(value):
            parts.append(_block(f"autoclass:: {path}.{name}", *_class_options(value)))
        elif callable(value):
            parts.append(_block(f"autofunction:: {path}.{name}"))
        elif inspect.ismodule(value):
            parts.append(f"`{name}`: see [{value.__name__}](#module-{value.__name__})." if value.__name__ in MODULES else "")
        else:
            parts.append(_block(f"autodata:: {path}.{name}", ":no-value:"))
    return "\n\n".join(part for part in parts if part)


def _class_options(value: type) -> tuple[str, ...]:
    own = [name for name, member in vars(value).items() if not name.startswith("_") and _documented(member)]
    return (f":members: {', '.join(own)}",) if own else ()


def _documented(member: Any) -> bool:
    member = getattr(member, "__func__", getattr(member, "fget", member))
    return inspect.isfunction(member) and bool(member.__doc__)


def _block(directive: str, *options: str) -> str:
    return "\n".join(["```{eval-rst}", f".. {directive}", *(f"   {option}" for option in options), "```"])


def _is_code(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isfunction(value)
