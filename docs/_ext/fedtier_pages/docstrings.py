"""Docstrings for autodoc, which wants reStructuredText.

Ours are written for people who read source: prose, code spans in single backticks, equations and aligned lists laid out as they
should look. Prose is escaped here, what is laid out becomes a literal block, and the comments beside a NamedTuple's fields
become a list.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import Any

LAID_OUT = re.compile(r"\S(.*\S)?\s{2,}\S")  # a line with columns


def to_rst(lines: list[str]) -> list[str]:
    """The docstring as reStructuredText."""
    out: list[str] = []
    for paragraph in _paragraphs(lines):
        if _is_laid_out(paragraph):
            out += ["", ".. code-block:: text", "", *("   " + line for line in _dedented(paragraph)), ""]
        else:
            out += ["", *(_escaped(line.strip()) for line in paragraph), ""]
    return out


def field_list(value: Any) -> list[str]:
    """The fields of a NamedTuple with the comments beside them, as reStructuredText."""
    try:
        source = textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError):
        return []
    rows = source.splitlines()
    tree = ast.parse(source).body[0]
    out = [""]
    for node in getattr(tree, "body", []):
        if isinstance(node, ast.AnnAssign):
            comment = rows[(node.end_lineno or 1) - 1].partition("  # ")[2]
            target = ast.unparse(node.target)
            out += [f"``{target}``", f"   {_escaped(comment) or 'see above'}", ""]
    return out


def _paragraphs(lines: list[str]) -> list[list[str]]:
    """Runs of lines; laid-out runs that follow each other are one."""
    found: list[list[str]] = []
    current: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            current.append(line)
        elif current:
            if found and _is_laid_out(current) and _is_laid_out(found[-1]) and current[0].startswith(" "):
                found[-1] += ["", *current]
            else:
                found.append(current)
            current = []
    return found


def _is_laid_out(paragraph: list[str]) -> bool:
    return paragraph[0].startswith((" ", "|", ">>>")) or (len(paragraph) > 1 and bool(LAID_OUT.match(paragraph[0].strip())))


def _dedented(paragraph: list[str]) -> list[str]:
    return textwrap.dedent("\n".join(paragraph)).splitlines()


def _escaped(text: str) -> str:
    pieces = re.split(r"`([^`]+)`", text)
    return "".join(f"``{p}``" if k % 2 else re.sub(r"([\\*|_`<>])", r"\\\1", p) for k, p in enumerate(pieces))


def process(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """For autodoc-process-docstring."""
    lines[:] = to_rst(lines)
    if what == "class" and hasattr(value, "_fields"):
        lines += field_list(value)
