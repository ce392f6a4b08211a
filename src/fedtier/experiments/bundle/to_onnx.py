"""A model as ONNX: the preparation of rows, the layers, and what the outputs are called, in one graph.

Inputs of a table: `numbers` [N, k] doubles (NaN: missing), and for each column of words a text input [N, 1] ("": missing). Rows
that are arrays are one input, `rows`, float32. Outputs: `predicted` and `probabilities`, or `predicted` alone for a regression.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import ArrayLike

from ...datasets.preparation import Category, Preparation, Scaling
from ...errors import FedtierError
from ...storage.files import write_whole
from .bundle import Bundle
from .layers import Convolution, Layer, layers_of

OPSET, ML_OPSET = 17, 3
Message = object  # of protocol buffers, as onnx makes and takes them


def to_onnx(bundle: Bundle, file: Path, client: str | None = None) -> list[Path]:
    """Writes FILE.onnx of the global model, or of a client's; the file. Needs the package onnx. What it leaves to others:
    reading files, dates, numbers written with a decimal comma, and spellings of "missing" other than NaN and ""."""
    onnx, graph = _onnx(), _Graph(_onnx().helper)
    layers, preparation = layers_of(bundle, client), bundle.preparation
    values = _prepared(graph, preparation, bundle.about.recipe.shape)
    named = _named(graph, preparation, _through(graph, values, layers))
    words = {"predicted": onnx.TensorProto.STRING if preparation.label.classes else onnx.TensorProto.DOUBLE}
    words |= {"probabilities": onnx.TensorProto.FLOAT} if preparation.label.classes else {}
    helper = onnx.helper
    outputs = [
        helper.make_tensor_value_info(name, kind, ["N", *([None] * (name != "predicted"))]) for name, kind in words.items()
    ]
    assert named == [*words]
    made = helper.make_model(
        helper.make_graph(graph.nodes, "fedtier", graph.inputs, outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
        ir_version=9, producer_name="fedtier", producer_version=str(bundle.about.versions.get("fedtier") or ""),
    )  # fmt: skip
    onnx.checker.check_model(made)
    write_whole(file, made.SerializeToString())
    return [file]


def _onnx() -> ModuleType:
    try:
        return import_module("onnx")
    except ImportError:
        hint = "pip install 'fedtier[onnx]', or export to numpy"
        raise FedtierError("--to", "onnx", "needs the package onnx", hint) from None


class _Graph:
    """Nodes, one after another; every method gives the name of its result."""

    def __init__(self, helper: ModuleType) -> None:
        self.helper = helper
        self.nodes: list[Message] = []
        self.inputs: list[Message] = []
        self.constants: list[Message] = []

    def node(self, kind: str, *inputs: str, name: str = "", domain: str = "", **attributes: int | list[int] | list[str]) -> str:
        name = name or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def constant(self, value: ArrayLike) -> str:
        value, name = np.asarray(value), f"constant_{len(self.constants)}"
        kind = self.helper.np_dtype_to_tensor_dtype(np.dtype(object) if value.dtype.kind == "U" else value.dtype)
        content = [text.encode() for text in value.ravel().tolist()] if value.dtype.kind == "U" else value.ravel().tolist()
        self.constants.append(self.helper.make_tensor(name, kind, value.shape, content))
        return name

    def input(self, name: str, dtype: type, *shape: int) -> str:
        kind = self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(self.helper.make_tensor_value_info(name, kind, ["N", *shape]))
        return name


def _prepared(graph: _Graph, preparation: Preparation, shape: tuple[int, ...]) -> str:
    if preparation.scaling is not None:
        return _scaled(graph, preparation.scaling)
    parts = _numbers(graph, preparation) if preparation.numbers else []
    for column in preparation.categories:
        parts += _category(graph, column)
    missing = shape[-1] - len(preparation.columns)
    if missing:
        rows = graph.node("Slice", parts[0], *(graph.constant(np.asarray([k], np.int64)) for k in (0, 1, 1)))
        zero = graph.node("Mul", rows, graph.constant(np.float32(0)))
        parts.append(graph.node("Tile", zero, graph.constant(np.asarray([1, missing], np.int64))))
    return graph.node("Concat", *parts, axis=1)


def _scaled(graph: _Graph, scaling: Scaling) -> str:
    rows = graph.input("rows", np.float32, *scaling.shape)
    shifted = graph.node("Sub", rows, graph.constant(np.asarray(scaling.shift, np.float32)))
    return graph.node("Mul", shifted, graph.constant(np.asarray(scaling.scale, np.float32)))


def _numbers(graph: _Graph, preparation: Preparation) -> list[str]:
    """In doubles, as the preparation computes; then a 0/1 column for each that may be missing."""
    numbers = preparation.numbers
    given = graph.input("numbers", np.float64, len(numbers))
    gone = graph.node("Or", graph.node("IsNaN", given), graph.node("IsInf", given))
    fill, shift, scale = (
        graph.constant(np.asarray([getattr(one, key) for one in numbers])) for key in ("fill", "shift", "scale")
    )
    whole = graph.node("Where", gone, fill, given)
    parts = [graph.node("Cast", graph.node("Mul", graph.node("Sub", whole, shift), scale), to=1)]
    flagged = [k for k, one in enumerate(numbers) if one.missing]
    if flagged:
        some = graph.node("Gather", gone, graph.constant(np.asarray(flagged, np.int64)), axis=1)
        parts.append(graph.node("Cast", some, to=1))
    return parts


def _category(graph: _Graph, column: Category) -> list[str]:
    given = graph.input(column.name, object, 1)
    shapes = {count: graph.constant(np.asarray([-1, count], np.int64)) for count in {len(column.levels), 1}}

    def flags(levels: list[str]) -> str:
        found = graph.node("OneHotEncoder", given, domain="ai.onnx.ml", cats_strings=levels, zeros=1)
        return graph.node("Reshape", found, shapes[len(levels)])

    known, gone = flags([*column.levels]), flags([""])
    parts = [known]
    if column.other:
        total = graph.node("ReduceSum", known, graph.constant(np.asarray([1], np.int64)), keepdims=1)
        rest = graph.node("Sub", graph.constant(np.float32(1)), total)
        parts.append(graph.node("Sub", rest, gone))
    return [*parts, *([gone] if column.missing else [])]


def _through(graph: _Graph, values: str, layers: list[Layer]) -> str:
    images = isinstance(layers[0], Convolution)
    for layer in layers:
        weight, bias = graph.constant(layer[0]), graph.constant(layer.bias)
        if isinstance(layer, Convolution):
            made = graph.node("Conv", values, weight, bias, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
            values = graph.node("Relu", graph.node("MaxPool", made, kernel_shape=[2, 2], strides=[2, 2]))
            continue
        if images:
            values, images = graph.node("Transpose", values, perm=[0, 2, 3, 1]), False
        values = graph.node("Gemm", graph.node("Flatten", values, axis=1), weight, bias, transB=1)
        values = graph.node("Relu", values) if layer.relu else values
    return values


def _named(graph: _Graph, preparation: Preparation, values: str) -> list[str]:
    """What the outputs mean: classes and how likely they are, or a number in the label's own unit."""
    label = preparation.label
    if label.classes:
        best = graph.node("ArgMax", values, axis=1, keepdims=0)
        graph.node("Gather", graph.constant(np.asarray(label.classes, dtype=np.str_)), best, name="predicted", axis=0)
        return ["predicted", graph.node("Softmax", values, name="probabilities", axis=1)]
    wide = graph.node("Cast", graph.node("Flatten", values, axis=0), to=11)
    numbers = graph.node("Reshape", wide, graph.constant(np.asarray([-1], np.int64)))
    scaled = graph.node("Mul", numbers, graph.constant(np.float64(1 / label.scale)))
    return [graph.node("Add", scaled, graph.constant(np.float64(label.shift)), name="predicted")]
