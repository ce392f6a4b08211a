"""fedtier with its defaults: the compiled engine on all cores, as the commands have it."""

import os

import jax
import numpy as np
from ours import same_rows, side
from stored import Clock, finish, task

from fedtier import configure_jax, datasets, engines, keys

clock = Clock()
configure_jax()
if jax.default_backend() == "cpu" and jax.device_count() < len(os.sched_getaffinity(0)):
    raise SystemExit(f"JAX has {jax.device_count()} of {len(os.sched_getaffinity(0))} cores")
stored = task()
work = stored.work
ours = side(work, datasets.load(work.data))
if not same_rows(ours, stored.index, stored.ids):
    raise SystemExit("the stored partition is not fedtier's: delete bench/.data and run again")

engine = engines.compiled(ours.method)
key = keys.root(work.seed)
state = engine.init(ours.x, ours.federation)
for first, last in ((0, 1), (1, work.warm), (work.warm, work.rounds)):
    state, _ = engine.advance(state, ours.federation, ours.plan, key, first, last - first)
    jax.block_until_ready(state)
    clock.lap(last)

x = ours.method.global_model(state.server)
logits = jax.jit(ours.model.apply)
finish(clock, stored.accuracy(lambda inputs: np.argmax(logits(x, inputs), axis=1)), "jax", "jaxlib", devices=jax.device_count())
