"""A register-blocked C loop, called once a round; BENCH_THREADS says on how many threads. See c_loop.c."""

import ctypes
import os
from pathlib import Path

import numpy as np
from stored import Clock, finish, task

clock = Clock()
stored = task()
work, threads = stored.work, int(os.environ["BENCH_THREADS"])
library = ctypes.CDLL(str(Path(os.environ["BENCH_BUILD"]) / "c_loop.so"))
inputs = np.ascontiguousarray(stored.inputs.reshape(len(stored.inputs), -1))
fixed = [inputs, stored.labels, stored.index, stored.start.astype(np.int64), stored.size.astype(np.int64)]
x = stored.x0["0"].copy()
scaffold = work.method == "scaffold"
c, controls = np.zeros_like(x), np.zeros((work.clients if scaffold else 0, *x.shape), np.float32)
out = np.empty((work.cohort, *x.shape), np.float32)


def at(array):
    return array.ctypes.data_as(ctypes.c_void_p)


for number, ids in enumerate(stored.ids.astype(np.int64)):
    shift = c - controls[ids] if scaffold else None
    library.local_sgd(
        *map(at, fixed), at(ids), at(x), None if shift is None else at(shift), at(out), inputs.shape[1], work.cohort,
        work.steps, ctypes.c_float(work.lr), ctypes.c_uint64(number + 1), threads,
    )  # fmt: skip
    if scaffold:
        delta = (x - out) / (work.steps * work.lr) - c  # c_i+ - c_i, option II
        controls[ids] += delta
        c += delta.sum(0) / work.clients
        x = out.mean(0)
    else:
        weights = stored.size[ids] / stored.size[ids].sum()
        x = np.tensordot(weights.astype(np.float32), out, 1)
    clock.lap(number + 1)

finish(clock, stored.accuracy(lambda rows: np.argmax(rows.reshape(len(rows), -1) @ x.T, 1)), "numpy")
