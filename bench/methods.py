"""The time of a gradient by every method of the registry, as a multiple of FedAvg's.

    python bench/methods.py [NAME ...]          prints the table; all methods take some minutes
    python bench/methods.py --write             stores it in docs/figures/methods.json and docs/speed.md too

Work like that of W3 (softmax regression on 784 inputs, 10 clients, cohort 5, 100 local steps of batch 32), on random rows, with
the recommended keys. A method and FedAvg take turns in one process, and what counts is the processor's time, not the wall's:
the machine may be busy with other work. What a method does in its rounds, all of it, is divided by the gradients of its
clients, `Method.solves` * steps * cohort; the ratio is the median over the turns. Methods that need features run on a net
with one hidden layer of 64, and FedAvg beside them too. Compilation, evaluation and personal models are not in it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from machine import description

from fedtier import federation, keys, methods
from fedtier.engines import compiled
from fedtier.errors import FedtierError
from fedtier.federation import Federation, Plan
from fedtier.methods import registry
from fedtier.problem import Model, Rows, cross_entropy, mlp, softmax, supervised

FEATURES, CLASSES, ROWS, CLIENTS, COHORT, STEPS, ROUNDS, REPEATS = 784, 10, 8_000, 10, 5, 100, 2, 7
LIMIT = 1.5
DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- methods: begin -->", "<!-- methods: end -->"
Stretch = Callable[[], float]


def rows() -> Federation:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, ROWS).astype(np.int32)
    inputs = rng.standard_normal((ROWS, FEATURES)).astype(np.float32)
    assign = federation.partition.dirichlet(labels, CLIENTS, 1.0, least=2)
    return federation.build(Rows(inputs, labels), assign, clients=CLIENTS, rng=rng)


def recommended(name: str) -> dict[str, Any]:
    """The method's own keys; those of the problem and of its personal models are not part of a round."""
    known = registry.options(name)
    return {key: value for key, value in registry.defaults(name, "recommended").items() if key in known}


def stretch(name: str, model: Model, data: Federation) -> tuple[Stretch, methods.Method]:
    """(a function that runs some rounds and returns the processor's seconds, the method), compiled."""
    method = methods.make(name, supervised(cross_entropy(model))._replace(model=model, outputs=CLASSES), recommended(name))
    rng = np.random.default_rng(1)
    ids = np.stack([np.sort(rng.choice(CLIENTS, COHORT, replace=False)) for _ in range(ROUNDS)]).astype(np.int32)
    ages = np.zeros_like(ids) if method.buffer else None
    plan = Plan(ids, np.full_like(ids, STEPS), np.ones(ids.shape, bool), ages)
    engine = compiled(method, capacity=ROUNDS, history=plan.history)
    start = engine.init(model.init(keys.root(0)), data)

    def run() -> float:
        clock = time.process_time()
        jax.block_until_ready(engine.advance(start, data, plan, keys.root(0), 0, ROUNDS)[0])
        return time.process_time() - clock

    run()
    return run, method


def measured(name: str, model: Model, data: Federation, fedavg: Stretch) -> dict[str, Any]:
    """How many times FedAvg's a gradient takes: the median over the turns, the least and the most."""
    run, method = stretch(name, model, data)
    about = {"method": name, "model": model.name, "solves": method.solves}
    if method.solves == 0:
        return about
    pairs = [(fedavg(), run(), fedavg()) for _ in range(REPEATS)]
    found = [ours / method.solves / ((before + after) / 2) for before, ours, after in pairs]
    each = statistics.median(ours for _, ours, _ in pairs) / (method.solves * ROUNDS * STEPS * COHORT)
    return about | {"ratio": statistics.median(found), "least": min(found), "most": max(found), "microseconds": 1e6 * each}


def table(names: list[str]) -> list[dict[str, Any]]:
    """A row for each method, on the first model that it takes."""
    data, lines = rows(), []
    models = (softmax(FEATURES, CLASSES, bias=False), mlp(FEATURES, CLASSES, hidden=64))
    fedavg = {model.name: stretch("fedavg", model, data)[0] for model in models}
    for name in names:
        for model in models:
            try:
                line = measured(name, model, data, fedavg[model.name])
            except FedtierError as error:
                refused = error
                continue
            lines.append(line)
            print(as_row(line), flush=True)
            break
        else:
            raise refused
    return lines


def as_row(line: dict[str, Any]) -> str:
    if "ratio" not in line:
        return f"| {line['method']} | {line['model']} | 0 | – | – |"
    ratio = f"{line['ratio']:.2f} ({line['least']:.2f}, {line['most']:.2f})"
    shown = f"**{ratio}**" if line["ratio"] > LIMIT else ratio
    return f"| {line['method']} | {line['model']} | {line['solves']} | {line['microseconds']:.1f} | {shown} |"


def page(found: dict[str, Any]) -> str:
    """The table for docs/speed.md, the dearest first."""
    lines = sorted(found["methods"], key=lambda line: -line.get("ratio", 0.0))
    machine = ", ".join(f"{key} {found['machine'][key]}" for key in ("cpu", "cores", "fedtier"))
    head = [
        f"{found['date']}, {REPEATS} turns. Machine: {machine}.\n",
        "| method | model | solves | µs a gradient | times FedAvg's (least, most) |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*head, *map(as_row, lines)]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="methods; by default all")
    parser.add_argument("--write", action="store_true", help="store the table, of all methods, in docs")
    asked = parser.parse_args()
    if asked.write and asked.names:
        parser.error("--write is for all methods: leave the names out")
    warnings.simplefilter("ignore")  # fedper on a softmax model, which is nothing but a head, and the like
    lines = table(asked.names or list(registry.METHODS))
    if asked.write:
        found = {"date": f"{datetime.date.today()}", "machine": description(), "methods": lines}
        (DOCS / "figures" / "methods.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        speed = DOCS / "speed.md"
        before, rest = speed.read_text(encoding="utf-8").split(BEGIN)
        speed.write_text(f"{before}{BEGIN}\n{page(found)}{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
