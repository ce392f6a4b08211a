"""FLamby's benchmark in NumPy with PyTorch's own draws: first models, shuffles and their order, from the published seeds.

PyTorch's CPU generator is MT19937. A float32 uniform takes the low 24 bits of one 32-bit draw; the seed of a shuffle is a
64-bit draw without its sign, and a shuffle is Fisher and Yates with one draw modulo what is left for each place. A loader
draws once when it is opened and once more, for its shuffle, when it is first read; FLamby opens the first ones before it
sets the seed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedtier.datasets import Dataset

SEEDS = range(42, 47)
BATCH, ROUNDS, UPDATES, EPOCHS = 4, 15, 100, 50
BOUND = np.float32(13**-0.5)


class Generator:
    """torch.manual_seed(seed)."""

    def __init__(self, seed: int) -> None:
        self.words = np.random.RandomState(seed & 0xFFFFFFFF)

    def word(self) -> int:
        return int(self.words.randint(0, 1 << 32, dtype=np.uint32))

    def long(self) -> int:
        return self.word() << 32 | self.word()

    def uniform(self) -> np.float32:
        return np.float32((self.word() & 0xFFFFFF) / 2**24)

    def shuffle(self, rows: int) -> np.ndarray:
        """The order of a loader's rows, by a generator of its own."""
        drawn, order = Generator(self.long() & (2**63 - 1)), np.arange(rows)
        for i in range(rows - 1):
            k = i + drawn.word() % (rows - i)
            order[i], order[k] = order[k], order[i]
        return order


class Loader:
    """Batches of `rows` without end, shuffled anew for every pass."""

    def __init__(self, data: Dataset, rows: np.ndarray, draws: Generator) -> None:
        self.data, self.rows, self.draws = data, rows, draws
        self.order, self.place = np.zeros(0, int), 0
        self.opened = True  # before the seed was set

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        if self.place >= len(self.order):
            if not self.opened:
                self.draws.long()
            self.order, self.place, self.opened = self.draws.shuffle(len(self.rows)), 0, False
        chosen = self.rows[self.order[self.place : self.place + BATCH]]
        self.place += BATCH
        return self.data.inputs[chosen], self.data.labels[chosen]


def first_model(seed: int) -> np.ndarray:
    """[14] weights and intercept of nn.Linear(13, 1) after manual_seed."""
    draws = Generator(seed)
    return np.asarray([draws.uniform() * 2 * BOUND - BOUND for _ in range(14)], np.float32)


def slope(x: np.ndarray, inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The gradient of the mean binary cross entropy."""
    error = (1 / (1 + np.exp(-(inputs @ x[:13] + x[13]))) - labels) / len(labels)
    return np.append(inputs.T @ error, error.sum()).astype(np.float32)


def accuracies(data: Dataset, x: np.ndarray) -> list[float]:
    """On the four hospitals and on all test rows, scaled together."""
    parts = (*data.split.held, data.split.test)
    return [float(np.mean((data.inputs[rows] @ x[:13] + x[13] > 0) == data.labels[rows])) for rows in parts]


def alone(data: Dataset, rows: np.ndarray, seed: int) -> np.ndarray:
    """50 epochs of Adam in one place."""
    x, draws, m, v, t = first_model(seed), Generator(seed), np.zeros(14, np.float32), np.zeros(14, np.float32), 0
    loader = Loader(data, rows, draws)
    loader.opened = False
    for _ in range(EPOCHS * -(-len(rows) // BATCH)):
        g, t = slope(x, *loader.batch()), t + 1
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        x = x - 0.001 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return x


def descend(x: np.ndarray, loader: Loader, lr: float, also: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """x after the updates of one round, with `also` added to each gradient."""
    for _ in range(UPDATES):
        x = (x - np.float32(lr) * (slope(x, *loader.batch()) + also(x))).astype(np.float32)
    return x


def _nothing(x: np.ndarray) -> np.ndarray:
    return np.zeros_like(x)


def _loaders(data: Dataset, seed: int) -> list[Loader]:
    draws = Generator(seed)
    return [Loader(data, rows, draws) for rows in data.split.train]


def averaged(data: Dataset, seed: int, lr: float, server: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """x after the rounds; `server(x, d)` makes the next x of the mean move d, by rows."""
    x, loaders = first_model(seed), _loaders(data, seed)
    sizes = np.asarray([len(loader.rows) for loader in loaders])
    weights = (sizes / sizes.sum()).astype(np.float32)
    for _ in range(ROUNDS):
        moves = [descend(x, loader, lr, _nothing) - x for loader in loaders]
        x = server(x, sum(w * move for w, move in zip(weights, moves, strict=True)))
    return x


def fedavg(data: Dataset, seed: int) -> np.ndarray:
    return averaged(data, seed, 0.001, lambda x, d: x + d)


def fedadagrad(data: Dataset, seed: int) -> np.ndarray:
    """From m = v = 0, without a correction of their bias."""
    m, v = np.zeros(14, np.float32), np.zeros(14, np.float32)

    def server(x: np.ndarray, d: np.ndarray) -> np.ndarray:
        m[:], v[:] = 0.9 * m + 0.1 * d, v + d * d
        return (x + 0.316228 * m / (np.sqrt(v) + 1e-8)).astype(np.float32)

    return averaged(data, seed, 0.003162, server)


def cyclic(data: Dataset, seed: int, handed_on: bool) -> np.ndarray:
    """One client a round, in turn. As FLamby's code has it nothing is handed on: the first client's own model is judged."""
    loaders, draws, order = _loaders(data, seed), np.random.default_rng(seed), []
    while len(order) < ROUNDS:
        order += draws.permutation(len(loaders)).tolist()
    models = [first_model(seed)] * len(loaders)
    for i in order[:ROUNDS]:
        y = descend(models[i], loaders[i], 0.01, _nothing)
        models = [y] * len(loaders) if handed_on else [*models[:i], y, *models[i + 1 :]]
    return models[0]
