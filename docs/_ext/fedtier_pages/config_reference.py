"""The reference of all keys, from the tables that check them."""

from __future__ import annotations

import types
import typing
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from fedtier.deploy.settings import WireTable
from fedtier.deploy.site_table import SiteTable
from fedtier.experiments.tables import TABLES, Table

from .markdown import code, table

WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}
HEADS = ("key", "kind", "default", "unit", "example", "meaning")
BETWEEN_SITES = {"wire": WireTable, "site": SiteTable}


def config_reference() -> str:
    """A section for each table of a configuration."""
    return "\n\n".join(_section(name, kind, f"[{name}]") for name, kind in TABLES.items())


def wire_reference() -> str:
    """The table [wire] of a run file, and a site's own file."""
    titles = {"wire": "[wire]", "site": "A site's file"}
    return "\n\n".join(_section(name, kind, titles[name]) for name, kind in BETWEEN_SITES.items())


def _section(name: str, kind: type[Table], title: str) -> str:
    rows = [_row(name, key, field) for key, field in kind.model_fields.items()]
    return f"(table-{name})=\n## {title}\n\n{_purpose(kind)}\n\n{table(HEADS, rows)}"


def _purpose(kind: type[Table]) -> str:
    text = (kind.__doc__ or "").strip().split(": ", 1)[-1]
    return text[0].upper() + text[1:]


def _row(name: str, key: str, field: FieldInfo) -> list[str]:
    default = "*must be given*" if field.default is PydanticUndefined else code(field.default) or "none"
    kinds = _kinds(field.annotation) + _limits(field)
    unit = (field.json_schema_extra or {}).get("unit", "")  # pyright: ignore
    example = code((field.examples or [None])[0])
    return [f"`{name}.{key}`" if name in TABLES else f"`{key}`", kinds, default, str(unit), example, field.description or ""]


def _kinds(annotation: Any) -> str:
    if typing.get_origin(annotation) is typing.Literal:
        return ", ".join(f"`{choice}`" for choice in typing.get_args(annotation))
    if typing.get_origin(annotation) is typing.Annotated:
        return _kinds(typing.get_args(annotation)[0])
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return " or ".join(_kinds(part) for part in typing.get_args(annotation) if part is not type(None))
    if typing.get_origin(annotation) is list:
        return f"list of {_kinds(typing.get_args(annotation)[0])}" + ("" if annotation == list[Any] else "s")
    if typing.get_origin(annotation) is dict:
        return f"table of {_kinds(typing.get_args(annotation)[1])}s"
    return WORDS.get(annotation, str(annotation))


def _limits(field: FieldInfo) -> str:
    signs = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    found = [
        f"{word} {getattr(rule, sign):g}" for rule in field.metadata for sign, word in signs.items() if hasattr(rule, sign)
    ]
    return f", {', '.join(found)}" if found else ""
