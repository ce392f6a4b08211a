"""Packages whose names are looked up at their first use, so that a process which only carries bytes loads no JAX."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType


def lazily(package: str, homes: Mapping[str, str]) -> None:
    """Makes `package` find each name in its home, a sub-module; a sub-module of the same name does not hide it. A name whose
    home is "" is the sub-module itself."""

    class Package(ModuleType):
        def __getattr__(self, name: str) -> object:
            if name not in homes:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            home = import_module(f"{package}.{homes[name] or name}")
            value = getattr(home, name) if homes[name] else home
            self.__dict__[name] = value
            return value

        def __dir__(self) -> list[str]:
            return sorted({*super().__dir__(), *homes})

        def __setattr__(self, name: str, value: object) -> None:
            if not (name in homes and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

    sys.modules[package].__class__ = Package
