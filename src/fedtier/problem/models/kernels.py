"""Convolution and 2x2 pooling in one: kernels for GPUs, where many small nets step side by side.

As a product of patches, a step of small nets spends its time on moving patches: nine copies of every pixel, written and read
again in both directions. Here patches are gathered while they are multiplied, the four values of a square stay in registers,
and the largest is written with its place. Backwards, a slope is put at that place while it is read.

    forward     the largest of patches @ kernel in each square, and where it was, 0 to 3
    of_kernel   patches^T @ slopes, for some places of the kernel at a time
    of_images   slopes @ kernel^T, for the four pixels of a square at once

Patches overlap: a pixel is read once for the two patches beside each other, in a row of the kernel. A factor in float32 is
the sum of two numbers in bfloat16, and a product three products of their parts: five digits, as everywhere on a GPU
(docs/speed.md). Factors are split before, and each part is passed flat, as memory has it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Bool, Float, Int

LEAST, FEW = 16, 4  # the least side of a matrix unit's product; so few channels are read for several pixels at once

Interpreted = bool


class Size(NamedTuple):
    """How much a program does at once, and with what."""

    squares: int
    warps: int
    stages: int = 2
    times: int = 1  # so many squares so often
    whole: bool = True  # places of a whole row of the kernel, or one

    @property
    def all(self) -> int:
        return self.squares * self.times


# The fastest of 7 to 16 tried on an H200 for each stage of 50 small nets, by parts of a number and width of a block of outputs;
# other nets have those of their width, untried.
FORWARD = {
    (2, 16): Size(32, 2, 1), (2, 32): Size(32, 2), (2, 64): Size(32, 4),
    (1, 16): Size(64, 2), (1, 32): Size(32, 2), (1, 64): Size(32, 4),
}  # fmt: skip
OF_KERNEL = {
    (2, 16): Size(16, 1, 1, times=8), (2, 32): Size(16, 2, 3, times=16), (2, 64): Size(32, 4, 3, times=4),
    (1, 16): Size(32, 2, times=8), (1, 32): Size(64, 2, times=4, whole=False), (1, 64): Size(64, 2, times=2, whole=False),
}  # fmt: skip
OF_IMAGES = Size(64, 4, 1)


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
    def quartered(self) -> tuple[int, int, int]:
        """Rows, and squares of four pixels of an image down and across, the last ones perhaps not whole."""
        return self.rows, (self.height + 1) // 2, (self.width + 1) // 2

    @property
    def even(self) -> bool:
        return self.height % 2 == self.width % 2 == 0

    @property
    def quarters(self) -> int:
        rows, down, across = self.quartered
        return rows * down * across

    @property
    def span(self) -> int:
        """Pixels beside each other that are read at once: one, or a whole row of the kernel where channels are few."""
        return _power(self.side) if self.channels <= FEW else 1

    @property
    def steps(self) -> int:
        """Such reads for a patch."""
        return self.side if self.span > 1 else self.side**2

    @property
    def taps(self) -> int:
        """Such reads for a row of the kernel."""
        return self.steps // self.side

    @property
    def lanes(self) -> int:
        """Numbers that stand for a channel in a pixel, zeros included."""
        return FEW if self.span > 1 else max(_power(self.channels), LEAST)

    @property
    def deep(self) -> int:
        """Numbers that a read brings."""
        return self.span * self.lanes

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


def _forward(
    images: Array, kernel: Array, form: Form, interpret: Interpreted
) -> tuple[Array, tuple[list[Array], Array, Array]]:
    edge, beyond = form.border, form.line - form.width - form.border
    around = ((0, 0), (edge, edge), (edge, beyond), (0, form.lanes - form.channels))
    pixels = [jnp.pad(part, around).reshape(-1) for part in _parts(images, form)]
    factors = _parts(_as_read(kernel, form), form)
    count, size = form.squares * form.out, FORWARD[form.parts, _block(form.out)]
    shapes = (jax.ShapeDtypeStruct((count,), images.dtype), jax.ShapeDtypeStruct((count,), jnp.int8))
    run = _program(_forward_kernel, form, size, shapes, (pl.cdiv(form.squares, size.squares),), interpret)
    values, places = run(*pixels, *map(jnp.ravel, factors))
    return values.reshape(form.rows, *form.pooled, form.out), (pixels, kernel, places)


def _backward(form: Form, interpret: Interpreted, kept: tuple[list[Array], Array, Array], slope: Array) -> tuple[Array, Array]:
    pixels, kernel, places = kept
    slopes = [part.reshape(-1) for part in _parts(slope, form)]
    size, wide = OF_KERNEL[form.parts, _block(form.out)], _block(form.out)
    splits, taps = pl.cdiv(form.squares, size.all), form.taps if size.whole else 1
    shape = jax.ShapeDtypeStruct((splits, form.steps // taps, taps, form.deep, wide), jnp.float32)
    run = _program(_of_kernel, form, size, shape, (form.steps // taps, splits), interpret)
    found = run(places, *pixels, *slopes).reshape(splits, form.side, -1, form.lanes, wide)
    of_kernel = found.sum(axis=0)[:, : form.side, : form.channels, : form.out].reshape(kernel.shape)

    turned = kernel.reshape(form.side**2, form.channels, form.out).transpose(0, 2, 1)
    turned = jnp.pad(turned, ((0, 0), (0, wide - form.out), (0, _block(form.channels) - form.channels)))
    shape = jax.ShapeDtypeStruct((form.rows * form.height * form.width * form.channels,), slope.dtype)
    run = _program(_of_images, form, OF_IMAGES, shape, (pl.cdiv(form.quarters, OF_IMAGES.squares),), interpret)
    of_images = run(places, *slopes, *map(jnp.ravel, _parts(turned, form)))
    return of_images.reshape(form.rows, form.height, form.width, form.channels), of_kernel.astype(kernel.dtype)


_stage.defvjp(_forward, _backward)


def _parts(numbers: Array, form: Form) -> list[Array]:
    """One number in bfloat16 for each, or two that sum up to it; XLA would take the digits back from a plain cast."""
    much = lax.reduce_precision(numbers, exponent_bits=8, mantissa_bits=7)
    return [part.astype(jnp.bfloat16) for part in (much, numbers - much)[: form.parts]]


def _as_read(kernel: Array, form: Form) -> Float[Array, "steps span lanes wide"]:
    """The kernel in the order in which pixels are read, with zeros where there is nothing."""
    known = kernel.reshape(form.steps, -1, form.channels, form.out)  # one pixel a step, or a row of the kernel
    room = (form.span - known.shape[1], form.lanes - form.channels, _block(form.out) - form.out)
    return jnp.pad(known, ((0, 0), *((0, more) for more in room)))


def _program(
    kernel: Callable[..., None], form: Form, size: Size, shapes: Any, grid: tuple[int, ...], interpret: Interpreted
) -> Callable[..., Any]:
    how = triton.CompilerParams(num_warps=size.warps, num_stages=size.stages)
    body = functools.partial(kernel, form=form, size=size)
    return pl.pallas_call(body, out_shape=shapes, grid=grid, compiler_params=how, interpret=interpret)


def _forward_kernel(*refs, form, size):
    pixels, factors, (out, where) = refs[: form.parts], refs[form.parts : -2], refs[-2:]
    wide = _block(form.out)
    square = pl.program_id(0) * size.squares + jnp.arange(size.squares)
    known = _known(form, square, size)
    known = None if known is None else jnp.broadcast_to(known[:, None], (size.squares, form.deep))
    corner = _corners(form, square)[:, None] * form.lanes + jnp.arange(form.deep)[None, :]
    cell = jnp.arange(form.deep)[:, None] * wide + jnp.arange(wide)[None, :]

    def row(y, sums):
        sums, first = list(sums), y * form.taps
        parts = [_all_at(factors, cell + (first + x) * (form.deep * wide)) for x in range(form.taps)]
        for down, x in _pixels(form.taps):
            patches = _all_at(pixels, corner + ((y + down) * form.line + x) * form.lanes, known)
            for right, tap in _uses(x, form.taps):
                for one, other in _products(form):
                    sums[2 * down + right] += _dot(patches[one], parts[tap][other])
        return tuple(sums)

    a, b, c, d = lax.fori_loop(0, form.side, row, (jnp.zeros((size.squares, wide), jnp.float32),) * 4)
    above, below = jnp.maximum(a, b), jnp.maximum(c, d)  # on a GPU the other one where one is not a number
    place = jnp.where(above >= below, jnp.where(a >= b, 0, 1), jnp.where(c >= d, 2, 3))
    target, inside = _cells(form, square, size)
    triton.store(out.at[target], jnp.maximum(above, below).astype(out.dtype), mask=inside)
    triton.store(where.at[target], place.astype(jnp.int8), mask=inside)


def _of_kernel(where, *refs, form, size):
    pixels, slopes, out = refs[: form.parts], refs[form.parts : -1], refs[-1]
    group, split = pl.program_id(0), pl.program_id(1)
    taps, lane, column = form.taps if size.whole else 1, jnp.arange(form.deep), jnp.arange(_block(form.out))
    start = _start(form, group * taps)

    def further(number, totals):
        totals = list(totals)
        square = (split * size.times + number) * size.squares + jnp.arange(size.squares)
        read, inside = _cells(form, square, size)
        places, parts = _at(where, read, inside).astype(jnp.int32), _all_at(slopes, read, inside)
        known = _known(form, square, size)
        known = None if known is None else jnp.broadcast_to(known[None, :], (form.deep, size.squares))
        corner = _corners(form, square)[None, :] * form.lanes + lane[:, None]
        for down in (0, 1):
            here = [[_where(places == 2 * down + right, part) for part in parts] for right in (0, 1)]
            for x in range(taps + 1):
                patches = _all_at(pixels, corner + (start + (down * form.line + x) * form.lanes), known)
                for right, tap in _uses(x, taps):
                    for one, other in _products(form):
                        totals[tap] += _dot(patches[one], here[right][other])
        return tuple(totals)

    nothing = jnp.zeros((form.deep, column.size), jnp.float32)
    totals = lax.fori_loop(0, size.times, further, (nothing,) * taps)
    for tap, total in enumerate(totals):
        triton.store(out.at[split, group, tap, lane[:, None], column[None, :]], total)


def _of_images(where, *refs, form, size):
    slopes, factors, out = refs[: form.parts], refs[form.parts : -1], refs[-1]
    wide, deep = _block(form.channels), _block(form.out)
    (down, across), (_, quarter_height, quarter_width) = form.pooled, form.quartered
    quarter = pl.program_id(0) * size.squares + jnp.arange(size.squares)
    row, v, u = _digits(quarter, quarter_height, quarter_width)
    channel, column = jnp.arange(wide), jnp.arange(deep)
    cell = column[:, None] * wide + channel[None, :]
    exist = None if form.quarters % size.squares == 0 else quarter < form.quarters
    last = form.border + 1  # the convolution's pixels that a quarter reaches: `side` + 1 of them, up to this one

    def upwards(tap, totals):
        totals = list(totals)
        parts = [_all_at(factors, cell + (tap * form.side + x) * (deep * wide)) for x in range(form.side)]
        for i in (0, 1):
            y = i + form.border - tap
            above, odd = v + (y >> 1), y & 1
            for left in range((last - form.side) >> 1, (last >> 1) + 1):
                beside = u + left
                reached = (above >= 0) & (above < down) & (beside >= 0) & (beside < across)
                read = ((row * down + above) * across + beside)[:, None] * form.out + column[None, :]
                inside = _both(reached if exist is None else exist & reached, size.squares, form.out, deep)
                places, found = _at(where, read, inside).astype(jnp.int32), _all_at(slopes, read, inside)
                for x in (2 * left, 2 * left + 1):
                    uses = [(j, j + form.border - x) for j in (0, 1) if 0 <= j + form.border - x < form.side]
                    here = [_where(places == odd * 2 + (x & 1), part) for part in found] if uses else []
                    for j, tap_x in uses:
                        for one, other in _products(form):
                            totals[2 * i + j] += _dot(here[one], parts[tap_x][other])
        return tuple(totals)

    totals = lax.fori_loop(0, form.side, upwards, (jnp.zeros((size.squares, wide), jnp.float32),) * 4)
    for number, total in enumerate(totals):
        y, x = 2 * v + number // 2, 2 * u + number % 2
        target = ((row * form.height + y) * form.width + x)[:, None] * form.channels + channel[None, :]
        known = exist if form.even else (quarter < form.quarters) & (y < form.height) & (x < form.width)
        triton.store(out.at[target], total.astype(out.dtype), mask=_both(known, size.squares, form.channels, wide))


def _products(form: Form) -> tuple[tuple[int, int], ...]:
    """Which parts of two factors are multiplied; the product of what is left of both is beyond the digits."""
    return ((0, 0), (1, 0), (0, 1))[: 2 * form.parts - 1]


def _pixels(taps: int) -> list[tuple[int, int]]:
    """The pixels, (down, right), that the four patches of a square read for one row of the kernel."""
    return [(down, x) for down in (0, 1) for x in range(taps + 1)]


def _uses(x: int, taps: int) -> list[tuple[int, int]]:
    """(which patch of the two beside each other, which place of the kernel) for a pixel so far to the right."""
    return [(right, x - right) for right in (0, 1) if 0 <= x - right < taps]


def _known(form: Form, square: Int[Array, "N"], size: Size) -> Bool[Array, "N"] | None:
    """Which of these squares there are; None: all."""
    return None if form.squares % size.all == 0 else square < form.squares


def _cells(form: Form, square: Int[Array, "N"], size: Size) -> tuple[Int[Array, "N wide"], Bool[Array, "N wide"] | None]:
    """Where the numbers of these squares are, and which there are; None: all."""
    wide = _block(form.out)
    return square[:, None] * form.out + jnp.arange(wide)[None, :], _both(
        _known(form, square, size), square.size, form.out, wide
    )


def _both(rows: Bool[Array, "N"] | None, count: int, columns: int, wide: int) -> Bool[Array, "N wide"] | None:
    """Which numbers of a block of `count` rows there are: those of these rows and of so many columns; None: all. Masks cost
    time."""
    if rows is None and columns == wide:
        return None
    rows = jnp.ones(count, bool) if rows is None else rows
    return (
        jnp.broadcast_to(rows[:, None], (count, wide))
        if columns == wide
        else rows[:, None] & (jnp.arange(wide) < columns)[None, :]
    )


def _at(numbers: Any, index: Array, inside: Array | None = None) -> Array:
    return triton.load(numbers.at[index]) if inside is None else triton.load(numbers.at[index], mask=inside, other=0)


def _all_at(several: Sequence[Any], index: Array, inside: Array | None = None) -> list[Array]:
    return [_at(numbers, index, inside) for numbers in several]


def _where(here: Bool[Array, "..."], numbers: Array) -> Array:
    return jnp.where(here, numbers, jnp.zeros_like(numbers))


def _corners(form: Form, square: Int[Array, "N"]) -> Int[Array, "N"]:
    """The first pixel that these squares read, counted in their border."""
    row, v, u = _digits(square, *form.pooled)
    return (row * (form.height + 2 * form.border) + 2 * v) * form.line + 2 * u


def _start(form: Form, step: Int[Array, ""]) -> Int[Array, ""]:
    """How far from a patch's first number this step reads."""
    _, y, x = _digits(step * form.side if form.span > 1 else step, form.side, form.side)
    return (y * form.line + x) * form.lanes


def _digits(number: Int[Array, "..."], middle: int, last: int) -> tuple[Array, Array, Array]:
    """A number that is not negative as (first * middle + second) * last + third."""
    of_last, of_middle = jnp.asarray(last, number.dtype), jnp.asarray(middle, number.dtype)
    higher = lax.div(number, of_last)
    return lax.div(higher, of_middle), lax.rem(higher, of_middle), lax.rem(number, of_last)


def _dot(a: Array, b: Array) -> Array:
    return jnp.dot(a, b, precision=lax.Precision.DEFAULT, preferred_element_type=jnp.float32)


def _block(size: int) -> int:
    """A power of two, as blocks must have it, and no less than a matrix unit takes."""
    return max(LEAST, _power(size))


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length()
