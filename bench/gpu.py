"""What a GPU could do for a local solve: loops of fixed length, a fused kernel, XLA's flags, and the paper's whole run.

    python bench/gpu.py              everything, five to ten minutes; or some of: softmax flags run
    python bench/gpu.py interpret    is the kernel right? needs no GPU

Rows are random, shaped like MNIST's. Softmax regression only: y [10, 784] fits the registers of one multiprocessor, so one
program of the kernel is one solve, from the first step to the last.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

ROWS, CLASSES, FEATURES, BATCH = 60_000, 10, 784, 32
TILE, WIDTH = 16, 128  # classes padded to a tile of the product; features in blocks
BLOCKS = -(-FEATURES // WIDTH)
PROBLEM = {"mu": 0.1, "shift": 33.3, "scale": 1 / 78.6}
STEPS = 448  # the last H of the paper's run
FLAGS = (
    "",
    "--xla_gpu_enable_command_buffer=",
    "--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL",
    "--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,WHILE,CONDITIONAL",
    "--xla_gpu_graph_min_graph_size=1",
    "--xla_gpu_enable_while_loop_unrolling=WHILE_LOOP_UNROLLING_DOUBLE_BUFFER",
    "--xla_gpu_enable_triton_gemm=false",
)


def kernel(x, labels, rows, steps, lr, y, constant, out, *, mu, shift, scale, precision):
    """out[s] = y[s] after steps[s] steps on the gradient (p - onehot) X / batch + mu y + constant."""
    s = pl.program_id(0)
    classes = lax.broadcasted_iota(jnp.int32, (TILE, WIDTH), 0)
    features = [lax.broadcasted_iota(jnp.int32, (TILE, WIDTH), 1) + k * WIDTH for k in range(BLOCKS)]
    inside = [(classes < CLASSES) & (columns < FEATURES) for columns in features]

    def model_block(ref, k):
        return triton.load(ref.at[s, classes, features[k]], mask=inside[k], other=0.0)

    def row_block(numbers, k):
        columns = jnp.arange(WIDTH) + k * WIDTH
        mask = jnp.broadcast_to((columns < FEATURES)[None, :], (BATCH, WIDTH))
        raw = triton.load(x.at[numbers[:, None], columns[None, :]], mask=mask, other=0)
        return jnp.where(mask, (raw.astype(jnp.float32) - shift) * scale, 0.0)

    def step(t, blocks):
        numbers = triton.load(rows.at[s, t, jnp.arange(BATCH)])
        logits = jnp.zeros((BATCH, TILE), jnp.float32)
        for k in range(BLOCKS):
            logits += triton.dot(row_block(numbers, k), blocks[k], trans_b=True, precision=precision)
        which = lax.broadcasted_iota(jnp.int32, (BATCH, TILE), 1)
        logits = jnp.where(which < CLASSES, logits, -1e30)
        e = jnp.exp(logits - jnp.max(logits, axis=1)[:, None])
        onehot = (which == triton.load(labels.at[numbers])[:, None]).astype(jnp.float32)
        p = jnp.where(which < CLASSES, (e / jnp.sum(e, axis=1)[:, None] - onehot) / BATCH, 0.0)
        rate = triton.load(lr.at[s, t])

        def moved(k):
            slope = triton.dot(p, row_block(numbers, k), trans_a=True, precision=precision)
            return blocks[k] - rate * (slope + mu * blocks[k] + model_block(constant, k))

        return tuple(moved(k) for k in range(BLOCKS))

    blocks = lax.fori_loop(0, triton.load(steps.at[s]), step, tuple(model_block(y, k) for k in range(BLOCKS)))
    for k in range(BLOCKS):
        triton.store(out.at[s, classes, features[k]], blocks[k], mask=inside[k])


def fused(x, labels, rows, steps, lr, y, constant, *, precision=lax.Precision.HIGHEST, warps=8, interpret=False):
    how = {"interpret": True} if interpret else {"compiler_params": triton.CompilerParams(num_warps=warps, num_stages=1)}
    program = functools.partial(kernel, **PROBLEM, precision=precision)
    shape = jax.ShapeDtypeStruct(y.shape, y.dtype)
    return pl.pallas_call(program, out_shape=shape, grid=(y.shape[0],), **how)(x, labels, rows, steps, lr, y, constant)


def plain(x, labels, rows, steps, lr, y, constant, *, length=0):
    """As XLA compiles it, all solves at once; length > 0: in masked loops of that fixed length, whose end the host need not
    ask the device for."""

    def solve(rows, steps, lr, y, constant):
        def step(t, y):
            inputs = (x[rows[t]].astype(jnp.float32) - PROBLEM["shift"]) * PROBLEM["scale"]
            logits = jnp.matmul(y, inputs.T, precision="highest")
            p = (jax.nn.softmax(logits, axis=0) - (jnp.arange(CLASSES)[:, None] == labels[rows[t]])) / BATCH
            return y - lr[t] * (jnp.matmul(p, inputs, precision="highest") + PROBLEM["mu"] * y + constant)

        def stretch(k, y):
            def masked(j, y):
                return jnp.where(k * length + j < steps, step(k * length + j, y), y)

            return lax.fori_loop(0, length, masked, y)

        return lax.fori_loop(0, (steps + length - 1) // length, stretch, y) if length else lax.fori_loop(0, steps, step, y)

    return jax.vmap(solve)(rows, steps, lr, y, constant)


def arguments(solves, steps, total=ROWS):
    rng = np.random.default_rng(0)
    x, labels = rng.integers(0, 256, (total, FEATURES), np.uint8), rng.integers(0, CLASSES, total, np.int32)
    rows = rng.integers(0, total, (solves, steps, BATCH), np.int32)
    lr = np.broadcast_to(0.1 / (np.arange(steps) + 1.0), (solves, steps)).astype(np.float32)
    y = 0.01 * rng.standard_normal((solves, CLASSES, FEATURES)).astype(np.float32)
    return tuple(map(jnp.asarray, (x, labels, rows, np.full(solves, steps, np.int32), lr, y, -0.1 * y)))


def seconds(function, *given, repeats=5):
    jax.block_until_ready(function(*given))
    times = []
    for _ in range(repeats):
        clock = time.perf_counter()
        jax.block_until_ready(function(*given))
        times.append(time.perf_counter() - clock)
    return float(np.median(times))


def interpret():
    given = list(arguments(2, 8, total=2_000))
    given[3] = jnp.asarray([8, 3], jnp.int32)
    exact = plain(*given)
    print("kernel, largest difference:", float(jnp.abs(fused(*given, interpret=True) - exact).max()))
    print("masked loops, largest difference:", float(jnp.abs(plain(*given, length=4) - exact).max()))


def softmax():
    forms = {"traced bound": plain} | {f"loops of {n}": functools.partial(plain, length=n) for n in (16, 64)}
    for name, precision in (("ieee", lax.Precision.HIGHEST), ("tf32", lax.Precision.DEFAULT)):
        for warps in (4, 8, 16):
            forms[f"kernel {name} {warps} warps"] = functools.partial(fused, precision=precision, warps=warps)
    for solves in (1, 5, 18, 90, 288, 1_000):
        given = arguments(solves, STEPS)
        exact = plain(*given)
        for name, form in forms.items():
            try:
                program = jax.jit(form)
                error = float(jnp.abs(program(*given) - exact).max() / jnp.abs(exact).max())
                print(
                    f"{solves:5d} solves  {name:22s} {1e6 * seconds(program, *given) / STEPS:8.2f} us a step  {error:.0e}",
                    flush=True,
                )
            except Exception as reason:  # a form that does not compile says so, the others go on
                print(f"{solves:5d} solves  {name:22s} failed: {str(reason).splitlines()[0][:120]}", flush=True)


def flags():
    for flag in FLAGS:
        done = subprocess.run(
            [sys.executable, __file__, "one"], check=False, env=os.environ | {"XLA_FLAGS": flag}, capture_output=True, text=True
        )
        words = done.stdout if done.returncode == 0 else f"failed: {done.stderr.strip().splitlines()[-1][:120]}"
        print(f"{flag or 'no flag'}: {words.strip()}", flush=True)


def one():
    found = {}
    for solves in (5, 18, 90):
        for length in (0, 16):
            program = jax.jit(functools.partial(plain, length=length))
            found[f"{solves} solves, {f'loops of {length}' if length else 'traced bound'}"] = round(
                1e6 * seconds(program, *arguments(solves, STEPS), repeats=3) / STEPS, 2
            )
    print(json.dumps(found))


def run():
    """The paper's run: m = 10, beta = 90 %, R = 500, tau = 20, after compilation."""
    from fedtier import federation, keys
    from fedtier.engines import compiled
    from fedtier.federation import Plan, make_plan, partition
    from fedtier.methods import scaffold, zo_hfl
    from fedtier.problem import Rows, cross_entropy, scaled, supervised
    from fedtier.problem import softmax as regression

    rng = np.random.default_rng(0)
    rows = Rows(rng.integers(0, 256, (70_000, FEATURES), np.uint8), rng.integers(0, CLASSES, 70_000, np.int32))
    model = regression(FEATURES, CLASSES)
    problem = supervised(cross_entropy(scaled(model, PROBLEM["shift"], PROBLEM["scale"])), penalty=1.0, proximity=0.1)
    forms = {
        "sphere": zo_hfl(problem, estimator="sphere"),
        "guided": zo_hfl(problem, estimator="guided"),
        "scaffold": scaffold(problem),
    }
    for name, method in forms.items():
        for seeds in (1, 16):
            rngs = [np.random.default_rng(s) for s in range(seeds)]
            split = partition.dirichlet(rows.labels, 10, 1000.0)
            each = [federation.build(rows, split, clients=10, rng=rng)._replace(arrays=()) for rng in rngs]
            all_seeds = jax.tree.map(lambda *a: jnp.stack(a), *each)._replace(arrays=jax.tree.map(jnp.asarray, rows))
            plans = [make_plan(rng, clients=10, rounds=500, participation=0.9, tau=20.0) for rng in rngs]
            plan = Plan(*(np.stack(tables) for tables in zip(*plans, strict=True)))
            key, engine = jnp.stack([keys.root(s) for s in range(seeds)]), compiled(method, capacity=500, seeds=True)
            x = jax.tree.map(lambda a, seeds=seeds: jnp.stack([a] * seeds), model.init(None))

            def play(count, engine=engine, all_seeds=all_seeds, plan=plan, key=key, x=x):
                state = jax.block_until_ready(engine.init(x, all_seeds))
                clock = time.perf_counter()
                jax.block_until_ready(engine.advance(state, all_seeds, plan, key, 0, count))
                return time.perf_counter() - clock

            print(
                f"{name:9s} {seeds:2d} seeds: compiled in {play(0):.1f} s, {min(play(500) for _ in range(2)):.2f} s", flush=True
            )


if __name__ == "__main__":
    print("jax", jax.__version__, jax.devices()[0].device_kind, file=sys.stderr, flush=True)
    for asked in sys.argv[1:] or ("softmax", "run", "flags"):
        {"softmax": softmax, "flags": flags, "run": run, "interpret": interpret, "one": one}[asked]()
