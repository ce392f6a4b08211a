"""What the commands share: kinds of arguments, and how results are shown."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import tyro

Config = Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="FILE.toml", help_behavior_hint="")]
Settings = Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(name="set", metavar="TABLE.KEY=VALUE")]
Number = Annotated[int | None, tyro.conf.arg(metavar="NUMBER", help_behavior_hint="")]  # these may be left out
Real = Annotated[float | None, tyro.conf.arg(metavar="NUMBER", help_behavior_hint="")]
Place = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")]
Text = Annotated[str | None, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")]
Track = Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="tensorboard|mlflow")]


def show(what: Any) -> None:
    """On stdout: an object as JSON, words as they are, tables in colour on a terminal."""
    if isinstance(what, dict):
        print(json.dumps(what, allow_nan=False))
    elif isinstance(what, str):
        print(what)
    elif sys.stdout.isatty():
        from rich.console import Console

        for part in what:
            Console().print(part, highlight=False, markup=not isinstance(part, str), soft_wrap=isinstance(part, str))
    else:
        print(plain(what), end="")


def plain(parts: Any) -> str:
    """Tables as text without colour. Imported late: `--help` needs none."""
    from ..reports.layout import plain as text

    return text(parts)


def progress() -> Any:
    from ..reports.progress import TerminalProgress

    return TerminalProgress()


def prepare_jax() -> None:
    """All cores, and compiled programs kept between commands. Imported late: `--help` needs no JAX."""
    from ..compilation import configure_jax

    configure_jax()
