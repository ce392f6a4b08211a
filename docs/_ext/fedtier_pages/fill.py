"""The parts of the site that are made from the code: a line `% generated: NAME` of a page is replaced by what NAME makes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sphinx.application import Sphinx

from . import docstrings
from .api_reference import api_section
from .command_reference import command_reference
from .config_reference import config_reference, wire_reference
from .method_pages import method_pages, method_table
from .privacy_pictures import epsilon_picture

MAKERS: dict[str, Callable[..., str]] = {
    "method-table": method_table,
    "methods": method_pages,
    "configuration": config_reference,
    "wire": wire_reference,
    "commands": command_reference,
    "api": api_section,
    "epsilon-picture": epsilon_picture,
}
PLACE = re.compile(r"^% generated: (\S+)(?: (\S+))?$", re.M)


def filled(text: str) -> str:
    """The page with everything that is made from the code in its place."""
    return PLACE.sub(lambda found: MAKERS[found[1]](*filter(None, [found[2]])), text)


def _fill(app: Sphinx, name: str, source: list[str]) -> None:
    source[0] = filled(source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _fill)
    app.connect("autodoc-process-docstring", docstrings.process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
