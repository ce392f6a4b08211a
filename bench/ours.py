"""fedtier's side of a workload: the federation, the plan, the method and the first model, by the public API.

`python ours.py W1 ...` writes the stored tasks that all contestants read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from stored import DATA
from workloads import WORKLOADS, ZO_HFL, Workload, workload

from fedtier import datasets, federation, keys, methods
from fedtier.datasets import Dataset
from fedtier.federation import Federation, Plan
from fedtier.problem import Model, Rows, cnn, cross_entropy, scaled, softmax, supervised


class Side(NamedTuple):
    federation: Federation
    plan: Plan
    model: Model  # of scaled inputs
    method: methods.Method
    x: Any


def side(work: Workload, dataset: Dataset) -> Side:
    assign = federation.partition.dirichlet(dataset.labels, work.clients, work.alpha)
    clients = federation.build(
        Rows(dataset.inputs, dataset.labels), assign, clients=work.clients, rng=np.random.default_rng([work.seed, 0])
    )
    plan = federation.make_plan(
        np.random.default_rng([work.seed, 1]), clients=work.clients, rounds=work.rounds,
        participation=work.cohort / work.clients, tau=work.tau,
        steps=None if work.steps is None else np.full(work.rounds, work.steps),
    )  # fmt: skip
    model = (
        cnn(dataset.classes, dataset.shape)
        if work.model == "cnn"
        else softmax(int(np.prod(dataset.shape)), dataset.classes, bias=False)  # as the peers have it
    )
    method = _method(work, scaled(model, dataset.shift, dataset.scale))  # rows stay uint8, as in `fedtier run`
    return Side(clients, plan, model, method, model.init(keys.root(work.seed)))


def _method(work: Workload, model: Model) -> methods.Method:
    problem = supervised(cross_entropy(model), penalty=ZO_HFL.penalty, proximity=ZO_HFL.proximity)
    if work.method == "zo_hfl":
        return methods.zo_hfl(
            problem,
            estimator=methods.sphere(smoothing=ZO_HFL.smoothing),
            local=methods.projected_sgd(f"inverse({work.lr})", batch=work.batch),
            server=methods.descent(f"inverse_sqrt({ZO_HFL.server_lr})", batch=ZO_HFL.server_batch),
        )
    return methods.make(work.method, problem, {"client_lr": f"constant({work.lr})", "batch": work.batch})


def names(tree: Any) -> dict[str, np.ndarray]:
    """The leaves of a model by short names: 0, 1, ... in tree order, which for the net is kernels, biases, weight, bias."""
    return {str(k): np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(tree))}


def write(work: Workload, dataset: Dataset, folder: Path) -> None:
    """The task as arrays in `folder`; see `stored`."""
    folder.mkdir(parents=True, exist_ok=True)
    ours = side(work, dataset)
    who = ours.federation
    np.savez(folder / "x0.npz", **names(ours.x))
    np.savez(
        folder / "partition.npz", index=who.index, test=np.stack(who.test), server=np.stack(who.server),
        start=who.train.start, size=who.train.size, ids=ours.plan.ids, steps=ours.plan.steps,
    )  # fmt: skip
    np.savez(folder / "rows.npz", inputs=dataset.inputs, labels=dataset.labels, shift=dataset.shift, scale=dataset.scale)


def same_rows(ours: Side, index: np.ndarray, ids: np.ndarray) -> bool:
    return bool(jnp.array_equal(ours.federation.index, index)) and np.array_equal(ours.plan.ids, ids)


def main(chosen: list[str]) -> None:
    for name in chosen or list(WORKLOADS):
        work = workload(name)
        mark = DATA / name / "workload.txt"
        if not mark.exists() or mark.read_text() != repr(work):
            print(f"storing {name}", file=sys.stderr)
            write(work, datasets.load(work.data), DATA / name)
            mark.write_text(repr(work))


if __name__ == "__main__":
    main(sys.argv[1:])
