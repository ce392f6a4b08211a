"""How far the predictions of two models are apart, row by row, from their outputs: a logit per class, or a number.

| name          | D(teacher, student) of a row                | gradient in the student's logits   |
|---------------|---------------------------------------------|------------------------------------|
| kl            | T^2 KL(softmax(t/T) || softmax(s/T))        | T (softmax(s/T) - softmax(t/T))    |
| probabilities | 1/2 |softmax(t) - softmax(s)|^2             | bounded, and 0 for a sure student  |
| logits        | 1/2 |t - s|^2                               | s - t; the only one for numbers    |

The coupling is f2(x, y) = mean over the rows of D(y's, x's), guidance is the same with teacher and student exchanged. The two
squares are symmetric; KL is not, and has the one who is taught as the student in both.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ...errors import choice, positive, require

Outputs = Float[Array, "P C"]
Divergence = Callable[[Outputs, Outputs], Float[Array, "P"]]  # (teacher, student) -> of each row
NAMES = ("kl", "probabilities", "logits")


def divergence_of(name: str, temperature: float | Float[Array, ""] = 1.0) -> Divergence:
    """The divergence of this name; `temperature` T softens both sides of "kl" and has no meaning for the others."""
    choice("divergence", name, NAMES)
    positive("temperature", temperature)
    alone = name == "kl" or not isinstance(temperature, float | int) or temperature == 1
    require(alone, "temperature", temperature, f"has no meaning for {name}", 'leave it out, or divergence = "kl"')
    if name == "logits":
        return lambda teacher, student: 0.5 * jnp.sum((teacher - student) ** 2, axis=-1)
    if name == "probabilities":
        return lambda teacher, student: 0.5 * jnp.sum((jax.nn.softmax(teacher) - jax.nn.softmax(student)) ** 2, axis=-1)

    def kl(teacher: Outputs, student: Outputs) -> Float[Array, "P"]:
        logp, logq = jax.nn.log_softmax(teacher / temperature), jax.nn.log_softmax(student / temperature)
        return temperature**2 * jnp.sum(jnp.exp(logp) * (logp - logq), axis=-1)

    return kl


def mean_over_said(values: Float[Array, "P"], said: Bool[Array, "P"]) -> Float[Array, ""]:
    """The mean over the rows of which something was said; 0 where nothing was."""
    return jnp.sum(jnp.where(said, values, 0.0)) / jnp.maximum(jnp.sum(said), 1)
