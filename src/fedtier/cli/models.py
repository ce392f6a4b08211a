"""Commands that use what a run has trained: predict, export-model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from .shared import prepare_jax, show

Rows = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="ROWS")]
Run = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]


def predict(
    run: Run, rows: Rows, client: str | None = None, seed: int | None = None, out: Path | None = None, json: bool = False
) -> None:
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


def export_model(
    run: Run,
    file: tyro.conf.Positional[Path],
    to: Literal["onnx", "numpy"],
    client: str | None = None,
    seed: int | None = None,
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
