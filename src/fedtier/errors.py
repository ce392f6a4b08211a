"""One way to refuse bad input: the name, the value, the rule, and what to do instead."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeGuard


class FedtierError(ValueError):
    """A refusal with its reason. Raised before any work starts, so nothing is lost."""

    def __init__(self, name: str, value: object, rule: str, hint: str = "") -> None:
        self.name, self.value, self.rule, self.hint = name, value, rule, hint
        shown = "" if value is NOTHING else f" = {value!r}"
        super().__init__(f"{name}{shown}: {rule}" + (f"\n  hint: {hint}" if hint else ""))


@contextmanager
def called(names: Mapping[str, str]) -> Iterator[None]:
    """Inside, a refusal that names a parameter names it as the user knows it: with {"alpha": "data.alpha"} a function that
    refuses its `alpha` is heard to refuse `data.alpha`."""
    try:
        yield
    except FedtierError as error:
        if error.name not in names:
            raise
        raise type(error)(names[error.name], error.value, error.rule, error.hint) from error


class FedtierWarning(UserWarning):
    """Something will work, but probably not as well as you think."""


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()


def nearest(word: str, known: Iterable[str]) -> str:
    """The hint for an unknown word: the closest known one, in any case, or the whole list when none is close."""
    small = {one.lower(): one for one in sorted(known)}
    close = difflib.get_close_matches(word.lower(), small, n=1, cutoff=0.6)
    return f"did you mean {small[close[0]]!r}?" if close else f"known: {', '.join(small.values())}"


def require(condition: object, name: str, value: object, rule: str, hint: str = "") -> None:
    """Raises FedtierError unless `condition` holds."""
    if not condition:
        raise FedtierError(name, value, rule, hint)


def positive(name: str, value: object, hint: str = "") -> None:
    """Refuses what is not a finite number above 0."""
    fits = _is_traced(value) or (_is_number(value) and 0 < value < float("inf"))
    require(fits, name, value, "must be a finite number above 0", hint)


def not_negative(name: str, value: object, hint: str = "") -> None:
    """Refuses what is not a finite number of at least 0."""
    fits = _is_traced(value) or (_is_number(value) and 0 <= value < float("inf"))
    require(fits, name, value, "must be a finite number of at least 0", hint)


def share(name: str, value: float, hint: str = "", *, zero: bool = True, one: bool = False) -> None:
    """Refuses what is not between 0 and 1; `zero` and `one` say whether the ends are allowed."""
    low, high = ("[" if zero else "("), ("]" if one else ")")
    inside = _is_number(value) and (value >= 0 if zero else value > 0) and (value <= 1 if one else value < 1)
    require(inside, name, value, f"must be a share in {low}0, 1{high}", hint)


def whole(name: str, value: object, least: int = 1, hint: str = "") -> None:
    """Refuses what is not a whole number of at least `least`."""
    ok = isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least
    require(ok, name, value, f"must be a whole number of at least {least}", hint)


def choice(name: str, value: object, known: Iterable[str]) -> None:
    """Refuses what is not one of the known words, and names the nearest."""
    known = tuple(known)
    require(value in known, name, value, f"must be one of {', '.join(known)}", nearest(str(value), known))


def _is_traced(value: object) -> bool:
    """A value inside a compiled program, which whoever traces it has checked (a search over many values at once)."""
    return any(kind.__name__ == "Tracer" for kind in type(value).__mro__)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and not math.isnan(value)
