"""FedJAX: its federated_averaging with its jit backend, one client after another. The federated data are in memory."""

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from stored import Clock, finish, task

clock = Clock()
stored = task()
work = stored.work
inputs = stored.inputs.reshape(len(stored.inputs), -1)
labels = stored.labels.astype(np.int32)
clients = [fedjax.ClientDataset({"x": inputs[rows], "y": labels[rows]}) for rows in map(stored.rows, range(work.clients))]


def loss(params, batch, rng):
    log_p = jax.nn.log_softmax(batch["x"] @ params.T)
    return -jnp.mean(jnp.take_along_axis(log_p, batch["y"][:, None], axis=1))


algorithm = fedjax.algorithms.fed_avg.federated_averaging(
    jax.grad(loss),
    fedjax.optimizers.sgd(work.lr),
    fedjax.optimizers.sgd(1.0),
    fedjax.ShuffleRepeatBatchHParams(batch_size=work.batch, num_epochs=None, num_steps=work.steps, seed=1),
)
state = algorithm.init(jnp.asarray(stored.x0["0"]))
key = jax.random.PRNGKey(work.seed)
for number, ids in enumerate(stored.ids):
    key, *keys = jax.random.split(key, work.cohort + 1)
    cohort = [(i, clients[i], k) for i, k in zip(ids.tolist(), keys, strict=True)]
    state, _ = algorithm.apply(state, cohort)
    jax.block_until_ready(state.params)
    clock.lap(number + 1)

x = np.asarray(state.params)
finish(clock, stored.accuracy(lambda rows: np.argmax(rows.reshape(len(rows), -1) @ x.T, 1)), "fedjax", "jax", "jaxlib")
