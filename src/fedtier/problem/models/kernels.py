"""Convolution and 2x2 pooling in one: kernels for GPUs, where many small nets step side by side.

As a product of patches, a step of small nets spends its time on moving patches: nine copies of every pixel, written and read
again in both directions. Here patches are gathered while they are multiplied, the four values of a square stay in registers,
and the largest is written with its place. Backwards, a slope is put at that place while it is read.

    forward     the largest of patches @ kernel in each square, and where it was, 0 to 3
    of_kernel   patches^T @ slopes, a block of the kernel's rows at a time
    of_images   slopes @ kernel^T, one place of the kernel after another

A factor in float32 is the sum of two numbers in bfloat16, and a product the products of their parts: five digits, as everywhere
on a GPU (docs/speed.md). Images, kernels and slopes are passed flat, as memory has them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float, Int

LEAST, FEW = 16, 4  # the least side of a matrix unit's product; so few channels are read for several pixels at once
ROOM = 8192  # numbers that a program sums up at once: 64 registers of each of its 128 threads
CHUNK, CHUNKS = 64, 4  # squares at once, and times a program of `of_kernel` takes so many

Interpreted = bool


class Form(NamedTuple):
    """The sizes of one stage: rows, images, channels, kernel."""

    rows: int
    height: int  # of an image, without its border
    width: int
    channels: int
    out: int
    side: int  # of the kernel
    border: int  # of zeros
    parts: int  # bfloat16 numbers that a number is the sum of

    @property
    def pooled(self) -> tuple[int, int]:
        """Height and width of what comes out; an odd last row or column is left out."""
        return (self.height + 2 * self.border - self.side + 1) // 2, (self.width + 2 * self.border - self.side + 1) // 2

    @property
    def squares(self) -> int:
        return self.rows * self.pooled[0] * self.pooled[1]

    @property
    def span(self) -> int:
        """Pixels beside each other that are read at once: one, or a whole row of the kernel where channels are few."""
        return _power(self.side) if self.channels <= FEW else 1

    @property
    def steps(self) -> int:
        """Such reads for a patch."""
        return self.side if self.span > 1 else self.side**2

    @property
    def lanes(self) -> int:
        """Numbers that stand for a channel in a pixel, zeros included."""
        return FEW if self.span > 1 else max(_power(self.channels), LEAST // self.parts)

    @property
    def deep(self) -> int:
        """Numbers that a read brings."""
        return self.span * self.parts * self.lanes

    @property
    def line(self) -> int:
        """Pixels of an image's row, with its border and what a read takes beyond it."""
        return self.width + 2 * self.border + self.span - (self.side if self.span > 1 else 1)


def convolved_largest(
    images: Float[Array, "B H W C"], kernel: Float[Array, "patch O"], side: int, border: int, interpret: Interpreted = False
) -> Float[Array, "B h w O"]:
    """The largest of each 2x2 square of the convolution, the first of equals."""
    rows, height, width, channels = images.shape
    parts = 1 if images.dtype == jnp.bfloat16 else 2
    return _stage(images, kernel, Form(rows, height, width, channels, kernel.shape[1], side, border, parts), interpret)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _stage(images: Array, kernel: Array, form: Form, interpret: Interpreted) -> Array:
    return _forward(images, kernel, form, interpret)[0]


