"""The studies by name, for `fedtier reproduce`; adding a study is adding a row. Each is imported when it is asked for."""

from __future__ import annotations

import importlib
from typing import NamedTuple

from ..errors import choice, require
from ..experiments.progress import Progress
from ..storage.files import folder_for
from .study import Order, Product


class Row(NamedTuple):
    module: str  # below fedtier.studies; its function make(order, progress) is a `study.Maker`
    about: str
    stored: bool = False  # can show what the store has and run nothing


STUDIES: dict[str, Row] = {
    "table1": Row("paper.reproduce", "the paper's table of accuracies"),
    "figure1": Row("paper.reproduce", "the paper's partitions"),
    "figure2": Row("paper.reproduce", "the paper's convergence curves", stored=True),
    "figure3": Row("paper.reproduce", "the implicit function and its smoothed forms"),
    "methods": Row("methods.reproduce", "all methods on Fashion-MNIST at three levels of heterogeneity, each searched alike"),
    "methods-hospitals": Row("methods.reproduce", "the same on the four hospitals of the heart-disease set"),
    "robustness": Row("robustness.reproduce", "what each aggregation does about clients that attack"),
    "privacy": Row("privacy.reproduce", "accuracy against epsilon for whole clients, on Fashion-MNIST"),
    "privacy-hospitals": Row("privacy.reproduce", "accuracy against epsilon for single rows, beside FLamby's numbers"),
    "asynchrony": Row("asynchrony.reproduce", "virtual time to an accuracy: FedBuff and FedAsync beside FedAvg"),
    "own-models": Row("own_models.reproduce", "four sites with four kinds of models and a server with a net"),
    "fed-heart-disease": Row("outside.reproduce", "FLamby's table of strategies on four hospitals, its numbers beside ours"),
    "niid-bench": Row(
        "outside.cells", "NIID-Bench's table of four methods and six splits, two publications beside ours", stored=True
    ),
    "pfllib": Row("outside.cells", "PFLlib's leaderboard of personalised methods on Fashion-MNIST, beside ours", stored=True),
    "decomfl": Row("outside.cells", "DeComFL's curves of accuracy against bytes, and ZO-HFL on the same axis", stored=True),
}


def make_result(order: Order, progress: Progress) -> Product:
    """The product of the study that the order names."""
    choice("NAME", order.name, STUDIES)
    able = [name for name, row in STUDIES.items() if row.stored]
    require(not order.stored or order.name in able, "--stored", order.name, f"is for {', '.join(able)} alone", "leave it out")
    found = not order.stored or order.store.is_dir()
    require(found, "--store", str(order.store), "is not a folder", "the store of an earlier call")
    module = importlib.import_module(f"{__package__}.{STUDIES[order.name].module}")
    with folder_for(order.out):
        return module.make(order, progress)
