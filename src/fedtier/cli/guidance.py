"""Words on the command line that mean something else: a misspelt command, a key of a configuration written as an option."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import NOTHING, FedtierError, nearest

OTHERS = ("help", "version", "tyro-print-completion", "tyro-write-completion")  # options of every program


def refuse_unknown_words(words: Sequence[str], commands: Mapping[str, Callable[..., Any]]) -> None:
    """Refuses a command that there is none of, and an option that is a key of a configuration, with the right words."""
    if not words or words[0].startswith("-"):
        return
    command, rest = words[0], words[1:]
    if command not in commands:
        raise FedtierError(f"fedtier {command}", NOTHING, "is no command", nearest(command, commands))
    known = {name.replace("_", "-") for name in inspect.signature(commands[command]).parameters}
    if "settings" not in known:
        return
    for k, word in enumerate(rest):
        if word == "--":
            return
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name not in (*known, "set", *OTHERS):
            follows = rest[k + 1] if not equals and k + 1 < len(rest) and not rest[k + 1].startswith("-") else value
            _refuse_key(f"fedtier {command}", name.replace("-", "_"), follows or "VALUE")


def _refuse_key(command: str, name: str, value: str) -> None:
    """Raises where `name`, with or without its table, is a key of a configuration."""
    from ..experiments.tables import TABLES
    from ..methods import registry

    table, dot, key = name.partition(".")
    keys = {one: {*kind.model_fields} for one, kind in TABLES.items()}
    keys["method"] |= {option for method in registry.METHODS for option in registry.options(method)}
    for one, inside in keys.items():
        if (dot and table == one and key in inside) or (not dot and name in inside and name != "name"):
            setting = f"{one}.{key or name}={value}"
            raise FedtierError(
                f"--{name}", NOTHING, f"is no option of `{command}` but a key of a configuration", f"--set {setting}"
            )
