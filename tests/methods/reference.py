"""ZO-HFL in plain NumPy, float64, written from the paper's two algorithms; only the random draws come from JAX."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
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
    draw = np.asarray(jax.random.normal(at(key, 0), shape, np.float64))  # the model's first leaf
    return draw / np.linalg.norm(draw)


def rows(federation, start, size, key, batch):
    return rows_of(federation, start, size, np.asarray(jax.random.bits(key, (batch,), np.uint32)))


def rows_of(federation, start, size, bits):
    drawn = (bits.astype(np.uint64) * np.uint64(size) >> np.uint64(32)).astype(int)
    index = np.asarray(federation.index)[int(start) + drawn]
    return np.asarray(federation.arrays.inputs)[index], np.asarray(federation.arrays.labels)[index]


MOST = 32  # local steps that a reference makes in a solve


@functools.partial(jax.jit, static_argnames="batch")
def step_bits(draws, batch):
    """The random bits of the minibatches t = 0 .. MOST - 1 of a solve, at once: one by one they take most of a test's time."""
    return jax.vmap(lambda t: jax.random.bits(jax.random.fold_in(draws, t), (batch,), np.uint32))(jnp.arange(MOST))


def project_ball(y, x, radius):
    d = y - x
    length = np.linalg.norm(d)
    return y if length <= radius else x + d * (radius / length)


class Clients:
    """Algorithm 2 at every client, with f2 = penalty/2 weight |x - y|^2 and the ball of each client's radius; `decay` times y
    is in every gradient, `momentum` of the last step in every step."""

    def __init__(self, federation, *, penalty, proximity, client_c, batch, momentum=0.0, decay=0.0):
        self.federation, self.penalty, self.proximity = federation, penalty, proximity
        self.client_c, self.batch, self.momentum, self.decay = client_c, batch, momentum, decay

    def factor(self, i, x, draws):
        """1, or less where the first step would be longer than 1/L: L from the gradients before and after that step."""
        bits = np.asarray(step_bits(draws, self.batch))[0]
        inputs, labels = rows_of(self.federation, self.federation.train.start[i], self.federation.train.size[i], bits)
        before = softmax_gradient(x, inputs, labels) + self.decay * x
        there = x - self.client_c * before
        after = softmax_gradient(there, inputs, labels) + self.proximity * (there - x) + self.decay * there
        L = np.linalg.norm(after - before) / np.linalg.norm(there - x)
        return min(1.0, 1.0 / (self.client_c * L))

    def solve(self, i, point, steps, draws, factor=1.0):
        radius = float(self.federation.spec.radius[i])
        y, m = project_ball(point, point, radius), np.zeros_like(point)
        window, bits = (self.federation.train.start[i], self.federation.train.size[i]), np.asarray(step_bits(draws, self.batch))
        assert steps <= MOST
        for t in range(int(steps)):
            inputs, labels = rows_of(self.federation, *window, bits[t])
            m = self.momentum * m + softmax_gradient(y, inputs, labels) + self.proximity * (y - point) + self.decay * y
            y = project_ball(y - factor * self.client_c / (t + 1) * m, point, radius)
        return y

    def f2(self, i, x, y):
        return 0.5 * self.penalty * float(self.federation.spec.weight[i]) * np.sum((x - y) ** 2)


def server_gradient(federation, x, root, r, k, batch):
    window = federation.server.start, federation.server.size
    return softmax_gradient(x, *rows(federation, *window, at(root, r, 0, Tag.SERVER, k), batch))


def zo_hfl(
    federation, plan, x, root, *, penalty, proximity, smoothing, gamma, client_c, batch, server_batch, coupled, directions=1
):
    """x_R of the paper's method with K directions a client, whose estimates are averaged."""
    n, K = x.size, directions
    clients = Clients(federation, penalty=penalty, proximity=proximity, client_c=client_c, batch=batch)
    for r in range(plan.ids.shape[0]):
        estimates = []
        for i, steps, arrived in zip(plan.ids[r].tolist(), plan.steps[r], plan.arrived[r], strict=True):
            key = at(root, r, i + 1)
            g = np.zeros_like(x)
            for k in range(K):
                v = direction(at(key, Tag.DIRECTION, k), x.shape)
                values = []
                for sign, solve in ((1.0, k), (-1.0, K + k)):
                    point = x + sign * smoothing * v
                    y = clients.solve(i, point, steps, at(key, Tag.SOLVE) if coupled else at(key, Tag.SOLVE, solve))
                    values.append(clients.f2(i, point, y))
                g += n / (2 * smoothing) * (values[0] - values[1]) * v / K
            if arrived:
                estimates.append(g)
        g = np.mean(estimates, axis=0) if estimates else 0.0
        x = x - gamma / np.sqrt(r + 1) * (server_gradient(federation, x, root, r, 0, server_batch) + g)
    return x


class Adam:
    """Kingma, Ba, 2015, with the published constants."""

    def __init__(self, like):
        self.m, self.v, self.count = np.zeros_like(like), np.zeros_like(like), 0

    def __call__(self, gradient):
        self.count += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        m, v = self.m / (1 - 0.9**self.count), self.v / (1 - 0.999**self.count)
        return m / (np.sqrt(v) + 1e-8)


def guided(
    federation,
    plan,
    x,
    root,
    *,
    penalty,
    proximity,
    smoothing,
    server_c,
    server_steps,
    averaging,
    client_c,
    batch,
    server_batch,
    server_decay=0.0,
    spread=0.0,
    **more,
):
    """(x_R, its average) of what is recommended: a probe along each client's last displacement, steps no longer than 1/L, the
    latest estimate of every client, each fading as x moves along it, weaker where fewer than the share `spread` answered,
    several steps of Adam a round, the average of x.
    `more`: what `Clients` take beside it."""
    clients = Clients(federation, penalty=penalty, proximity=proximity, client_c=client_c, batch=batch, **more)
    m = len(federation.train.start)
    guide, latest = {}, {}  # of each client that was heard: its direction; (g, f2, x where they were measured)
    adam, average = Adam(x), x
    for r in range(plan.ids.shape[0]):
        answered = 0
        for i, steps, arrived in zip(plan.ids[r].tolist(), plan.steps[r], plan.arrived[r], strict=True):
            if not arrived or steps == 0:
                continue
            answered += 1
            key = at(root, r, i + 1)
            v = guide[i] if i in guide else direction(at(key, Tag.DIRECTION, 0, 0), x.shape)
            points = [x + sign * smoothing * v for sign in (1.0, -1.0)]
            factor = clients.factor(i, x, at(key, Tag.SOLVE))
            ys = [clients.solve(i, point, steps, at(key, Tag.SOLVE), factor) for point in points]
            plus, minus = (clients.f2(i, point, y) for point, y in zip(points, ys, strict=True))
            g = (plus - minus) / (2 * smoothing) * v
            displacement = x - np.mean(ys, axis=0)
            latest[i], guide[i] = (g, (plus + minus) / 2, x), displacement / np.linalg.norm(displacement)
        for k in range(server_steps):
            pull = sum(g * np.clip(1 + np.sum(g * (x - there)) / (2 * f2), 0, 2) for g, f2, there in latest.values()) / m
            pull = pull * (min(1.0, answered / m / spread) if spread else 1.0)
            update = adam(server_gradient(federation, x, root, r, k, server_batch) + pull)
            x = x - server_c / np.sqrt(r + 1) * (update + server_decay * x)
        average = average + (averaging + 1) / (r + averaging + 1) * (x - average)
    return x, average
