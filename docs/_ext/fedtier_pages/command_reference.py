"""The reference of all commands, from their own help texts."""

from __future__ import annotations

import contextlib
import io
import os
import textwrap
from unittest import mock

import tyro

from fedtier.cli import COMMANDS

WIDTH = "88"


def command_reference() -> str:
    """A section for each command with what `fedtier COMMAND --help` prints."""
    return "\n\n".join(
        f"(command-{name})=\n### fedtier {name}\n\n{_summary(name)}\n\n```text\n{help_text(name)}\n```" for name in COMMANDS
    )


def help_text(name: str) -> str:
    """What `fedtier NAME --help` prints, without colour."""
    text = io.StringIO()
    plain = {"COLUMNS": WIDTH, "NO_COLOR": "1", "TERM": "dumb"}
    with mock.patch.dict(os.environ, plain), contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog="fedtier", args=[name, "--help"], config=(tyro.conf.FlagCreatePairsOff,)
        )
    return textwrap.dedent(text.getvalue()).strip()


def _summary(name: str) -> str:
    return (COMMANDS[name].__doc__ or "").strip().splitlines()[0]
