"""A model that fedtier has trained, on its own: this file and the .npz beside it. NumPy is all that they need.

    python THIS_FILE.py rows.csv              predictions as CSV on standard output
    from THIS_FILE import predict             predict(rows) -> (values, probabilities)

`rows` is a dict of columns, or an array whose columns are in the order of `about()["columns"]`; rows of images are arrays.
A missing number is NaN, a missing word "". `values` are names of classes, with `probabilities` [N, classes]; or numbers,
with None.
"""

import csv
import functools
import json
import sys
from pathlib import Path

import numpy as np


@functools.cache
def _stored():
    with np.load(Path(__file__).with_suffix(".npz"), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


@functools.cache
def about():
    """What the model is: columns, classes, layers, the preparation of rows, where it comes from."""
    return json.loads(str(_stored()["about"]))


def predict(rows):
    """(values, probabilities) of `rows`; see above."""
    outputs, label = _outputs(prepare(rows)).astype(np.float64), about()["preparation"]["label"]
    if not label["classes"]:
        return outputs[:, 0] / label["scale"] + label["shift"], None
    grown = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return np.asarray(label["classes"])[outputs.argmax(axis=1)], grown / grown.sum(axis=1, keepdims=True)


def prepare(rows):
    """The rows as the model sees them."""
    how = about()["preparation"]
    if how["scaling"] is not None:
        shape, shift, scale = (how["scaling"][key] for key in ("shape", "shift", "scale"))
        if isinstance(rows, dict):
            rows = np.column_stack([np.asarray(rows[name], np.float32) for name in about()["columns"] or rows])
        rows = np.asarray(rows).reshape(len(rows), *shape).astype(np.float32)
        return (rows - np.asarray(shift, np.float32)) * np.asarray(scale, np.float32)
    if not isinstance(rows, dict):
        rows = dict(zip(about()["columns"], np.asarray(rows).T, strict=True))
    numbers, flags, words = [], [], []
    for column in how["numbers"]:
        values = _numbers(rows[column["name"]])
        gone = ~np.isfinite(values)
        numbers.append((np.where(gone, column["fill"], values) - column["shift"]) * column["scale"])
        flags += [gone] if column["missing"] else []
    for column in how["categories"]:
        words += _flags(column, [_word(cell) for cell in rows[column["name"]]])
    found = np.stack([*numbers, *flags, *words], axis=1).astype(np.float32)
    return np.pad(found, ((0, 0), (0, about()["shape"][-1] - found.shape[1])))


def _numbers(cells):
    return np.asarray(
        [np.nan if str(cell).strip().lower() in about()["missing"] else float(cell) for cell in cells], np.float64
    )


def _word(cell):
    """The text of a cell; a whole number without a point: 3.0 is "3"."""
    if isinstance(cell, (int, float, np.number)):
        return "" if np.isnan(cell) else str(int(cell)) if cell == int(cell) else repr(float(cell))
    text = str(cell).strip()
    return "" if text.lower() in about()["missing"] else text


def _flags(column, words):
    known = [np.asarray([word == level for word in words]) for level in column["levels"]]
    gone = np.asarray([word == "" for word in words])
    other = ~np.any([gone, *known], axis=0)
    return [*known, *([other] if column["other"] else []), *([gone] if column["missing"] else [])]


def _outputs(values):
    stored = _stored()
    for k, kind in enumerate(about()["layers"]):
        weight, bias = stored[f"weight_{k}"], stored[f"bias_{k}"]
        if kind == "convolution":
            values = np.maximum(_pooled(_convolved(values, weight)) + bias[:, None, None], 0)
        else:
            flat = values.transpose(0, 2, 3, 1) if k and values.ndim == 4 else values
            values = flat.reshape(len(flat), -1) @ weight.T + bias
            values = np.maximum(values, 0) if kind == "dense, relu" else values
    return values


def _convolved(images, kernel):
    height, width = images.shape[2:]
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    places = [(i, j) for i in range(3) for j in range(3)]
    return sum(np.einsum("nchw,oc->nohw", padded[:, :, i : i + height, j : j + width], kernel[:, :, i, j]) for i, j in places)


def _pooled(images):
    count, channels, height, width = images.shape
    even = images[:, :, : height // 2 * 2, : width // 2 * 2]
    return even.reshape(count, channels, height // 2, 2, width // 2, 2).max(axis=(3, 5))


def _main():
    with open(sys.argv[1], newline="", encoding="utf-8") as file:
        names, *lines = csv.reader(file)
    values, probabilities = predict({name: [line[k] for line in lines] for k, name in enumerate(names)})
    classes = about()["preparation"]["label"]["classes"]
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["predicted", *(f"probability {name}" for name in classes)])
    for k, value in enumerate(values.tolist()):
        out.writerow([value, *([] if probabilities is None else probabilities[k].tolist())])


if __name__ == "__main__":
    _main()
