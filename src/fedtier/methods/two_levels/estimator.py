"""The contract of an estimator of a client's hypergradient, the gradient of x -> f2(x, y_i(x)).

    propose   which probe directions v_k a client tries around x
    estimate  turns the slopes s_k = (f2(x + eta v_k, y+) - f2(x - eta v_k, y-)) / (2 eta) into g

`estimators` has ours. One without directions makes a single solve at x itself, with the steps of two.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from jaxtyping import Array, Float, Key, PyTree

from ...errors import NOTHING, FedtierError
from ...federation import View
from ...problem import Bilevel
from ..method import ClientSpec


class ClientSide(NamedTuple):
    """What a client knows when it turns slopes into an estimate."""

    problem: Bilevel
    x: PyTree
    y: PyTree  # its solution at x, or the mean of its solutions at the probes around x
    view: View
    spec: ClientSpec
    key: Key[Array, ""]  # for draws of its own


@runtime_checkable
class Propose(Protocol):
    """Chooses the directions in which a client probes f2."""

    def __call__(self, key: Key[Array, ""], x: PyTree, guides: PyTree, /) -> PyTree:
        """K unit vectors shaped like x, leading axis K. `guides` are the vectors that the estimator asked for, each 0 until
        it is known: the server's gradient first if `served`, then the client's displacements x - y, the latest in front;
        () without guides."""
        ...


@runtime_checkable
class Estimate(Protocol):
    """Turns the slopes along the directions into an estimate of the gradient."""

    def __call__(self, slopes: Float[Array, "K"], v: PyTree, key: Key[Array, ""], client: ClientSide | None, /) -> PyTree:
        """g, shaped like x, from the slopes along v; `key` is the one that `propose` had. Where the estimator is not
        private the server forms g and it knows no client: see `at_client`. Without directions v is ()."""
        ...


class Estimator(NamedTuple):
    """How a client's hypergradient is estimated: two functions, and what they need."""

    name: str
    propose: Propose
    estimate: Estimate
    smoothing: float = 0.0  # eta
    directions: int = 0  # K; 0 = no probes
    private: bool = True  # True: only the client can form g, so g goes up; False: the server can, from the values
    guides: int = 0  # how many recent displacements x - y the client remembers
    served: bool = False  # does the server send its gradient as the first guide?
    common: bool = False  # are the directions, and g from the slopes, known to all who have read the round's broadcast?
    stretched: bool = False  # is g longer than f2's slope along it, to make up for the directions that were not tried?

    @property
    def solves(self) -> int:
        """Local solves of H steps per client and round."""
        return 2 * max(1, self.directions)


def at_client(client: ClientSide | None) -> ClientSide:
    """The client's side, for an estimator that cannot do without it."""
    if client is None:
        raise FedtierError("client", NOTHING, "the server has no client's solution to estimate with", "set private=True")
    return client
