"""fedtier: federated learning on two levels.

    import fedtier as ft

    data = ft.federate("patients.csv", label="outcome", owner="hospital")
    result = ft.train(ft.zo_hfl(), data, rounds=50)
    result.predict("new.csv", client="zurich")

Names are looked up at their first use, so that importing the package loads nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazily

__version__ = "0.1.0"

HOMES = {
    "library.data": ("Federated", "federate"),
    "library.choices": (
        "MethodChoice", "ModelChoice", "agnostic", "apfl", "cfl", "cnn", "codistil", "coordinate_median", "decomfl", "ditto",
        "fedadagrad", "fedadam", "fedasync", "fedavg", "fedavgm", "fedbn", "fedbuff", "feddf", "feddyn", "fedexp", "fedmac",
        "fedmd", "fednova", "fedper", "fedprox", "fedrep", "fedrzo", "fedyogi", "ifca", "knn_per", "lg_fedavg", "linear",
        "local_only", "method", "mlp", "mocha", "model", "moon", "per_fedavg", "pfedme", "rfa", "scaffold", "server_only",
        "shrofbo", "simfbo", "softmax", "trimmed_mean", "zo_hfl", "zoopfl",
    ),
    "library.train": ("train",),
    "library.compare": ("Table", "compare"),
    "library.result": ("Result", "load"),
    "experiments.bundle": ("Bundle",),
    "experiments.bundle.adapt": ("adapt",),
    "methods": (
        "Method", "by_round", "descent", "exact", "fine_tune", "first_order", "global_model", "guided", "lower_level",
        "orthogonal", "projected_sgd", "sphere",
    ),
    "problem": (
        "Bilevel", "Model", "Rows", "Spec", "ball", "box", "cross_entropy", "everywhere", "frozen", "half_space", "huber",
        "huber_error", "l1_ball", "on_part", "orthant", "product", "quadratic", "simplex", "squared_error", "supervised",
    ),
    "compilation": ("configure_jax",),
    "errors": ("FedtierError", "FedtierWarning"),
    "": (
        "datasets", "engines", "errors", "experiments", "federation", "keys", "methods", "problem", "schedules", "theory",
        "trees",
    ),
}  # fmt: skip
"""Where each name of the package is; the modules themselves stand last."""

lazily(__name__, {name: home for home, names in HOMES.items() for name in names})

__all__ = [
    "Bilevel", "Bundle", "Federated", "FedtierError", "FedtierWarning", "Method", "MethodChoice", "Model", "ModelChoice",
    "Result", "Rows", "Spec", "Table", "__version__", "adapt", "agnostic", "apfl", "ball", "box", "by_round", "cfl", "cnn",
    "codistil", "compare", "configure_jax", "coordinate_median", "cross_entropy", "datasets", "decomfl", "descent", "ditto",
    "engines", "errors", "everywhere", "exact", "experiments", "fedadagrad", "fedadam", "fedasync", "fedavg", "fedavgm",
    "fedbn", "fedbuff", "feddf", "feddyn", "federate", "federation", "fedexp", "fedmac", "fedmd", "fednova", "fedper",
    "fedprox", "fedrep", "fedrzo", "fedyogi", "fine_tune", "first_order", "frozen", "global_model", "guided", "half_space",
    "huber", "huber_error", "ifca", "keys", "knn_per", "l1_ball", "lg_fedavg", "linear", "load", "local_only",
    "lower_level", "method", "methods", "mlp", "mocha", "model", "moon", "on_part", "orthant", "orthogonal", "per_fedavg",
    "pfedme", "problem", "product", "projected_sgd", "quadratic", "rfa", "scaffold", "schedules", "server_only", "shrofbo",
    "simfbo", "simplex", "softmax", "sphere", "squared_error", "supervised", "theory", "train", "trees", "trimmed_mean",
    "zo_hfl", "zoopfl",
]  # fmt: skip

if TYPE_CHECKING:  # what an editor completes
    from . import datasets, engines, errors, experiments, federation, keys, methods, problem, schedules, theory, trees
    from .compilation import configure_jax
    from .errors import FedtierError, FedtierWarning
    from .experiments.bundle import Bundle
    from .experiments.bundle.adapt import adapt
    from .library.choices import (
        MethodChoice,
        ModelChoice,
        agnostic,
        apfl,
        cfl,
        cnn,
        codistil,
        coordinate_median,
        decomfl,
        ditto,
        fedadagrad,
        fedadam,
        fedasync,
        fedavg,
        fedavgm,
        fedbn,
        fedbuff,
        feddf,
        feddyn,
        fedexp,
        fedmac,
        fedmd,
        fednova,
        fedper,
        fedprox,
        fedrep,
        fedrzo,
        fedyogi,
        ifca,
        knn_per,
        lg_fedavg,
        linear,
        local_only,
        method,
        mlp,
        mocha,
        model,
        moon,
        per_fedavg,
        pfedme,
        rfa,
        scaffold,
        server_only,
        shrofbo,
        simfbo,
        softmax,
        trimmed_mean,
        zo_hfl,
        zoopfl,
    )  # fmt: skip
    from .library.compare import Table, compare
    from .library.data import Federated, federate
    from .library.result import Result, load
    from .library.train import train
    from .methods import (
        Method,
        by_round,
        descent,
        exact,
        fine_tune,
        first_order,
        global_model,
        guided,
        lower_level,
        orthogonal,
        projected_sgd,
        sphere,
    )  # fmt: skip
    from .problem import (
        Bilevel,
        Model,
        Rows,
        Spec,
        ball,
        box,
        cross_entropy,
        everywhere,
        frozen,
        half_space,
        huber,
        huber_error,
        l1_ball,
        on_part,
        orthant,
        product,
        quadratic,
        simplex,
        squared_error,
        supervised,
    )  # fmt: skip
