"""The server's own rows and test rows, read into an experiment in which the sites are names without data."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np

from ..datasets.dataset import standardisation
from ..datasets.labels import encode
from ..datasets.own import read_table
from ..errors import FedtierError, require
from ..experiments.assemble import Experiment, assemble
from ..federation import Federation, Window
from ..problem import Rows, Spec
from .card import Card, dataset_of, open_rows
from .settings import WireRun


def open_server(run: WireRun) -> tuple[Experiment, Card]:
    """The experiment as the server sees it, and the card for the sites."""
    server, test = (run.folder / name for name in (run.wire.server, run.wire.test))
    for key, path in (("wire.server", server), ("wire.test", test)):
        require(path.exists(), key, str(path), "is not there", "give the path from run.toml, or an absolute one")
    card = _card(server, run.wire.label, tuple(run.wire.labels))
    own, own_labels = open_rows(server, run.wire.label, card)
    held, held_labels = open_rows(test, run.wire.label, card)
    inputs = np.concatenate([held, own])  # bytes beside floats become floats, never the other way
    labels = np.concatenate([held_labels, own_labels])
    dataset = dataset_of(run.config.data.name, card, inputs, labels)
    parties = _parties(Rows(inputs, labels), len(held), len(own), len(run.wire.sites))  # pyright: ignore[reportArgumentType]
    return assemble(run.config, dataset, parties), card


def _card(path: Path, label: str, names: tuple[str, ...]) -> Card:
    """Labels as run.toml lists them, else as the server's rows have them; the scaling from the arrays `shift` and `scale`
    of an .npz, else from the server's own rows."""
    inputs, labels, _, columns = read_table(path, label)
    names = names or encode(f"{path.name}: labels", labels, len(inputs), least=2)[1]
    shift, scale = standardisation(inputs)
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            if "shift" in file.files and "scale" in file.files:
                shift, scale = (np.asarray(file[key], np.float32) for key in ("shift", "scale"))
    for name, value in (("shift", shift), ("scale", scale)):
        try:
            np.broadcast_to(value, inputs.shape[1:])
        except ValueError:
            rule = f"must broadcast against a row of shape {inputs.shape[1:]}"
            raise FedtierError(f"{path.name}: {name}", value.shape, rule) from None
    return Card(tuple(inputs.shape[1:]), names, columns, shift, scale)


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
