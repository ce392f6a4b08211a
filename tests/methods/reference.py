"""ZO-HFL in plain NumPy, float64, written from the paper's two algorithms; only the random draws come from JAX."""

from __future__ import annotations

import jax
import numpy as np

from fedtier.keys import Tag


def at(key, *address):
    for part in address:
        key = jax.random.fold_in(key, part)
    return key


def softmax_gradient(w, inputs, labels):
    """The gradient of the mean cross entropy of softmax regression, w [classes, features]."""
    logits = inputs @ w.T
    logits = logits - logits.max(axis=1, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1.0
    return p.T @ inputs / len(labels)


def direction(key, shape):
    draw = np.asarray(jax.random.normal(at(key, 0, 0), shape, np.float64))  # first direction, first leaf
    return draw / np.linalg.norm(draw)


def rows(federation, start, size, key, batch):
    bits = np.asarray(jax.random.bits(key, (batch,), np.uint32)).astype(np.uint64)
    drawn = (bits * np.uint64(size) >> np.uint64(32)).astype(int)
    index = np.asarray(federation.index)[int(start) + drawn]
    return np.asarray(federation.arrays.inputs)[index], np.asarray(federation.arrays.labels)[index]


def project_ball(y, x, radius):
    d = y - x
    length = np.linalg.norm(d)
    return y if length <= radius else x + d * (radius / length)


def zo_hfl(federation, plan, x, root, *, penalty, proximity, smoothing, gamma, client_c, batch, server_batch, coupled):
    """x_R, with f2 = penalty/2 weight |x - y|^2 and the ball of each client's radius."""
    n = x.size
    for r in range(plan.ids.shape[0]):
        estimates = []
        for i, steps, arrived in zip(plan.ids[r].tolist(), plan.steps[r], plan.arrived[r], strict=True):
            key = at(root, r, i + 1)
            v = direction(at(key, Tag.DIRECTION), x.shape)
            weight, radius = float(federation.spec.weight[i]), float(federation.spec.radius[i])
            start, size = federation.train.start[i], federation.train.size[i]
            values = []
            for sign, solve in ((1.0, 0), (-1.0, 1)):
                point = x + sign * smoothing * v
                y = project_ball(point, point, radius)
                draws = at(key, Tag.SOLVE) if coupled else at(key, Tag.SOLVE, solve)
                for t in range(int(steps)):  # Algorithm 2
                    inputs, labels = rows(federation, start, size, at(draws, t), batch)
                    gradient = softmax_gradient(y, inputs, labels) + proximity * (y - point)
                    y = project_ball(y - client_c / (t + 1) * gradient, point, radius)
                values.append(0.5 * penalty * weight * np.sum((point - y) ** 2))
            if arrived:
                estimates.append(n / (2 * smoothing) * (values[0] - values[1]) * v)
        inputs, labels = rows(
            federation, federation.server.start, federation.server.size, at(root, r, 0, Tag.SERVER, 0), server_batch
        )
        g = np.mean(estimates, axis=0) if estimates else 0.0
        x = x - gamma / np.sqrt(r + 1) * (softmax_gradient(x, inputs, labels) + g)
    return x
