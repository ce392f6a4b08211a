"""What a client lets out of its predictions: fewer digits, the likeliest classes only, noise. All of it is optional.

    p <- softmax(outputs);  p + noise * normal;  all but the `top` largest are 0;  rounded to `decimals`;  back to logits

A class with nothing left has the probability LEAST. What this protects and what it does not is in docs/threat-model.md: it is
coarser, not private; a bound that holds against anybody needs the noise of differential privacy.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from ... import keys
from ...errors import not_negative, whole
from ...keys import Tag
from .divergences import Outputs
from .learners import Said

LEAST = 1e-4  # of a class that a client says nothing of


class Disclosure(NamedTuple):
    """How coarse a client's predictions are when they leave it; 0 everywhere: as they are."""

    decimals: int = 0  # of a probability
    top: int = 0  # classes of which a probability is told
    noise: float = 0.0  # deviation of what is added to a probability

    def check(self) -> Disclosure:
        """Refuses what has no meaning."""
        whole("decimals", self.decimals, 0)
        whole("top", self.top, 0)
        not_negative("noise", self.noise)
        return self

    def of(self, said: Said, key: Key[Array, ""]) -> Said:
        """What leaves the client; `key` is that of its turn."""
        if self == PLAIN:
            return said
        return said._replace(outputs=jnp.where(said.said[:, None], self._coarse(said.outputs, key), 0.0))

    def _coarse(self, outputs: Outputs, key: Key[Array, ""]) -> Outputs:
        p = jax.nn.softmax(outputs)
        if self.noise:
            p = jnp.maximum(p + self.noise * jax.random.normal(keys.at(key, Tag.COARSE), p.shape), 0.0)
        if self.top and self.top < p.shape[-1]:
            p = jnp.where(p >= jax.lax.top_k(p, self.top)[0][:, -1:], p, 0.0)
        if self.decimals:
            p = jnp.round(p, self.decimals)
        return jnp.log(jnp.maximum(p, LEAST))


PLAIN = Disclosure()  # everything as it is
