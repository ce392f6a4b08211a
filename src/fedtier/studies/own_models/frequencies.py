"""How good a site's model is where classes come as often as they do at the site, by far more rows than a site holds back.

    sum_c pi_c (share of the test rows of class c that it gets right)        pi_c: how often the site has class c

Where sites differ by how often they have each class and by nothing else, as by Dirichlet(alpha), this is what the rows that a
site holds back estimate: here by thousands of rows that no model has seen, where a site has hundreds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...experiments.assemble import Experiment
from ...experiments.bundle import Bundle
from ...experiments.data import seeds_of
from ...federation import Window

MOST = 20_000  # test rows, evenly spaced
BLOCK = 2_000  # rows that a model is asked for at once


def accuracies(experiment: Experiment, folder: Path) -> np.ndarray:
    """[seeds, sites] of the personal models of the finished run in `folder`; its rows are dealt as the experiment's are."""
    federation, labels = experiment.federation, np.asarray(experiment.federation.arrays.labels)
    index = np.asarray(federation.index)

    def rows(s: int, window: Window, *at: int) -> np.ndarray:
        first, size = (int(np.asarray(a)[(s, *at)]) for a in (window.start, window.size))
        return index[s, first : first + size]

    found = np.zeros((len(index), experiment.clients))
    for s, seed in enumerate(seeds_of(experiment.config)):
        test = rows(s, federation.test)
        test = test[:: -(-len(test) // MOST)]
        inputs, bundle = experiment.dataset.model_inputs(test), Bundle.load(folder, seed)
        for k, name in enumerate(experiment.client_names):
            said = [bundle.outputs(inputs[b : b + BLOCK], name).argmax(axis=1) for b in range(0, len(test), BLOCK)]
            own = labels[np.concatenate([rows(s, federation.train, k), rows(s, federation.held, k)])]
            found[s, k] = weighted(np.concatenate(said) == labels[test], labels[test], own)
    return found


def weighted(right: np.ndarray, labels: np.ndarray, own: np.ndarray) -> float:
    """The share of rows that are right, where each class counts as often as it is in `own`; one that no row has does not."""
    classes = int(max(labels.max(), own.max())) + 1
    pi, count = (np.bincount(a, minlength=classes).astype(float) for a in (own, labels))
    pi[count == 0] = 0
    return float(np.sum(pi * np.bincount(labels, right, minlength=classes) / np.maximum(count, 1)) / pi.sum())
