"""What a run leaves to take away: its bundle, written when it is over."""

from __future__ import annotations

import platform
from collections.abc import Collection
from pathlib import Path

import jax
import numpy as np
from jaxtyping import PyTree

from ...datasets import Dataset, Preparation
from ...datasets.references import CITATIONS, LICENCES
from ..assemble import Experiment
from ..config import Config
from ..data import seeds_of
from ..models import recipe_of
from ..origin import code_digest, package_versions
from ..run_folder import RunFolder
from .about import About
from .bundle import write
from .parts import parts_told
from .rows import Reading

GIB = 2**30
AT_SITES = "each site has its own personal model in its state folder"


def is_kept(experiment: Experiment, clients: int) -> bool:
    """Whether the personal models of so many clients fit into run.keep_personal GiB, all seeds together; never where a client
    predicts by more than a model, which no bundle holds."""
    if experiment.method.predict is not None:
        return False
    return experiment.model is not None and personal_gib(experiment, clients) <= experiment.config.run.keep_personal


def personal_gib(experiment: Experiment, clients: int) -> float:
    """The size of the personal models of so many clients, all seeds together."""
    one = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(experiment.x))  # all seeds of one model
    return clients * one / GIB


def keep_bundle(
    folder: Path,
    experiment: Experiment,
    x: PyTree | None,
    personal: PyTree,
    clients: Collection[int],
    diverged: Collection[int],
) -> None:
    """Writes the bundle of a run: global models x, leaves [seeds, ...], and `personal` ones, leaves [seeds, clients, ...], ()
    where they were not kept. Seeds are `diverged` by their place."""
    config, names = experiment.config, experiment.client_names
    kept = bool(jax.tree.leaves(personal))
    about = About(
        recipe=recipe_of(config, experiment.dataset),
        preparations=dict(zip(seeds_of(config), _preparations(config, experiment.dataset), strict=True)),
        clients=tuple(names[i] for i in clients) if kept else (),
        why=_why(experiment, kept, len(clients)),
        has_global=x is not None,
        reading=Reading(_columns(experiment.dataset), config.data.header, config.data.image_size, experiment.dataset.decimal),
        tables=config.model_dump(exclude_none=True),
        parts=parts_told(config.method),
        steps=int(experiment.steps[-1].max()),
        round=config.run.rounds,
        diverged=tuple(seeds_of(config)[s] for s in sorted(diverged)),
        data=_origin(config, RunFolder(folder.parent).made_from().data),
        versions=versions(),
    )
    write(folder, about, x, personal if kept else None)


def _why(experiment: Experiment, kept: bool, clients: int) -> str:
    """Why personal models are missing, and how to get them; nothing where all are there."""
    if kept and clients == experiment.clients:
        return ""
    if kept:
        rule = f"models of {clients} of the {experiment.clients} clients are kept (run.eval_clients)"
        return f"{rule}; `fedtier adapt` makes one for any client from its rows"
    if experiment.own is not None:
        return "clients have models of their own, in the run's folder and not in its bundle"
    if experiment.method.predict is not None:
        return f"a client of {experiment.method.name} predicts by its rows beside the global model, and a bundle has no rows"
    if not np.asarray(experiment.federation.train.size).any():
        return AT_SITES
    size, most = personal_gib(experiment, clients), experiment.config.run.keep_personal
    rule = f"personal models of {clients} clients take {size:.3g} GiB, more than run.keep_personal = {most:g}"
    return f"{rule}; raise it in the run's config.toml and `fedtier resume` the run, or `fedtier adapt` one client"


def _origin(config: Config, digest: str) -> dict[str, str]:
    """What is known of the training data: its name, a digest of its rows; of a published set whom to cite, and its licence."""
    known = {"citation": CITATIONS.get(config.data.name, ""), "licence": LICENCES.get(config.data.name, "")}
    return {"name": config.data.title, "rows": digest} | {key: words for key, words in known.items() if words}


def _preparations(config: Config, dataset: Dataset) -> tuple[Preparation, ...]:
    return dataset.preparations or (dataset.preparation,) * config.run.seeds


def _columns(dataset: Dataset) -> tuple[str, ...]:
    """Names of the numbers of a row, for rows that are prepared as one array."""
    return dataset.columns if dataset.preparation.scaling is not None else ()


def versions() -> dict[str, str | None]:
    """Of the packages that matter for a bundle, and of Python."""
    return package_versions() | {"python": platform.python_version(), "code": code_digest()}