def _forward(images: Array, kernel: Array, form: Form, interpret: Interpreted) -> tuple[Array, tuple[Array, Array, Array]]:
    edge, beyond = form.border, form.line - form.width - form.border
    wider = ((0, 0), (edge, edge), (edge, beyond))
    much = lax.reduce_precision(images, exponent_bits=8, mantissa_bits=7)  # XLA would take the digits back from a plain cast
    parts = [much, images - much][: form.parts]
    laid = [jnp.pad(part.astype(jnp.bfloat16), (*wider, (0, form.lanes - form.channels))) for part in parts]
    pixels = jnp.concatenate(laid, axis=-1).reshape(-1)
    count, high = form.squares * form.out, min(ROOM // (4 * _block(form.out)), 128)
    shapes = (jax.ShapeDtypeStruct((count,), images.dtype), jax.ShapeDtypeStruct((count,), jnp.int8))
    run = _program(functools.partial(_forward_kernel, form=form, high=high), shapes, (pl.cdiv(form.squares, high),), interpret)
    values, places = run(pixels, kernel.reshape(-1))
    return values.reshape(form.rows, *form.pooled, form.out), (pixels, kernel, places)


def _backward(form: Form, interpret: Interpreted, kept: tuple[Array, Array, Array], slope: Array) -> tuple[Array, Array]:
    pixels, kernel, places = kept
    slope = slope.reshape(-1)
    splits = pl.cdiv(form.squares, CHUNKS * CHUNK)
    shape = jax.ShapeDtypeStruct((splits, form.steps, form.deep, form.out), jnp.float32)
    warps = 2 if form.deep <= 32 else 4
    run = _program(functools.partial(_of_kernel, form=form), shape, (form.steps, splits), interpret, warps=warps)
    found = run(pixels, slope, places).reshape(splits, form.side, -1, form.parts, form.lanes, form.out)
    of_kernel = found.sum(axis=(0, 3))[:, : form.side, : form.channels].reshape(kernel.shape)

    count = form.rows * form.height * form.width
    high = min(ROOM // (2 * _block(form.channels)), 128)
    shape = jax.ShapeDtypeStruct((count * form.channels,), slope.dtype)
    run = _program(functools.partial(_of_images, form=form, high=high), shape, (pl.cdiv(count, high),), interpret, stages=1)
    of_images = run(slope, places, kernel.reshape(-1))
    return of_images.reshape(form.rows, form.height, form.width, form.channels), of_kernel.astype(kernel.dtype)


_stage.defvjp(_forward, _backward)


def _program(
    kernel: Callable[..., None], shapes: Any, grid: tuple[int, ...], interpret: Interpreted, warps: int = 4, stages: int = 2
) -> Callable[..., Any]:
    """Warps and stages by measurement on an H200."""
    how = triton.CompilerParams(num_warps=warps, num_stages=stages)
    return pl.pallas_call(kernel, out_shape=shapes, grid=grid, compiler_params=how, interpret=interpret)


def _forward_kernel(pixels, kernel, out, where, *, form, high):
    wide = _block(form.out)
    square = pl.program_id(0) * high + jnp.arange(high)
    inside = jnp.broadcast_to((square < form.squares)[:, None], (high, form.deep))
    read = _corners(form, square)[:, None] * (form.parts * form.lanes) + jnp.arange(form.deep)[None, :]
    lane, column = jnp.arange(form.deep), jnp.arange(wide)
    pixel, part, channel = _digits(lane, form.parts, form.lanes)
    known = (channel < form.channels) & (pixel < form.side)

    def deeper(step, sums):
        row = (step * (form.side if form.span > 1 else 1) + pixel) * form.channels + channel
        factor = triton.load(
            kernel.at[row[:, None] * form.out + column[None, :]],
            mask=known[:, None] & (column < form.out)[None, :], other=0.0,
        )  # fmt: skip
        much, rest = _parts(factor)
        rest = jnp.where((part == 0)[:, None], rest, jnp.zeros_like(rest))
        start = _start(form, step)

        def further(total, shift):
            patch = triton.load(pixels.at[read + (start + shift * form.parts * form.lanes)], mask=inside, other=0.0)
            total += _dot(patch, much)
            return total if form.parts == 1 else total + _dot(patch, rest)

        return tuple(map(further, sums, _shifts(form)))

    nothing = jnp.zeros((high, wide), jnp.float32)
    a, b, c, d = lax.fori_loop(0, form.steps, deeper, (nothing,) * 4)
    above, below = jnp.maximum(a, b), jnp.maximum(c, d)  # on a GPU the other one where one is not a number
    place = jnp.where(above >= below, jnp.where(a >= b, 0, 1), jnp.where(c >= d, 2, 3))
    target = square[:, None] * form.out + column[None, :]
    inside = (square < form.squares)[:, None] & (column < form.out)[None, :]
    triton.store(out.at[target], jnp.maximum(above, below).astype(out.dtype), mask=inside)
    triton.store(where.at[target], place.astype(jnp.int8), mask=inside)


def _of_kernel(pixels, slope, where, out, *, form):
    wide, step, split = _block(form.out), pl.program_id(0), pl.program_id(1)
    lane, column, start = jnp.arange(form.deep), jnp.arange(wide), _start(form, step)

    def further(chunk, total):
        square = (split * CHUNKS + chunk) * CHUNK + jnp.arange(CHUNK)
        read = square[:, None] * form.out + column[None, :]
        inside = (square < form.squares)[:, None] & (column < form.out)[None, :]
        slopes = triton.load(slope.at[read], mask=inside, other=0.0)
        places = triton.load(where.at[read], mask=inside, other=0).astype(jnp.int32)
        known = jnp.broadcast_to((square < form.squares)[None, :], (form.deep, CHUNK))
        read = _corners(form, square)[None, :] * (form.parts * form.lanes) + lane[:, None]
        for place, shift in enumerate(_shifts(form)):
            patches = triton.load(pixels.at[read + (start + shift * form.parts * form.lanes)], mask=known, other=0.0)
            for part in _parts(jnp.where(places == place, slopes, jnp.zeros_like(slopes)))[: form.parts]:
                total += _dot(patches, part)
        return total

    total = lax.fori_loop(0, CHUNKS, further, jnp.zeros((form.deep, wide), jnp.float32))
    inside = jnp.broadcast_to((column < form.out)[None, :], (form.deep, wide))
    triton.store(out.at[split, step, lane[:, None], column[None, :]], total, mask=inside)


def _of_images(slope, where, kernel, out, *, form, high):
    wide, deep = _block(form.channels), _block(form.out)
    pixel = pl.program_id(0) * high + jnp.arange(high)
    known = pixel < form.rows * form.height * form.width
    row, y, x = _digits(pixel, form.height, form.width)
    channel, column = jnp.arange(wide), jnp.arange(deep)
    down, across = form.pooled

    def tap(number, total):
        _, tap_y, tap_x = _digits(number, form.side, form.side)
        v, u = y + form.border - tap_y, x + form.border - tap_x  # the pixel of the convolution
        reached = known & (v >= 0) & (u >= 0) & (v < 2 * down) & (u < 2 * across)
        square, place = (row * down + (v >> 1)) * across + (u >> 1), (v & 1) * 2 + (u & 1)
        read = square[:, None] * form.out + column[None, :]
        inside = reached[:, None] & (column < form.out)[None, :]
        slopes = triton.load(slope.at[read], mask=inside, other=0.0)
        places = triton.load(where.at[read], mask=inside, other=0).astype(jnp.int32)
        factor = triton.load(
            kernel.at[(number * form.channels + channel[None, :]) * form.out + column[:, None]],
            mask=(column < form.out)[:, None] & (channel < form.channels)[None, :], other=0.0,
        )  # fmt: skip
        here = jnp.where(places == place[:, None], slopes, jnp.zeros_like(slopes))
        (a, a_rest), (b, b_rest) = _parts(here), _parts(factor)
        total += _dot(a, b)
        return total if form.parts == 1 else total + _dot(a_rest, b) + _dot(a, b_rest)

    total = lax.fori_loop(0, form.side**2, tap, jnp.zeros((high, wide), jnp.float32))
    target = pixel[:, None] * form.channels + channel[None, :]
    inside = known[:, None] & (channel < form.channels)[None, :]
    triton.store(out.at[target], total.astype(out.dtype), mask=inside)


def _corners(form: Form, square: Int[Array, "N"]) -> Int[Array, "N"]:
    """The first pixel that these squares read, counted in their border."""
    row, v, u = _digits(square, *form.pooled)
    return (row * (form.height + 2 * form.border) + 2 * v) * form.line + 2 * u


def _start(form: Form, step: Int[Array, ""]) -> Int[Array, ""]:
    """How far from a patch's first number this step reads."""
    _, y, x = _digits(step * form.side if form.span > 1 else step, form.side, form.side)
    return (y * form.line + x) * (form.parts * form.lanes)


def _shifts(form: Form) -> tuple[int, int, int, int]:
    """The first pixels of a square's four patches, from that of the first."""
    return 0, 1, form.line, form.line + 1


def _digits(number: Int[Array, "..."], middle: int, last: int) -> tuple[Array, Array, Array]:
    """A number that is not negative as (first * middle + second) * last + third."""
    of_last, of_middle = jnp.asarray(last, number.dtype), jnp.asarray(middle, number.dtype)
    higher = lax.div(number, of_last)
    return lax.div(higher, of_middle), lax.rem(higher, of_middle), lax.rem(number, of_last)


def _dot(a: Array, b: Array) -> Array:
    return jnp.dot(a, b, precision=lax.Precision.DEFAULT, preferred_element_type=jnp.float32)


def _parts(a: Array) -> tuple[Array, Array]:
    much = a.astype(jnp.bfloat16)
    return much, (a.astype(jnp.float32) - much.astype(jnp.float32)).astype(jnp.bfloat16)


def _block(size: int) -> int:
    """A power of two, as blocks must have it, and no less than a matrix unit takes."""
    return max(LEAST, _power(size))


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length()
