"""A plain NumPy loop on one thread: FedAvg, SCAFFOLD and ZO-HFL with the gradient written out."""

import numpy as np
from stored import Clock, finish, task
from workloads import ZO_HFL

clock = Clock()
stored = task()
work = stored.work
inputs = stored.inputs.reshape(len(stored.inputs), -1)
one_hot = np.eye(len(stored.x0["0"]), dtype=np.float32)[stored.labels]
rng = np.random.default_rng(1)
x = stored.x0["0"].copy()
weight = stored.size / stored.size.mean()


def gradient(y, rows):
    a = inputs[rows]
    z = a @ y.T
    z -= z.max(axis=1, keepdims=True)
    p = np.exp(z, out=z)
    p /= p.sum(axis=1, keepdims=True)
    p -= one_hot[rows]
    return (p.T @ a) / np.float32(len(rows))


def draws(client, steps):
    own = stored.rows(client)
    return own[rng.integers(0, len(own), (steps, work.batch))]


def local(x, client, steps, shift=None):
    y = x.copy()
    for rows in draws(client, steps):
        g = gradient(y, rows)
        y -= np.float32(work.lr) * (g if shift is None else g + shift)
    return y


def fedavg(x, number):
    ids = stored.ids[number]
    ys = np.stack([local(x, i, h) for i, h in zip(ids, stored.steps[number], strict=True)])
    return np.tensordot((weight[ids] / weight[ids].sum()).astype(np.float32), ys, 1)


c, controls = np.zeros_like(x), np.zeros((work.clients if work.method == "scaffold" else 0, *x.shape), np.float32)


def scaffold(x, number):
    after, moved = np.zeros_like(x), np.zeros_like(c)
    for i, h in zip(stored.ids[number], stored.steps[number], strict=True):
        y = local(x, i, h, c - controls[i])
        delta = (x - y) / np.float32(h * work.lr) - c  # c_i+ - c_i, option II
        controls[i] += delta
        after += y / len(stored.ids[number])
        moved += delta
    np.add(c, moved / work.clients, out=c)
    return after


def zo_hfl(x, number):
    """Algorithm 1 with coupled solves: both see the same minibatches."""
    g = np.zeros_like(x)
    for i, h in zip(stored.ids[number], stored.steps[number], strict=True):
        v = rng.standard_normal(x.shape, dtype=np.float32)
        v /= np.linalg.norm(v)
        points = np.stack([x + ZO_HFL.smoothing * v, x - ZO_HFL.smoothing * v])
        ys = points.copy()
        for t, rows in enumerate(draws(i, h)):
            for k in range(2):
                pull = np.float32(ZO_HFL.proximity) * (ys[k] - points[k])
                ys[k] -= np.float32(work.lr / (t + 1)) * (gradient(ys[k], rows) + pull)
        f2 = 0.5 * ZO_HFL.penalty * weight[i] * np.sum((points - ys) ** 2, axis=(1, 2))
        g += np.float32(x.size / (2 * ZO_HFL.smoothing) * (f2[0] - f2[1])) * v
    own = gradient(x, stored.server[rng.integers(0, len(stored.server), ZO_HFL.server_batch)])
    return x - np.float32(ZO_HFL.server_lr / np.sqrt(number + 1)) * (own + g / len(stored.ids[number]))


play = {"fedavg": fedavg, "scaffold": scaffold, "zo_hfl": zo_hfl}[work.method]
for number in range(work.rounds):
    x = play(x, number)
    clock.lap(number + 1)

finish(clock, stored.accuracy(lambda rows: np.argmax(rows.reshape(len(rows), -1) @ x.T, 1)), "numpy")
