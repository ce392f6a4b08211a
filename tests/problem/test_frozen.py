"""A trained base that stays as it is, and a part of the model that is trained further."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedtier as ft
from fedtier import keys, trees
from fedtier.errors import FedtierError
from fedtier.problem import Rows, cnn, cross_entropy, frozen, lenet, mlp, residual
from fedtier.problem.models.leaves import join, split

KEY = keys.root(0)
NETS = {
    "mlp": (mlp(12, 3, hidden=5, depth=2), (12,)),
    "cnn": (cnn(3, (1, 8, 8), widths=(4, 6)), (1, 8, 8)),
    "lenet": (lenet(3, (1, 16, 16)), (1, 16, 16)),
    "residual": (residual(3, (1, 8, 8), widths=(4, 8), groups=2), (1, 8, 8)),
}


def rows_for(shape):
    return Rows(jax.random.normal(keys.at(KEY, 1), (10, *shape)), jnp.arange(10) % 3)


@pytest.mark.parametrize(
    "name", ["mlp", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cnn", "lenet", "residual"))]
)
def test_steps_of_the_head_are_those_of_the_whole_model_with_all_else_held_still(name):
    model, shape = NETS[name]
    base, rows = jax.jit(model.init)(KEY), rows_for(shape)
    part = frozen(model, base)
    x, whole = part.init(KEY), base
    move = jax.jit(lambda x: trees.axpy(-0.1, jax.grad(cross_entropy(part))(x, rows), x))
    slope = jax.jit(jax.grad(cross_entropy(model)))
    for _ in range(3):
        x = move(x)
        fixed, head = split(whole, "head")
        whole = join(fixed, trees.axpy(-0.1, split(slope(whole, rows), "head")[1], head))
    for ours, theirs in zip(jax.tree.leaves(x), jax.tree.leaves(split(whole, "head")[1]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(part.apply(x, rows.inputs), model.apply(whole, rows.inputs), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(part.features(x, rows.inputs), model.features(base, rows.inputs))
    assert len(jax.tree.leaves(x)) == 2, "weight and bias of the head"


def test_a_head_for_other_classes_is_drawn_anew_and_the_rest_is_the_bases():
    old, new = mlp(12, 3, hidden=5), mlp(12, 7, hidden=5)
    base = old.init(KEY)
    with pytest.raises(FedtierError, match="anew"):
        frozen(new, base)
    part = frozen(new, base, anew=True)
    x = part.init(keys.at(KEY, 5))
    inputs = rows_for((12,)).inputs
    assert part.apply(x, inputs).shape == (10, 7)
    np.testing.assert_array_equal(part.features(x, inputs), old.features(base, inputs))
    assert not np.array_equal(jax.tree.leaves(x)[0], jax.tree.leaves(part.init(keys.at(KEY, 6)))[0])


@pytest.mark.parametrize(
    ("trained", "base", "match"),
    [
        ("", None, "must be head, body, norm or a pattern"),
        ("*", None, "nothing would be frozen"),
        ("norm", None, "is no part of mlp"),
        ("nowhere.*", None, "fits no leaf"),
        ("head", mlp(12, 3, hidden=6), "must have the shape"),
        ("head", mlp(12, 3, hidden=5, depth=2), "must have the leaves"),
    ],
)
def test_what_cannot_be_frozen_is_refused_with_the_name_of_what_is_wrong(trained, base, match):
    model = mlp(12, 3, hidden=5)
    with pytest.raises(FedtierError, match=match) as refused:
        frozen(model, (base or model).init(KEY), trained)
    assert refused.value.name in ("trained", "base")


@pytest.mark.slow
def test_a_federation_trains_a_head_upon_the_net_of_an_earlier_run(tmp_path, monkeypatch):
    """From the command line: a file of three lines, and the base's folder as a key; its bundle predicts on."""
    from fedtier.experiments.bundle import Bundle
    from fedtier.experiments.config import validate
    from fedtier.experiments.progress import Progress
    from fedtier.experiments.run import run_experiment

    monkeypatch.chdir(tmp_path)
    data = {"name": "digits", "clients": 4}
    first = {"data": data, "model": {"name": "mlp", "hidden": 24}, "method": {"name": "server_only"}, "run": {"rounds": 15}}
    run_experiment(validate(first), tmp_path / "base", progress=Progress())
    (tmp_path / "net.py").write_text(
        "import fedtier as ft\n\n\ndef make(base: str = 'base'):\n"
        "    bundle = ft.Bundle.load(base)\n    return ft.frozen(bundle.network, bundle.model)\n"
    )
    second = {"data": data, "model": {"name": "net.py:make", "base": str(tmp_path / "base")}, "method": {"name": "fedavg"}}
    result = run_experiment(
        validate(second | {"run": {"rounds": 10, "local_steps": 5}}), tmp_path / "head", progress=Progress()
    )
    base, head = Bundle.load(tmp_path / "base"), Bundle.load(tmp_path / "head")
    assert [leaf.shape for leaf in jax.tree.leaves(head.model)] == [(10, 24), (10,)]
    inputs = np.random.default_rng(0).random((6, 64), np.float32)
    np.testing.assert_array_equal(
        head.network.features(head.model, inputs), base.network.features(trees.map(jnp.asarray, base.model), inputs)
    )
    assert result.final[0]["global_accuracy"] > 0.85
    small = result.final[0]["bytes_up"]
    whole = run_experiment(
        validate(first | {"method": {"name": "fedavg"}, "run": {"rounds": 10, "local_steps": 5}}),
        tmp_path / "all",
        progress=Progress(),
    ).final[0]["bytes_up"]
    assert small < whole / 4, "the head alone is sent"


def test_it_is_a_name_of_the_package():
    assert ft.frozen is frozen
