"""How good a guide a client's last displacement is: its cosine to the next one, in a run of ZO-HFL.

    python -m fedtier.studies.guides FILE.toml [TABLE.KEY=VALUE ...]        prints the mean and quartiles

The guided estimator measures f2's slope along the displacement x - y of the client's last solves, and finds the share of the
hypergradient that lies along it. A cosine near 1: it finds nearly all. A small one: use `control`, which adds the displacement
of this round. Rounds of the first quarter, where the model still moves fast, do not count.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import numpy as np

from ..errors import FedtierError, require
from ..experiments.assemble import assemble
from ..experiments.config import load_config
from ..experiments.tables import Config
from ..experiments.uncompiled import engine_of


def cosines(config: Config) -> np.ndarray:
    """Of each client's displacement to its next one, for all seeds and rounds but the first quarter."""
    experiment = assemble(config)
    engine = engine_of(experiment, 1)
    state = engine.init(experiment.x, experiment.federation)
    rule = "keeps no displacements: its estimator is not guided by them"
    guided = bool(jax.tree.leaves(getattr(state.clients, "guides", ())))
    require(guided, "method.name", config.method.name, rule, 'zo_hfl with estimator = "guided", the recommended one')
    found, before = [], _displacements(state.clients.guides)
    for number in range(config.run.rounds):
        state, _ = engine.advance(state, experiment.federation, experiment.plan, experiment.key, number, 1)
        after = _displacements(state.clients.guides)
        lengths = np.linalg.norm(before, axis=-1) * np.linalg.norm(after, axis=-1)
        again = (lengths > 0) & np.any(before != after, axis=-1)  # who was asked now, and before
        if number >= config.run.rounds // 4:
            found.append((np.sum(before * after, axis=-1) / np.where(again, lengths, 1))[again])
        before = after
    return np.concatenate([np.zeros(0), *found])


def _displacements(guides: object) -> np.ndarray:
    """The latest one of every client, [seeds, m, n]."""
    leaves = [np.asarray(leaf)[:, :, 0] for leaf in jax.tree.leaves(guides)]
    return np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves], axis=-1)


def main(words: list[str]) -> None:
    require(bool(words), "FILE", "nothing", "must be a configuration", "python -m fedtier.studies.guides examples/run.toml")
    config = load_config(Path(words[0]), words[1:])
    found = cosines(config)
    require(found.size > 0, "run.rounds", config.run.rounds, "too few: no client was asked twice", "raise it")
    low, middle, high = np.quantile(found, [0.25, 0.5, 0.75])
    told = f"mean {found.mean():.2f}, quartiles {low:.2f} {middle:.2f} {high:.2f}, {found.size} pairs"
    print(f"cosine of a displacement to the next: {told}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except FedtierError as error:
        sys.exit(f"error: {error}")
