"""Where the time of a net's gradient goes on one core: how much is products of matrices, which nothing here can make faster.

    python bench/net_step.py          prints the table; half a minute

The small convolutional net of W5 on a minibatch of 32 pictures. The parts take turns in one process, and the least time of each
counts. Beside them the same products by NumPy's BLAS.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import jax.numpy as jnp
import numpy as np

from fedtier.compilation import jitted
from fedtier.problem.models import cnn
from fedtier.problem.models.layers import patches_of, pooled, product_of

BATCH, TURNS = 32, 60
STAGES = ((32, 3, 16), (16, 16, 32), (8, 32, 64))  # side of the images, their channels, the kernel's outputs

Part = Callable[..., Any]


def drawn(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def pulled(function: Part) -> Part:
    """function and its slopes: (arguments, slopes of what it gives) -> slopes of the arguments."""
    return lambda pairs: [jax.vjp(function, *given)[1](back) for given, back in pairs]


def slopes_of_products(given: list[tuple[Any, Any, Any]]) -> list[Any]:
    """What the slopes of patches @ kernel take: the pictures themselves have none."""
    first, *others = given
    patches, kernel, back = first
    own = jax.vjp(lambda kernel: product_of(patches, kernel), kernel)[1](back)
    return [own, *(jax.vjp(product_of, patches, kernel)[1](back) for patches, kernel, back in others)]


def by_numpy(arrays: list[tuple[Any, Any, Any]]) -> list[Any]:
    """The same products, forward and backward."""
    return [(p @ k, p.T @ g, *([g @ k.T] if place else [])) for place, (p, k, g) in enumerate(arrays)]


def parts() -> dict[str, tuple[Part, Any]]:
    images = [drawn(BATCH, side, side, channels) for side, channels, _ in STAGES]
    patches = [drawn(BATCH, side, side, 9 * channels) for side, channels, _ in STAGES]
    values = [drawn(BATCH, side, side, outputs) for side, _, outputs in STAGES]
    halves = [drawn(BATCH, side // 2, side // 2, outputs) for side, _, outputs in STAGES]
    kernels = [drawn(9 * channels, outputs) for _, channels, outputs in STAGES]
    model = cnn(10)
    x, pictures = model.init(jax.random.key(0)), drawn(BATCH, 3, 32, 32)

    def loss(x: Any) -> jax.Array:
        return -jnp.mean(jax.nn.log_softmax(model.apply(x, pictures))[:, 0])

    given = list(zip(patches, kernels, values, strict=True))
    return {
        "gradient": (jax.grad(loss), x),
        "forward": (lambda x: model.apply(x, pictures), x),
        "products, forward": (lambda given: [product_of(p, k) for p, k, _ in given], given),
        "products, backward": (slopes_of_products, given),
        "patches": (lambda images: [patches_of(image) for image in images], images),
        "patches, backward": (pulled(patches_of), [((i,), p) for i, p in zip(images[1:], patches[1:], strict=True)]),
        "pooling and ReLU, both ways": (
            pulled(lambda v: jax.nn.relu(pooled(v))), [((v,), h) for v, h in zip(values, halves, strict=True)]
        ),
    }  # fmt: skip


def main() -> None:
    calls = {name: (jitted(part), given) for name, (part, given) in parts().items()}
    rng = np.random.default_rng(1)
    sizes = [(BATCH * side**2, 9 * channels, outputs) for side, channels, outputs in STAGES]
    plain = [tuple(rng.standard_normal(s).astype(np.float32) for s in ((m, d), (d, o), (m, o))) for m, d, o in sizes]
    calls["the products by NumPy"] = (by_numpy, plain)
    least = dict.fromkeys(calls, float("inf"))
    for turn in range(TURNS + 1):
        for name, (call, given) in calls.items():
            begin = time.perf_counter()
            jax.block_until_ready(call(given))
            least[name] = min(least[name], time.perf_counter() - begin) if turn else float("inf")
    for name, seconds in least.items():
        print(f"{name:28} {1000 * seconds:6.2f} ms  {100 * seconds / least['gradient']:4.0f} %")
    work = sum(2 * m * d * o * (3 if place else 2) for place, (m, d, o) in enumerate(sizes))
    ours, theirs = least["products, forward"] + least["products, backward"], least["the products by NumPy"]
    print(f"products: {work / 1e6:.0f} MFLOP, {work / ours / 1e9:.0f} GFLOP/s, by NumPy {work / theirs / 1e9:.0f}")
    print(f"were all but the products free, a gradient would be {least['gradient'] / ours:.2f} times as fast")


if __name__ == "__main__":
    main()
