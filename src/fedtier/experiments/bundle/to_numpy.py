"""A model as one Python file and one .npz, which need NumPy and nothing else."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np

from ...datasets.table import MISSING
from ...errors import require
from ...storage.files import write_whole
from .bundle import Bundle
from .layers import Dense, layers_of

SOURCE = Path(__file__).with_name("standalone.py")


def to_numpy(bundle: Bundle, file: Path, client: str | None = None) -> list[Path]:
    """Writes FILE.py, which predicts, and FILE.npz, its numbers; both files. The preparation of rows is in them, words
    included; what is not: reading anything but plain CSV, decimal commas and dates."""
    rule = "must end in .py: the numbers go into the .npz beside it"
    require(file.suffix == ".py", "FILE", str(file), rule, f"{file.with_suffix('.py')}")
    layers = layers_of(bundle, client)
    kinds = [("dense, relu" if one.relu else "dense") if isinstance(one, Dense) else "convolution" for one in layers]
    about = {
        "columns": bundle.columns, "shape": bundle.about.recipe.shape, "layers": kinds, "seed": bundle.seed, "client": client,
        "preparation": json.loads(bundle.preparation.to_json()), "data": dict(bundle.about.data),
        "versions": dict(bundle.about.versions), "missing": sorted(MISSING),
    }  # fmt: skip
    arrays = {f"weight_{k}": one[0] for k, one in enumerate(layers)} | {f"bias_{k}": one[1] for k, one in enumerate(layers)}
    content = io.BytesIO()
    np.savez(content, about=np.asarray(json.dumps(about)), **arrays)  # pyright: ignore[reportArgumentType]
    written = [file.with_suffix(".npz"), file]
    write_whole(written[0], content.getvalue())
    write_whole(written[1], SOURCE.read_bytes())
    return written
