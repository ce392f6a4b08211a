"""The two-level problem, from four functions of the user.

    min over x   f1(x) + (1/m) sum_i f2(x, y_i(x))
    where        y_i(x) = argmin over y in Y_i(x) of h_i(x, y)

f1 and h are means over a batch of rows, so a minibatch gives an unbiased estimate. `spec` is whatever differs
between clients and is not data: the default `Spec`, or any pytree whose leaves have one row per client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Float, Int, Key, Num, PyTree, Real, Shaped

from .. import trees
from ..errors import not_negative, positive
from .couplings import Coupling, quadratic
from .models import Model
from .sets import ConstraintSet, everywhere


class Spec(NamedTuple):
    """One client's row. A spec of your own needs `weight` and `step_scale`; what else it holds is up to your functions."""

    weight: Real[ArrayLike, ""]  # m rho_i, rho_i = N_i/N: relative weight, 1 on average
    radius: Real[ArrayLike, ""]  # radius of the ball around x; inf = no constraint
    step_scale: Real[ArrayLike, ""]  # c_i over c: factor on the client's step sizes


class Rows(NamedTuple):
    """A batch, or a whole data set: N labelled rows."""

    inputs: Num[Array | np.ndarray, "N ..."]
    labels: Shaped[Array | np.ndarray, "N"]  # whole numbers, the class; or floats, the target of a regression
    weights: Shaped[Array | np.ndarray, "N"] | None = None  # how much each row counts, 1 on average; None: all alike


@runtime_checkable
class Loss(Protocol):
    """The server's loss, and what the baselines minimise."""

    def __call__(self, x: PyTree, batch: PyTree, /) -> Float[Array, ""]:
        """f1(x): the mean over the rows of `batch`, so that a minibatch is unbiased. Pure, traceable, differentiable in x.

        `batch` has the structure of the data, with B rows in every leaf. The baselines call it on client data, too.
        """
        ...


@runtime_checkable
class ClientLoss(Protocol):
    def __call__(self, x: PyTree, y: PyTree, batch: PyTree, spec: PyTree, /) -> Float[Array, ""]:
        """h_i(x, y): the mean over the rows of `batch`, pure, traceable, differentiable in y.

        `x` is the server's model, `y` the client's, a tree like x; `spec` is that client's row. For the theory: strongly
        convex in y, which proximity > 0 gives to a convex loss.
        """
        ...


@runtime_checkable
class OwnSolver(Protocol):
    def __call__(
        self, x: PyTree, start: PyTree, view: PyTree, spec: PyTree, steps: Int[Array, ""], key: Key[Array, ""], /
    ) -> PyTree:
        """An approximation of y_i(x) after `steps` steps from `start`, instead of projected SGD.

        `view` is the client's window on the data (`federation.View`). Start and answer are projected on Y_i(x) by the caller.
        """
        ...


class Bilevel(NamedTuple):
    """What is solved. Methods call these and nothing else."""

    f1: Loss  # the server's loss
    f2: Coupling
    h: ClientLoss
    Y: ConstraintSet = everywhere()
    solve: OwnSolver | None = None  # none: projected SGD
    central: bool = True  # has the server rows of its own? False: its part of the objective is 0
    model: Model | None = None  # what predicts, for methods that ask for its features or its outputs
    outputs: int = 0  # how many numbers it gives for a row, for methods that must know before they see one

    @property
    def server_loss(self) -> Loss:
        """f1 as the server's part of the objective: 0 where it has no rows. The clients' own use of f1 is not concerned."""
        return self.f1 if self.central else lambda x, batch: jnp.zeros(())


def cross_entropy(model: Model) -> Loss:
    """The mean cross entropy of `model` on a batch."""
    return _mean_loss(lambda x, batch: _row_losses(model.apply(x, batch.inputs).T, batch.labels))


def squared_error(model: Model) -> Loss:
    """The mean of 1/2 (prediction - label)^2, for a model with one output."""
    return _mean_loss(lambda x, batch: 0.5 * residuals(model, x, batch) ** 2)


def huber_error(model: Model, width: float = 1.0) -> Loss:
    """`squared_error` for residuals up to `width`, beyond it linear with slope `width`: outliers pull no harder than that."""
    positive("width", width)
    return _mean_loss(lambda x, batch: optax.losses.huber_loss(residuals(model, x, batch), delta=width))


def residuals(model: Model, x: PyTree, batch: Rows) -> Float[Array, "B"]:
    """prediction - label of each row of a regression."""
    return model.apply(x, batch.inputs)[:, 0] - batch.labels


def _mean_loss(row_losses: Callable[[PyTree, Rows], Float[Array, "B"]]) -> Loss:
    def loss(x: PyTree, batch: Rows) -> Float[Array, ""]:
        losses = row_losses(x, batch)
        return jnp.mean(losses if batch.weights is None else batch.weights * losses)

    return loss


@jax.custom_jvp
def _row_losses(logits: Float[Array, "classes B"], labels: Int[Array, "B"]) -> Float[Array, "B"]:
    """The cross entropy of each row. Classes come first, as in the weights, and the derivative p - onehot is written out:
    a gradient of softmax regression then is two products and little else. It can be differentiated again."""
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels, axis=0)


@_row_losses.defjvp
def _row_losses_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (logits, labels), (dlogits, _) = primals, tangents
    onehot = jnp.arange(logits.shape[0])[:, None] == labels[None]
    return _row_losses(logits, labels), jnp.sum((jax.nn.softmax(logits, axis=0) - onehot) * dlogits, axis=0)


def supervised(
    loss: Loss,
    *,
    penalty: Real[ArrayLike, ""] = 1.0,
    proximity: Real[ArrayLike, ""] = 0.0,
    Y: ConstraintSet | None = None,
) -> Bilevel:
    """The paper's experiments: f1 = loss, f2 = penalty/2 weight |x - y|^2, h = loss + proximity/2 |x - y|^2.

    With proximity 0, h does not see x at all and y_i(x) depends on x only through the start of the solve and
    through Y: say so in a report, or choose proximity > 0.
    """
    not_negative("penalty", penalty)
    not_negative("proximity", proximity)

    def h(x: PyTree, y: PyTree, batch: PyTree, spec: PyTree) -> Float[Array, ""]:
        d = trees.sub(x, y)
        return loss(y, batch) + 0.5 * proximity * trees.dot(d, d)

    return Bilevel(f1=loss, f2=quadratic(penalty), h=h, Y=Y or everywhere())
