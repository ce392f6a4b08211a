"""What a GPU does with a local solve: XLA's programs, a fused kernel, and the paper's whole run.

    python bench/gpu.py              everything, a few minutes; or some of: solve run
    python bench/gpu.py interpret    is the kernel right? needs no GPU

Rows are random, shaped like MNIST's. A solve is ZO-HFL's: a coupled pair of softmax regressions that share minibatches.
The kernel keeps both models [10, 784] on one multiprocessor from the first step to the last, and fetches the rows of the next
step while it computes. Pixels are whole numbers up to 255, exact in bfloat16; models and residuals are written as sums of
two or three bfloat16 numbers, so that the tensor cores compute with 16 or 24 bits.
"""

from __future__ import annotations

import functools
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from workloads import refusal

ROWS, CLASSES, FEATURES, BATCH, PAIR = 60_000, 10, 784, 32, 2
TILE, WIDTH = 16, 128  # classes padded to a tile of the product; features in blocks
BLOCKS, HEIGHT = -(-FEATURES // WIDTH), PAIR * TILE
MU, SHIFT, SCALE = 0.1, 33.3, 1 / 78.6
STEPS = 448  # the last H of the paper's run


def kernel(x, labels, rows, steps, lr, y, constant, out, *, parts):
    """out[s] = y[s] after steps[s] steps on the gradient (p - onehot) X / batch + mu y + constant."""
    s, last = pl.program_id(0), triton.load(steps.at[pl.program_id(0)]) - 1
    line = lax.broadcasted_iota(jnp.int32, (HEIGHT, WIDTH), 0)
    columns = [lax.broadcasted_iota(jnp.int32, (HEIGHT, WIDTH), 1) + k * WIDTH for k in range(BLOCKS)]
    inside = [(line % TILE < CLASSES) & (column < FEATURES) for column in columns]

    def place(k):
        return s, line // TILE, line % TILE, columns[k]

    def block(ref, k):
        return triton.load(ref.at[place(k)], mask=inside[k], other=0.0)

    def fetched(t):
        numbers = triton.load(rows.at[s, t, jnp.arange(BATCH)])
        pixels = []
        for k in range(BLOCKS):
            column = jnp.arange(WIDTH) + k * WIDTH
            mask = jnp.broadcast_to((column < FEATURES)[None, :], (BATCH, WIDTH))
            pixels.append(triton.load(x.at[numbers[:, None], column[None, :]], mask=mask, other=0))
        return triton.load(labels.at[numbers]), tuple(pixels)

    def product(a, b, contract):
        total = 0.0
        for part in _in_bfloat16(a, parts):
            total += lax.dot_general(part, b, (((1,), (contract,)), ((), ())), preferred_element_type=jnp.float32)
        return total

    def step(t, carry):
        blocks, targets, pixels = carry
        coming = fetched(jnp.minimum(t + 1, last))
        inputs = [a.astype(jnp.float32).astype(jnp.bfloat16) for a in pixels]
        raw = sum(product(blocks[k], inputs[k], 1) for k in range(BLOCKS))
        logits = SCALE * (raw - SHIFT * sum(jnp.sum(a, axis=1) for a in blocks)[:, None])
        which = lax.broadcasted_iota(jnp.int32, (HEIGHT, BATCH), 0) % TILE
        logits = jnp.where(which < CLASSES, logits, -1e30).reshape(PAIR, TILE, BATCH)
        e = jnp.exp(logits - jnp.max(logits, axis=1)[:, None, :])
        p = (e / jnp.sum(e, axis=1)[:, None, :]).reshape(HEIGHT, BATCH) - (which == targets[None, :]).astype(jnp.float32)
        p = jnp.where(which < CLASSES, p / BATCH, 0.0)
        rate, offset = triton.load(lr.at[s, t]), SHIFT * jnp.sum(p, axis=1)[:, None]

        def moved(k):
            slope = jnp.where(inside[k], SCALE * (product(p, inputs[k], 0) - offset), 0.0)
            return blocks[k] - rate * (slope + MU * blocks[k] + block(constant, k))

        return tuple(moved(k) for k in range(BLOCKS)), *coming

    blocks, *_ = lax.fori_loop(0, last + 1, step, (tuple(block(y, k) for k in range(BLOCKS)), *fetched(0)))
    for k in range(BLOCKS):
        triton.store(out.at[place(k)], blocks[k], mask=inside[k])


def _in_bfloat16(a, parts):
    found = []
    for _ in range(parts):
        found.append(a.astype(jnp.bfloat16))
        a = a - found[-1].astype(jnp.float32)
    return found[::-1]  # the small ones first


def fused(x, labels, rows, steps, lr, y, constant, *, parts=3, warps=8, interpret=False):
    how = {"interpret": True} if interpret else {"compiler_params": triton.CompilerParams(num_warps=warps, num_stages=1)}
    shape = jax.ShapeDtypeStruct(y.shape, y.dtype)
    program = pl.pallas_call(functools.partial(kernel, parts=parts), out_shape=shape, grid=(y.shape[0],), **how)
    return program(x, labels, rows, steps, lr, y, constant)


def plain(x, labels, rows, steps, lr, y, constant, *, precision="highest", length=0, unroll=1):
    """As XLA compiles it, all solves at once; length > 0: in masked loops of that fixed length."""

    def solve(rows, steps, lr, y, constant):
        def step(t, y):
            inputs = (x.at[rows[t]].get(mode="promise_in_bounds").astype(jnp.float32) - SHIFT) * SCALE
            logits = jnp.einsum("pcf,bf->pcb", y, inputs, precision=precision)
            p = (jax.nn.softmax(logits, axis=1) - (jnp.arange(CLASSES)[:, None] == labels[rows[t]][None])[None]) / BATCH
            return y - lr[t] * (jnp.einsum("pcb,bf->pcf", p, inputs, precision=precision) + MU * y + constant)

        def stretch(k, y):
            def masked(j, y):
                return jnp.where(k * length + j < steps, step(k * length + j, y), y)

            return lax.fori_loop(0, length, masked, y, unroll=unroll)

        return lax.fori_loop(0, (steps + length - 1) // length, stretch, y) if length else lax.fori_loop(0, steps, step, y)

    return jax.vmap(solve)(rows, steps, lr, y, constant)


def arguments(solves, steps, total=ROWS):
    rng = np.random.default_rng(0)
    x, labels = rng.integers(0, 256, (total, FEATURES), np.uint8), rng.integers(0, CLASSES, total, np.int32)
    rows = rng.integers(0, total, (solves, steps, BATCH), np.int32)
    lr = np.broadcast_to(0.1 / (np.arange(steps) + 1.0), (solves, steps)).astype(np.float32)
    y = 0.01 * rng.standard_normal((solves, PAIR, CLASSES, FEATURES)).astype(np.float32)
    return tuple(map(jnp.asarray, (x, labels, rows, np.full(solves, steps, np.int32), lr, y, -MU * y)))


def interpret():
    given = list(arguments(2, 8, total=2_000))
    given[3] = jnp.asarray([8, 3], jnp.int32)
    exact = plain(*given)
    print("kernel, largest difference:", float(jnp.abs(fused(*given, interpret=True) - exact).max()))
    print("masked loops, largest difference:", float(jnp.abs(plain(*given, length=4) - exact).max()))


def solve():
    tf32, three, six = "tensorfloat32", "BF16_BF16_F32_X3", "TF32_TF32_F32_X3"
    forms = {
        "traced length, TF32": functools.partial(plain, precision=tf32),
        "loops of 16, TF32": functools.partial(plain, precision=tf32, length=16),
        "loops of 16 written out, TF32": functools.partial(plain, precision=tf32, length=16, unroll=16),
        "the same, three bfloat16 products": functools.partial(plain, precision=three, length=16, unroll=16),
        "the same, three TF32 products": functools.partial(plain, precision=six, length=16, unroll=16),
        "the same, float32 units": functools.partial(plain, length=16, unroll=16),
        "kernel, two parts": functools.partial(fused, parts=2),
        "kernel, three parts": fused,
    }
    for solves in (9, 144, 1_000):
        given = arguments(solves, STEPS)
        exact = jax.jit(plain)(*given)
        for name, form in forms.items():
            try:
                program = jax.jit(form)
                error = float(jnp.linalg.norm(program(*given) - exact) / jnp.linalg.norm(exact))
                took = 1e6 * seconds(program, *given) / STEPS
                print(f"{solves:5d} pairs  {name:36s} {took:8.1f} us a step  {error:.0e}", flush=True)
            except Exception as reason:  # a form that does not compile says so, the others go on
                print(f"{solves:5d} pairs  {name:36s} failed: {str(reason).splitlines()[0][:120]}", flush=True)


def seconds(function, *given, repeats=5):
    jax.block_until_ready(function(*given))
    times = []
    for _ in range(repeats):
        clock = time.perf_counter()
        jax.block_until_ready(function(*given))
        times.append(time.perf_counter() - clock)
    return float(np.median(times))


def run():
    """The paper's run: m = 10, beta = 90 %, R = 500, tau = 20, after compilation."""
    from fedtier import federation, keys
    from fedtier.engines import compiled
    from fedtier.federation import make_plan, partition
    from fedtier.methods import guided, scaffold, sphere, zo_hfl
    from fedtier.problem import Rows, cross_entropy, scaled, softmax, supervised

    rng = np.random.default_rng(0)
    rows = Rows(rng.integers(0, 256, (70_000, FEATURES), np.uint8), rng.integers(0, CLASSES, 70_000, np.int32))
    model = softmax(FEATURES, CLASSES, bias=False)
    problem = supervised(cross_entropy(scaled(model, SHIFT, SCALE)), penalty=1.0, proximity=0.1)
    forms = {
        "sphere": zo_hfl(problem, estimator=sphere()),
        "guided": zo_hfl(problem, estimator=guided()),
        "scaffold": scaffold(problem),
    }
    for name, method in forms.items():
        for seeds in (1, 16):
            rngs = [np.random.default_rng(s) for s in range(seeds)]
            split = partition.dirichlet(rows.labels, 10, 1000.0)
            each = [federation.build(rows, split, clients=10, rng=rng)._replace(arrays=()) for rng in rngs]
            all_seeds = jax.tree.map(lambda *a: jnp.stack(a), *each)._replace(arrays=jax.tree.map(jnp.asarray, rows))
            plans = [make_plan(rng, clients=10, rounds=500, participation=0.9, tau=20.0) for rng in rngs]
            plan = jax.tree.map(lambda *tables: np.stack(tables), *plans)
            key, engine = jnp.stack([keys.root(s) for s in range(seeds)]), compiled(method, capacity=500, seeds=True)
            x = jax.tree.map(lambda a, seeds=seeds: jnp.stack([a] * seeds), model.init(None))

            def play(count, engine=engine, all_seeds=all_seeds, plan=plan, key=key, x=x):
                state = jax.block_until_ready(engine.init(x, all_seeds))
                clock = time.perf_counter()
                jax.block_until_ready(engine.advance(state, all_seeds, plan, key, 0, count))
                return time.perf_counter() - clock

            compiling, times = play(0), [play(500) for _ in range(2)]
            print(f"{name:9s} {seeds:2d} seeds: compiled in {compiling:.1f} s, {min(times):.2f} s", flush=True)


if __name__ == "__main__":
    known = {"solve": solve, "run": run, "interpret": interpret}
    for asked in sys.argv[1:]:
        if asked not in known:
            raise SystemExit(refusal("what to measure", asked, known))
    print("jax", jax.__version__, jax.devices()[0].device_kind, file=sys.stderr, flush=True)
    for asked in sys.argv[1:] or ("solve", "run"):
        known[asked]()
