"""The estimators of a client's hypergradient; `estimator` has their contract.

| name         | g                                   | its mean, with exact solves            | solves  | a client sends |
|--------------|-------------------------------------|----------------------------------------|---------|----------------|
| sphere       | (n/K) sum s_k v_k                   | grad f_eta                             | 2 K     | 2 K values     |
| orthogonal   | the same, v_k orthonormal           | grad f_eta                             | 2 K     | 2 K values     |
| guided       | sum over guides s_k v_k (+ random)  | its part along the guides; see `guided`| 2 K     | g, n numbers   |
| first_order  | grad_x f2(x, y), y held fixed       | without the term J^T grad_y f2         | 1 (2 H) | g, n numbers   |
| exact        | hypergradient by conjugate gradients| itself, up to solver error             | 1 (2 H) | g, n numbers   |

f_eta is the smoothed implicit function f(x) = f2(x, y(x)); where f is quadratic grad f_eta = grad f.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Array, Float, Key, PyTree

from ... import trees
from .control import controlled
from .estimator import ClientSide, Estimator, at_client
from .guided import guided
from .hypergradient import hypergradient, partial_gradient
from .smoothing import check_probes, orthonormal, spheres

__all__ = ["exact", "first_order", "guided", "orthogonal", "sphere"]


def sphere(*, smoothing: float = 0.1, directions: int = 1, control: bool = False) -> Estimator:
    """Independent directions, uniform on the unit sphere: the paper's estimator.

    smoothing    eta; below 0.01 float32 rounding shows (a warning says so)
    directions   K directions per client and round, 2 K solves
    control      subtract the known partial gradient, see `control`; the client then sends g instead of values
    """
    return _isotropic("sphere", spheres, smoothing, directions, control)


def orthogonal(*, smoothing: float = 0.1, directions: int = 1, control: bool = False) -> Estimator:
    """Orthonormal directions: as `sphere`, with less variance for K > 1. K = n gives the gradient of a quadratic itself."""
    return _isotropic("orthogonal", orthonormal, smoothing, directions, control)


def first_order() -> Estimator:
    """grad_x f2(x, y) with y held fixed, after one solve of 2 H steps. Biased by J^T grad_y f2."""
    return _at_x("first_order", partial_gradient)


def exact() -> Estimator:
    """The hypergradient by the implicit function theorem, after one solve of 2 H steps. Wrong where a constraint is active."""
    return _at_x("exact", hypergradient)


def _at_x(name: str, rule: Callable[[ClientSide], PyTree]) -> Estimator:
    def estimate(slopes: Float[Array, "0"], v: PyTree, key: Key[Array, ""], client: ClientSide | None) -> PyTree:
        return rule(at_client(client))

    return Estimator(name, lambda key, x, memory: (), estimate)


def _isotropic(
    name: str, draw: Callable[[Key[Array, ""], PyTree, int], PyTree], smoothing: float, directions: int, control: bool
) -> Estimator:
    check_probes(smoothing, directions)

    def propose(key: Key[Array, ""], x: PyTree, memory: PyTree) -> PyTree:
        return draw(key, x, directions)

    def estimate(slopes: Float[Array, "K"], v: PyTree, key: Key[Array, ""], client: ClientSide | None) -> PyTree:
        n = trees.size(trees.take(v, 0))
        return trees.weighted_sum(n / slopes.shape[0] * slopes, v)  # unbiased, because E n v v^T = I

    chosen = Estimator(name, propose, estimate, smoothing, directions, private=False, common=True, stretched=True)
    return controlled(chosen) if control else chosen
