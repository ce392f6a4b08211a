"""A method played by the sums of its rounds alone, for methods that say how (`Method.sums`).

The server forms the shares and their sum and forgets the replies, as if it had been told the sum and nothing else. What the
battery checks; what masks and noise stand on.
"""

from __future__ import annotations

import jax
from jaxtyping import PyTree

from ..errors import FedtierError
from .method import Contribution, Method, Round, Sums


def sums_of(method: Method, name: str, value: object, hint: str = "") -> Sums:
    """How the method's rounds depend on sums; refuses, as the key `name`, a method that does not say."""
    if method.sums is None:
        rule = f"needs a method whose rounds depend on sums of its replies alone; {method.name}'s, as it is set, may not"
        raise FedtierError(name, value, rule, hint or "fedavg, fedprox, fedadam, decomfl, zo_hfl with shared_directions")
    return method.sums


def known_sums(method: Method) -> Sums:
    """The same where the author knows that it says so: of a method that it builds on."""
    return sums_of(method, "method", method.name)


def total_of(sums: Sums, ups: PyTree, specs: PyTree, round: Round) -> Contribution:
    """The sums of a round, from its replies."""
    return jax.vmap(sums.share)(ups, specs).over(round.arrived)


def by_sums(method: Method) -> Method:
    """The method with an `aggregate` that goes by its sums; the same up to rounding."""
    sums = known_sums(method)

    def aggregate(server: PyTree, owns: PyTree, ups: PyTree, specs: PyTree, round: Round) -> tuple[PyTree, PyTree]:
        return sums.conclude(server, total_of(sums, ups, specs, round), round.opening)

    return method._replace(aggregate=aggregate)
