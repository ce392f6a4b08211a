"""A TOML file as tables: how it is read, how a key is declared, how a table is checked against its keys.

Loads neither JAX nor data, for commands that must start at once.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from ..errors import NOTHING, FedtierError, nearest
from ..own_code import naming


def described(default: Any, meaning: str, *, unit: str = "", example: Any = None, **rules: Any) -> Any:
    """A key of a table. The reference of all keys is made from its meaning, unit and example; `rules` are pydantic's."""
    return Field(default=default, description=meaning, examples=[example], json_schema_extra={"unit": unit}, **rules)


class Table(BaseModel):
    """A table of a configuration: keys it does not have are refused, values are taken as they are written."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def read_toml(file: Path) -> dict[str, Any]:
    """The tables of a TOML file, unchecked; files of the user's code are looked for here first, then beside the file."""
    try:
        return _anchored(tomllib.loads(file.read_text(encoding="utf-8")), file.parent)
    except FileNotFoundError:
        raise FedtierError("FILE", str(file), "is not there", "give the path of a TOML file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FedtierError("FILE", str(file), f"cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        hint = "strings need quotes, tables are [data] [model] ..."
        raise FedtierError("FILE", str(file), f"is not TOML: {error}", hint) from None


def _anchored(content: Any, folder: Path) -> Any:
    if isinstance(content, dict):
        return {key: _anchored(value, folder) for key, value in content.items()}
    return [_anchored(one, folder) for one in content] if isinstance(content, list) else naming.anchored(content, folder)


def checked(name: str, kind: type[Any], given: dict[str, Any]) -> Any:
    """`given` as a table of this kind; the first thing wrong with it as FedtierError."""
    for key, value in given.items():
        if key not in kind.model_fields:
            raise FedtierError(f"{name}.{key}", value, f"is no key of [{name}]", nearest(key, kind.model_fields))
    try:
        return kind.model_validate(given)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        shown = NOTHING if first["type"] == "missing" else first["input"]
        raise FedtierError(f"{name}.{key}", shown, first["msg"][0].lower() + first["msg"][1:]) from None
