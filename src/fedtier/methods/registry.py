"""The methods by name. The command line, the reports and the tests read this table; adding a method is adding a row."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jax.core import Tracer

from ..errors import FedtierError, choice, nearest
from ..problem import Augment, Bilevel, Model
from .alone import entries as alone
from .asynchronous import entries as asynchronous
from .averaged import averaged
from .averaging import entries as averaging
from .clustered import entries as clustered
from .entry import Entry
from .method import Method
from .parts import KINDS
from .personal import chosen
from .personalised import entries as personalised
from .predictions import entries as predictions
from .predictions.learners import Learner
from .private_rows import RowNoise
from .projected import projected
from .robust import entries as robust
from .shared_level import entries as shared_level
from .two_levels import entries as two_levels
from .zeroth_order import entries as zeroth_order

PRESETS = ("recommended", "paper")
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


FAMILIES = (
    two_levels,
    averaging,
    alone,
    personalised,
    robust,
    zeroth_order,
    shared_level,
    clustered,
    asynchronous,
    predictions,
)
METHODS: dict[str, Entry] = {name: row for family in FAMILIES for name, row in family.ENTRIES.items()}


def entry(name: str | Entry) -> Entry:
    """The row of a method; a row of one's own as it is."""
    if isinstance(name, Entry):
        return name
    if name not in METHODS:
        raise FedtierError("name", name, "is no method", nearest(name, METHODS))
    return METHODS[name]


def options(name: str | Entry) -> dict[str, inspect.Parameter]:
    """The flat keys of a method, read from the one place where they are declared."""
    return dict(inspect.signature(entry(name).flat).parameters)


def defaults(name: str, preset: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The keys of [method] by a preset: "paper" as published, "recommended" with what we advise on top, but for what gives way
    to the keys that are `given`."""
    choice("preset", preset, PRESETS)
    declared = {key: option.default for key, option in options(name).items()}
    if preset == "paper":
        return declared
    return declared | dict(entry(name).recommended) | given_way(name, given or {})


def given_way(name: str | Entry, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the recommended preset has in place of its own values beside the keys that are `given`."""
    found: dict[str, Any] = {}
    for (key, value), instead in entry(name).gives_way.items():
        found |= instead if key in given and given[key] == value else {}
    return found


def part_names(name: str | Entry) -> tuple[str, ...]:
    """The parts that the method's factory takes: estimator, local, server, personal, or some of them."""
    taken = inspect.signature(entry(name).factory).parameters
    return tuple(part for part in KINDS if part in taken)


def takes_check(name: str | Entry) -> bool:
    """May a client choose by rows of its own whether it takes its personal model?"""
    return "personal" in part_names(name) or "check" in inspect.signature(entry(name).factory).parameters


def make(
    name: str | Entry,
    problem: Bilevel,
    given: dict[str, Any],
    augment: Augment | None = None,
    private: RowNoise | None = None,
    check: float = 0.0,
    scales: Sequence[float] = (1.0,),
    learner: Learner | None = None,
) -> Method:
    """The method `name` with the flat keys `given`; a key it does not have, or of a wrong type, is refused. A program may also
    give whole parts, such as server=descent(...), in place of their keys. `augment` is for all parts that make steps, `private`
    for the part `local`, `check` and `scales` for the part `personal`, those of `chosen`, or `check` for a method that has one
    of its own; `learner` are models of the clients' own, for a method that has a place for them."""
    known, row, kinds = options(name), entry(name), part_names(name)
    whole = {key: value for key, value in given.items() if key in kinds and isinstance(value, KINDS[key].type)}
    hints = typing.get_type_hints(row.flat)
    for key, value in given.items():
        if key in whole:
            continue
        if key not in known:
            raise FedtierError(
                key, value, f"is no option of {name if isinstance(name, str) else row.title}", nearest(key, known)
            )
        _check_type(key, value, hints[key])
    parts = row.flat(**{key: value for key, value in given.items() if key not in whole}) | whole
    if augment is not None:
        parts |= _augmented(parts, augment)
    if private is not None:
        parts["local"] = parts["local"]._replace(private=private)
    if check:
        parts |= {"personal": chosen(parts["personal"], check, scales)} if "personal" in kinds else {"check": check}
    if learner is not None:
        parts["learner"] = learner
    ours = any(row is known for known in METHODS.values())
    power = parts.pop("averaging", 0) if ours else 0  # where the server has no descent that averages
    count = parts.pop("projection", 0) if ours else 0
    return averaged(projected(row.factory(problem, **parts), count), power)


def _augmented(parts: dict[str, Any], augment: Augment) -> dict[str, Any]:
    """Those parts whose steps are on rows, with `augment`: the clients', the server's, those of a personal model."""
    steps = {name: parts[name]._replace(augment=augment) for name in ("local", "server") if name in parts}
    rule = parts.get("personal")
    return steps if rule is None or rule.augmented is None else steps | {"personal": rule.augmented(augment)}


def sketch(name: str | Entry, given: dict[str, Any], *, central: bool = True, model: Model | None = None) -> Method:
    """The method on a problem of zeros, and on `model` or one that says nothing: refuses what `make` would refuse, and can be
    asked about its facts."""
    nothing = Bilevel(lambda x, rows: jnp.zeros(()), lambda x, y, spec: jnp.zeros(()), lambda x, y, rows, spec: jnp.zeros(()))
    blank = Model("nothing", lambda key: (), *[lambda x, inputs: jnp.zeros((inputs.shape[0], 1))] * 2)
    return make(name, nothing._replace(central=central, model=model or blank, outputs=1), given)


def names_with(fact: str) -> list[str]:
    """The names of the methods that have this fact, a field of `Method`, with their default keys."""
    return [name for name in METHODS if getattr(sketch(name, {}), fact)]


def _check_type(name: str, value: Any, hint: Any) -> None:
    members = typing.get_args(hint) if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union else (hint,)
    plain = tuple(member for member in members if member in WORDS)
    schedule = callable(value) and any(typing.get_origin(member) is Callable for member in members)
    if schedule or isinstance(value, Tracer) or not plain:  # traced in a search; or a kind that only its author can check
        return
    accepts = isinstance(value, plain) or (float in plain and isinstance(value, int))
    if not accepts or (isinstance(value, bool) and bool not in plain):
        simple = isinstance(value, (*WORDS, list, dict))
        in_python = "" if simple else "keys have plain values; in Python give the method its parts (fedtier.methods)"
        raise FedtierError(name, value, f"must be {' or '.join(WORDS[kind] for kind in plain)}", in_python)
