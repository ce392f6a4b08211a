"""Clipping and Gaussian noise around a method: what it sends is bounded, what becomes known of it is noisy.

    d_i <- d_i min(1, C/|d_i|)          at client i: what is averaged, every client counted alike
    central       x moves by (sum_S d_i + N(0, sigma^2 C^2 I)) / E|S|           the server adds the noise
    distributed   d_i + N(0, sigma^2 C^2/k I) leaves the client                 k replies have the noise of one sum
    local         d_i + N(0, sigma^2 C^2 I) leaves the client                   each reply has it alone

Dwork, McSherry, Nissim, Smith 2006; for federations: McMahan, Ramage, Talwar, Zhang, "Learning Differentially Private
Recurrent Language Models", ICLR 2018, https://arxiv.org/abs/1710.06963. A reply that is not finite counts as 0, so that what
one client sends never changes what becomes of another's reply. Adaptive clipping, Andrew, Thakkar, McMahan, Ramaswamy,
"Differentially Private Learning with Adaptive Clipping", NeurIPS 2021, https://arxiv.org/abs/1905.03871:

    b_i = [|d_i| <= C];  bbar = 1/2 + (sum_S (b_i - 1/2) + N(0, sigma_b^2)) / E|S|;  C <- C exp(-rate (bbar - quantile))

whose one more number a round is paid by more noise on d: sigma_d^-2 = sigma^-2 - (2 sigma_b)^-2, so that both cost sigma.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from .. import keys, trees
from ..errors import choice, positive, share, whole
from ..federation import View
from ..keys import Tag
from ..methods.method import ClientSpec, Contribution, Method, Opening, Round, Sums, Turn, counted_alike
from ..methods.summed import sums_of

PLACES = ("central", "distributed", "local")
BITS = 20  # sigma_b is E|S|/BITS unless told: the authors' choice


class Adaptive(NamedTuple):
    """Clipping that follows a quantile of the lengths."""

    quantile: float = 0.5  # gamma: the share of replies that is not clipped
    rate: float = 0.2  # eta_C


class Mechanism(NamedTuple):
    """See the module. `check` refuses what has no meaning."""

    place: str  # who adds the noise
    clip: float  # C; where it adapts, the first one
    noise: float  # sigma
    expected: float  # E|S|: what the mean divides by where the server adds the noise
    quorum: int = 1  # k: distributed noise is right from so many replies on, and rounds with fewer are not used
    adaptive: Adaptive | None = None
    masked: bool = False  # are replies masked between machines, where each gets its noise as whole numbers?

    def check(self) -> None:
        choice("place", self.place, PLACES)
        positive("clip", self.clip)
        positive("noise", self.noise)
        positive("expected", self.expected)
        whole("quorum", self.quorum)
        if self.adaptive is not None:
            share("adaptive", self.adaptive.quantile, zero=False)
            positive("rate", self.adaptive.rate)

    @property
    def bit_noise(self) -> float:
        """sigma_b: at least sigma, so that sigma_d is at most 1.16 sigma."""
        return self.noise if self.place == "local" else max(self.expected / BITS, self.noise)

    @property
    def value_noise(self) -> float:
        """sigma_d."""
        return self.noise if self.adaptive is None else (self.noise**-2 - (2 * self.bit_noise) ** -2) ** -0.5

    @property
    def at_client(self) -> float:
        """The share of sigma that a client adds to its reply in floating point."""
        if self.masked:
            return 0.0
        return {"central": 0.0, "local": 1.0, "distributed": 1 / math.sqrt(self.quorum)}[self.place]


class Server(NamedTuple):
    inner: PyTree  # the method's own state
    clip: PyTree  # C, where it adapts


class Shared(NamedTuple):
    inner: PyTree  # the method's own message
    clip: PyTree


class Up(NamedTuple):
    value: PyTree  # d_i, clipped; with its noise, where the client adds some
    short: PyTree  # b_i - 1/2, where the clip adapts


def private(method: Method, mechanism: Mechanism) -> Method:
    """`method` under the mechanism. Refuses a method whose rounds depend on more than sums of its replies."""
    sums = sums_of(method, "privacy", mechanism.place)
    mechanism.check()
    how, adaptive = mechanism, mechanism.adaptive

    def clip_of(state: Server | Shared) -> Float[Array, ""]:
        return state.clip if adaptive else jnp.asarray(how.clip)

    def broadcast(server: Server, opening: Opening) -> Shared:
        return Shared(method.broadcast(server.inner, opening), server.clip)

    def local(client: PyTree, shared: Shared, own: PyTree, view: View, spec: ClientSpec, turn: Turn) -> tuple[PyTree, Up]:
        after, up = method.local(client, shared.inner, own, view, spec, turn)
        clip = clip_of(shared)
        value, length = clipped(sums.share(up, spec).mean, clip)
        short = jnp.where(length <= clip, 0.5, -0.5) if adaptive else ()
        return after, noised(Up(value, short), how, how.at_client, clip, keys.at(turn.key, Tag.NOISE))

    def aggregate(server: Server, owns: PyTree, ups: Up, specs: PyTree, round: Round) -> tuple[Server, PyTree]:
        count = jnp.sum(round.arrived).astype(jnp.float32)
        total = trees.weighted_sum(round.arrived.astype(jnp.float32), ups)
        return conclude(server, Contribution(total, count, jnp.ones(())), round.opening)

    def conclude(server: Server, summed: Contribution, opening: Opening) -> tuple[Server, PyTree]:
        clip, total, count = clip_of(server), summed.value, summed.weight
        if how.place == "central":  # nobody learns how many there were
            total = noised(total, how, 1.0, clip, keys.at(opening.key, Tag.NOISE))
            count = jnp.asarray(how.expected, jnp.float32)
        inner, info = sums.conclude(server.inner, Contribution(total.value, count, jnp.ones(())), opening)
        after = Server(inner, _adapted(clip, total.short, count, adaptive))
        if how.place == "central":
            return after, info
        enough = count >= (how.quorum if how.place == "distributed" else 1)
        return trees.where(enough, after, server), info

    return method._replace(
        server_init=lambda x: Server(method.server_init(x), jnp.asarray(how.clip) if adaptive else ()),
        broadcast=broadcast,
        address=lambda server, turn: method.address(server.inner, turn),
        offer=None if method.offer is None else lambda server, turn: method.offer(server.inner, turn),  # pyright: ignore
        local=local,
        aggregate=aggregate,
        global_model=lambda server: method.global_model(server.inner),
        seat=False,
        sums=Sums(lambda up, spec: counted_alike(up), conclude),
    )


def clipped(value: PyTree, clip: Float[Array, ""]) -> tuple[PyTree, Float[Array, ""]]:
    """(`value` shortened to `clip` where it is longer, its length before); 0 where it is not finite."""
    length = trees.norm(value)
    factor = jnp.minimum(1.0, clip / jnp.maximum(length, jnp.finfo(jnp.float32).tiny))
    sound = jnp.isfinite(length) & trees.all_finite(value)
    return trees.where(sound, trees.scale(factor, value), trees.zeros_like(value)), length


def noised(up: Up, how: Mechanism, part: float, clip: Float[Array, ""], key: Key[Array, ""]) -> Up:
    """`up` with `part` of the mechanism's noise; as it is for 0."""
    if part == 0:
        return up
    noise, bits = keys.normal(key, up), 0.0 if how.adaptive is None else part * how.bit_noise
    value = trees.axpy(part * how.value_noise * clip, noise.value, up.value)
    return Up(value, trees.axpy(bits, noise.short, up.short))


def _adapted(clip: Float[Array, ""], short: PyTree, count: Float[Array, ""], adaptive: Adaptive | None) -> PyTree:
    if adaptive is None:
        return ()
    unclipped = 0.5 + short / jnp.maximum(count, 1.0)
    return clip * jnp.exp(-adaptive.rate * (unclipped - adaptive.quantile))
