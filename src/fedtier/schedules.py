"""Step sizes as functions of a counter that starts at 0.

    constant(c)              c                   no guarantee beyond a neighbourhood
    inverse_sqrt(c)          c / sqrt(r + 1)     the server's gamma_r (Theorem 1)
    inverse(c, offset)       c / (t + offset)    a client's tilde_gamma_t (Proposition 1)
    power(c, a)              c / (r + 1)^a       almost sure convergence for 1/2 < a <= 1 (Theorem 2)

Where a step size is asked for, a number is a constant step, a string such as "inverse_sqrt(0.01)" names one of these, and any
function of the counter is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from .errors import FedtierError, nearest, positive

Size = Array | np.ndarray | np.floating | float
Schedule = Callable[[ArrayLike], Size]  # of the counter
StepSize = float | int | str | Schedule


def constant(c: Size) -> Schedule:
    """The step size c in every step."""
    positive("c", c)
    return _told(lambda count: c + 0.0 * count, "constant", c)


def inverse_sqrt(c: Size) -> Schedule:
    """c/sqrt(r + 1): falls like the root of the counter."""
    positive("c", c)
    return _told(lambda count: c / jnp.sqrt(count + 1.0), "inverse_sqrt", c)


def inverse(c: Size, offset: float = 1.0) -> Schedule:
    """c/(t + offset): falls like the counter."""
    positive("c", c)
    positive("offset", offset)
    return _told(lambda count: c / (count + offset), "inverse", c, offset)


def power(c: Size, a: float) -> Schedule:
    """c/(r + 1)^a: falls like a power of the counter."""
    positive("c", c)
    positive("a", a)
    return _told(lambda count: c / (count + 1.0) ** a, "power", c, a)


def _told(schedule: Callable[[float], Size], shape: str, *numbers: Size) -> Schedule:
    """The schedule, and the words for it where its numbers are plain ones: a search has traced ones."""
    if all(isinstance(number, int | float) for number in numbers):
        words = f"{shape}({', '.join(repr(float(number)) for number in numbers)})"
        schedule.words = words  # pyright: ignore[reportFunctionMemberAccess]
    return schedule  # pyright: ignore[reportReturnType]  what is done with a number here may be done with an array


def words_of(schedule: Schedule) -> str | None:
    """The words that `as_schedule` makes the same schedule of; None for a function of one's own."""
    return getattr(schedule, "words", None)


SHAPES: dict[str, Callable[..., Schedule]] = {f.__name__: f for f in (constant, inverse_sqrt, inverse, power)}


def shape_of(name: str, value: StepSize) -> Callable[[Size], Schedule]:
    """What gives a schedule of the shape of `value` for another c: "inverse(0.1, 2)" gives c -> c/(t + 2)."""
    if not isinstance(value, str):
        return constant
    shape, arguments = _parts(name, value)
    return lambda c: SHAPES[shape](c, *arguments[1:])


def size_of(value: float | str) -> float:
    """The number by which steps of one shape differ: 0.1 of "inverse(0.1, 2)", and of a number itself."""
    return _parts("step size", value)[1][0] if isinstance(value, str) else value


def rescaled(value: StepSize, c: float) -> StepSize:
    """`value` with c in place of its size, its shape kept: "inverse(0.1)" becomes "inverse(0.3)"."""
    if not isinstance(value, str):
        return c
    shape, arguments = _parts("step size", value)
    return f"{shape}({', '.join(f'{number:g}' for number in (c, *arguments[1:]))})"


def as_schedule(name: str, value: StepSize, default: Callable[[float], Schedule] = constant) -> Schedule:
    """The schedule that `value` stands for (see the module); refused under `name` when it stands for none."""
    if callable(value):
        return value
    if isinstance(value, str):
        return _parse(name, value)
    positive(name, value, "a step size is a number above 0 or a schedule such as 'constant(0.1)'")
    return default(value)


def _parse(name: str, text: str) -> Schedule:
    shape, arguments = _parts(name, text)
    try:
        return SHAPES[shape](*arguments)
    except FedtierError as error:
        raise FedtierError(name, text, f"{error.name} {error.rule}", error.hint) from None
    except TypeError:
        raise FedtierError(name, text, "has arguments that do not fit", "see `python -m pydoc fedtier.schedules`") from None


def _parts(name: str, text: str) -> tuple[str, list[float]]:
    match = re.fullmatch(r"\s*(\w+)\s*\(([^()]*)\)\s*", text)
    if not match:
        raise FedtierError(name, text, "is no schedule", "write shape(number), for example 'inverse_sqrt(0.01)'")
    shape, arguments = match.groups()
    if shape not in SHAPES:
        raise FedtierError(name, text, f"names no schedule {shape!r}", nearest(shape, SHAPES))
    try:
        return shape, [float(part) for part in arguments.split(",")]
    except ValueError:
        raise FedtierError(name, text, "has arguments that do not fit", "see `python -m pydoc fedtier.schedules`") from None
