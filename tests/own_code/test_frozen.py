"""A frozen net as an ONNX file: asked in a program and out of it, never differentiated, known by its hash."""

import hashlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedtier as ft
from fedtier.errors import FedtierError
from fedtier.own_code.frozen import FrozenNet
from fedtier.problem import remapped

W = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)


def sha_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """tanh(u W) for rows [2, 3], as [B, 1, 3]."""
    from onnx import TensorProto, helper, numpy_helper, save

    shapes = [numpy_helper.from_array(np.asarray(size, np.int64), name) for name, size in (("a", [-1, 6]), ("b", [-1, 1, 3]))]
    nodes = [
        helper.make_node("Reshape", ["u", "a"], ["flat"]), helper.make_node("MatMul", ["flat", "W"], ["v"]),
        helper.make_node("Tanh", ["v"], ["t"]), helper.make_node("Reshape", ["t", "b"], ["z"]),
    ]  # fmt: skip
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["B", *s]) for n, s in (("u", [2, 3]), ("z", [1, 3]))]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], [numpy_helper.from_array(W, "W"), *shapes])
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.extras
def test_it_says_the_same_in_a_program_and_out_of_it_and_counts_its_rows(file):
    net = FrozenNet(file, sha256=sha_of(file))
    u = np.random.default_rng(1).standard_normal((4, 5, 6)).astype(np.float32)
    wanted = np.tanh(u @ W)
    assert (net.shape, net.outputs, net.rows) == ((2, 3), 3, 0)
    np.testing.assert_allclose(net.ask(u), wanted, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(jax.vmap(net))(u), wanted, rtol=1e-5)
    assert net.rows == 40


@pytest.mark.extras
def test_around_it_a_shift_is_tuned_by_values_and_a_head_by_gradients(file):
    net = FrozenNet(file, sha256=sha_of(file))
    u = np.random.default_rng(2).standard_normal((120, 6)).astype(np.float32)
    labels = net.ask(u + 1).argmax(axis=1)
    model = remapped(net, np.ones((6, 1), np.float32), outputs=3, classes=3)
    x = model.init(jax.random.key(0))
    slope = jax.grad(lambda x: jnp.sum(model.apply(x, jnp.asarray(u[:4])) ** 2))(
        x._replace(head=x.head._replace(weight=jnp.eye(3)))
    )
    assert not slope.shift.any() and slope.head.weight.any()
    data = ft.federate((u, labels), owner=np.repeat(["a", "b"], 60), server_share=0.1, client_test_share=0.0)
    before = net.rows
    result = ft.train("zoopfl", data, model=model, rounds=3, participation=1.0, local_steps=2, progress=False)
    assert np.abs(np.asarray(result.model.shift)).max() > 1e-4 and net.rows > before  # values went through the net


@pytest.mark.extras
def test_another_file_and_what_is_no_net_are_refused(file, tmp_path):
    with pytest.raises(FedtierError, match="is another file"):
        FrozenNet(file, sha256="0" * 64)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"nothing")
    with pytest.raises(FedtierError, match="no net that onnxruntime can load"):
        FrozenNet(broken, sha256=sha_of(broken))


def test_without_the_package_its_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    path = tmp_path / "net.onnx"
    path.write_bytes(b"nothing")
    with pytest.raises(FedtierError, match=r"fedtier\[onnxruntime\]"):
        FrozenNet(path, sha256=sha_of(path))
