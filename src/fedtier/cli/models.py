"""Commands that use what a run has trained: predict, adapt, export-model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from .shared import Number, Place, Real, Text, prepare_jax, show

Rows = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="ROWS")]
Run = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]


def predict(run: Run, rows: Rows, client: Text = None, seed: Number = None, out: Place = None, json: bool = False) -> None:
    """Predict rows by a model that a run has trained: the global one, or a client's.

    Args:
        run: The run's folder, or a bundle's own.
        rows: A table (CSV, Parquet, Arrow), an .npz or .npy of arrays, or a folder of images; the label may be in it.
        client: Whose personal model predicts; without it the global one.
        seed: Of which seed the models are; default: the first.
        out: CSV to write; without it the CSV goes to stdout.
        json: One JSON object on stdout instead of CSV.
    """
    from ..experiments.bundle import Bundle

    prepare_jax()
    found = Bundle.load(run, seed).predict(rows, client)
    if found.unused:
        print(f"columns that the model does not look at: {', '.join(found.unused)}", file=sys.stderr)
    scores = {"accuracy": found.accuracy, "rmse": found.rmse}
    for name, value in scores.items():
        if value is not None:
            print(f"{name} on these {len(found.values)} rows: {value:.4g}", file=sys.stderr)
    if out is not None:
        found.to_csv(out)
        print(f"predictions: {out}", file=sys.stderr)
    if json:
        content = {name: column.tolist() for name, column in found.columns().items()} if out is None else {}
        show({"rows": len(found.values)} | {key: value for key, value in scores.items() if value is not None} | content)
    elif out is None:
        print(found.to_csv(), end="")


def adapt(
    run: Run,
    rows: Rows,
    out: Path,
    client: str = "new",
    seed: Number = None,
    steps: Number = None,
    radius: Real = None,
    test_share: float = 0.2,
    json: bool = False,
) -> None:
    """Make a personal model for a client that was not in training, from its own rows, as the run's method makes them.

    Args:
        run: The run's folder, or a bundle's own.
        rows: The client's labelled rows: a table, an .npz of arrays, or a folder of images.
        out: Folder of its bundle, a new one: the global model and its own.
        client: What the client is called there.
        seed: Of which seed the global model is; default: the first.
        steps: Local steps; default: as many as the run's last round has.
        radius: The client's limit, where the run has one for each client.
        test_share: Part of the rows that is held back to compare the two models; 0: none.
        json: One JSON object on stdout instead of words.
    """
    from ..errors import require
    from ..experiments.bundle import Bundle
    from ..experiments.bundle.adapt import adapt as adapted

    prepare_jax()
    require(not (out / "bundle.json").exists(), "--out", str(out), "already holds a bundle", "choose another folder")
    options = {"client": client, "steps": steps, "radius": radius, "test_share": test_share}
    found = adapted(Bundle.load(run, seed), rows, **options)
    found.bundle.save(out)
    told = {"global": found.global_says, "adapted": found.adapted_says}
    word = "accuracy" if found.bundle.preparation.label.classes else "rmse"
    scores = {name: None if said is None else getattr(said, word) for name, said in told.items()}
    if json:
        show({"bundle": str(out), "client": client, "held": found.held, "metric": word} | scores)
        return
    known = [f"{name} {value:.4g}" for name, value in scores.items() if value is not None]
    lines = [f"{word} on {found.held} rows held back: {', '.join(known)}"] if known else []
    show("\n".join([*lines, f"bundle: {out}", f"next: fedtier predict {out} ROWS --client {client}"]))


def export_model(
    run: Run,
    file: tyro.conf.Positional[Path],
    to: Literal["onnx", "numpy"],
    client: Text = None,
    seed: Number = None,
) -> None:
    """Export a model that a run has trained, with the preparation of its rows, to ONNX or to plain NumPy.

    Args:
        run: The run's folder, or a bundle's own.
        file: FILE.onnx, or FILE.py with FILE.npz beside it.
        to: onnx needs the package onnx; numpy writes a Python file that needs NumPy alone.
        client: Whose personal model is exported; without it the global one.
        seed: Of which seed the models are; default: the first.
    """
    from ..experiments.bundle import Bundle
    from ..experiments.bundle.to_numpy import to_numpy
    from ..experiments.bundle.to_onnx import to_onnx

    bundle = Bundle.load(run, seed)
    written = (to_onnx if to == "onnx" else to_numpy)(bundle, file, client)
    show("\n".join(f"written: {path}" for path in written))
