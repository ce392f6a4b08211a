"""The server's own rows and test rows, read into an experiment in which the sites are names without data."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ..datasets import Preparation
from ..datasets.own import from_file
from ..errors import called, require
from ..experiments.assemble import Experiment, assemble
from ..experiments.tables import keys_of
from ..federation import Federation, Window
from ..problem import Rows, Spec
from .evaluation import measured_preparation, with_model_of
from .party import Party, dataset_of, open_rows
from .settings import WireRun

READING = ("drop", "keep", "categories", "missing", "max_categories", "task", "header")  # keys of [data] that the server heeds


def open_server(run: WireRun) -> tuple[Experiment, Preparation]:
    """The experiment as the server sees it, and how the sites are to prepare their rows."""
    files = {f"wire.{key}": run.folder / name for key, name in (("server", run.wire.server), ("test", run.wire.test))}
    if run.wire.preparation is not None:
        files["wire.preparation"] = run.folder / run.wire.preparation
    for key, path in files.items():
        require(path.exists(), key, str(path), "is not there", "give the path from run.toml, or an absolute one")
    preparation = _preparation(run)
    own, held = (open_rows(files[key], run.wire.label, preparation) for key in ("wire.server", "wire.test"))
    alike = own.inputs.dtype == held.inputs.dtype
    inputs = np.concatenate([held.inputs, own.inputs], dtype=own.inputs.dtype if alike else np.float32)
    labels = np.concatenate([held.labels, own.labels])
    dataset = dataset_of(run.config.data.title, preparation, Party(inputs, labels))._replace(owner_names=tuple(run.wire.sites))
    parties = _parties(Rows(inputs, labels), len(held.labels), len(own.labels), len(run.wire.sites))  # pyright: ignore[reportArgumentType]
    experiment = assemble(run.config, dataset, parties)
    if run.wire.evaluate is not None:
        experiment = with_model_of(experiment, run.folder / run.wire.evaluate)
    return experiment, preparation


def _preparation(run: WireRun) -> Preparation:
    """The one that run.toml names, that of a model to be measured, or one fitted to the server's own rows, with the classes
    that run.toml lists if it does."""
    if run.wire.evaluate is not None:
        return measured_preparation(run.folder / run.wire.evaluate)
    if run.wire.preparation is not None:
        return Preparation.from_json((run.folder / run.wire.preparation).read_text(encoding="utf-8"))
    reading = {key: getattr(run.config.data, key) for key in READING}
    with called(keys_of("data") | {"file": "wire.server", "label": "wire.label"}):
        dataset = from_file(run.folder / run.wire.server, label=run.wire.label, **reading)
    found = dataset.prepared([np.arange(dataset.rows)]).preparation
    if not (run.wire.labels and found.label.classes):
        return found
    return found._replace(label=found.label._replace(classes=tuple(run.wire.labels)))


def _parties(arrays: Rows, tested: int, served: int, clients: int) -> Federation:
    def ints(a: object) -> jnp.ndarray:
        return jnp.asarray(a, jnp.int32)

    nothing = Window(ints(np.zeros(clients)), ints(np.zeros(clients)))
    return Federation(
        arrays, ints(np.arange(tested + served)), Window(ints(0), ints(tested)), Window(ints(tested), ints(served)),
        nothing, nothing, specs(np.ones(clients), None),
    )  # fmt: skip


def specs(rows: np.ndarray, radius: float | list[float] | None) -> Spec:
    """Weights by rows, 1 on average over the sites that have said how many they have; as the simulation has them."""
    known = rows > 0
    mean = rows[known].mean() if known.any() else 1.0
    limits = np.broadcast_to(np.inf if radius is None else np.asarray(radius, float), rows.shape)
    return Spec(*(jnp.asarray(a, jnp.result_type(float)) for a in (rows / mean, limits, np.ones(len(rows)))))
