"""A problem, a black box and a model of one's own, each in ten lines."""

import time
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import pytest

import fedtier as ft
from fedtier.own_code.torch_models import from_torch

ROWS = np.random.default_rng(0).standard_normal((80, 3)).astype(np.float32)
LABELS = (ROWS[:, 0] > 0).astype(int)


def data(**options) -> ft.Federated:
    return ft.federate((ROWS, LABELS), clients=3, partition="iid", **options)


def test_a_problem_of_one_s_own_is_solved_where_calculus_says():
    """f1 = 1/2 |x - a|^2 and f2 = 3/2 |x - y|^2 with y held at 0 by Y: the minimum of f1 + f2 is a/4, by hand."""
    a = np.asarray([1.0, -2.0])
    problem = ft.Bilevel(
        f1=lambda x, rows: 0.5 * jnp.sum((x - a) ** 2),
        f2=lambda x, y, spec: 1.5 * jnp.sum((x - y) ** 2),
        h=lambda x, y, rows, spec: 0.5 * jnp.sum((y - x) ** 2),
        Y=ft.box(0.0, 0.0),
    )
    method = ft.zo_hfl(problem, estimator=ft.orthogonal(directions=2), server=ft.descent(0.1), fine_tune=0.0)
    result = ft.train(method, data(), model=np.zeros(2), rounds=60, participation=1.0, tau=1, eval_every=60)
    np.testing.assert_allclose(result.model, a / 4, atol=1e-3)


def test_a_problem_as_a_function_of_the_loss_gets_its_options_and_refuses_others():
    def problem(loss, *, pull=2.0):
        assert pull == 5.0
        return ft.supervised(loss, penalty=1.0, proximity=pull)

    method = ft.zo_hfl(problem, pull=5.0)
    assert method.settings["pull"] == 5.0
    with pytest.raises(ft.FedtierError, match=r"pul = 5.0[\s\S]*did you mean 'pull'"):
        ft.zo_hfl(problem, pul=5.0)
    with pytest.raises(ft.FedtierError, match="the loss alone"):
        ft.zo_hfl(lambda: None)


def least_squares(x, rows, steps, seed):
    """What a site runs, in NumPy: the exact minimiser of sum |A y - b|^2 / N + |y - x|^2."""
    assert isinstance(x, np.ndarray) and isinstance(rows.inputs, np.ndarray) and isinstance(steps, int)
    n = len(rows.labels)
    return np.linalg.solve(rows.inputs.T @ rows.inputs / n + np.eye(3), rows.inputs.T @ rows.labels / n + x)


def black_box(local, rounds=3, **options):
    problem = ft.Bilevel(
        f1=lambda x, rows: 0.5 * jnp.sum((x - 1.0) ** 2),
        f2=lambda x, y, spec: 0.5 * jnp.sum((x - y) ** 2),
        h=lambda x, y, rows, spec: jnp.zeros(()),
    )
    method = ft.zo_hfl(problem, local=local, server=ft.descent(0.1), fine_tune=0.0, **options)
    raw = data(as_is=True, client_test_share=0.0)
    return ft.train(method, raw, model=np.zeros(3), rounds=rounds, participation=1.0, tau=1, eval_every=rounds)


@pytest.mark.slow
def test_a_black_box_at_the_clients_gives_the_steps_of_the_formula():
    """With all 3 directions the estimate of a quadratic is exact, so three rounds are three gradient steps by hand."""
    result = black_box(least_squares, estimator=ft.orthogonal(smoothing=0.1, directions=3))
    federation = result.run.experiment.federation
    index, starts, sizes = np.asarray(federation.index[0]), *(np.asarray(a[0]) for a in federation.train)
    x = np.zeros(3)
    for _ in range(3):
        slope = np.zeros(3)
        for start, size in zip(starts, sizes, strict=True):
            rows, labels = ROWS[index[start : start + size]], LABELS[index[start : start + size]]
            inverse = np.linalg.inv(rows.T @ rows / size + np.eye(3))
            y = inverse @ (rows.T @ labels / size + x)
            slope += (np.eye(3) - inverse).T @ (x - y) / len(sizes)
        x = x - 0.1 * (x - 1.0 + slope)
    np.testing.assert_allclose(result.model, x, atol=2e-4)


@pytest.mark.parametrize(
    ("local", "words"),
    [
        (lambda x, rows, steps, seed: {"x": x}, "must return what it gets as x"),
        (lambda x, rows, steps, seed: x[:2], "numbers of the shape"),
        (lambda x, rows, steps, seed: 1 / 0, "division by zero"),
    ],
)
def test_a_black_box_that_answers_nonsense_is_told_so(local, words):
    with pytest.raises((ft.FedtierError, ZeroDivisionError), match=words):
        black_box(local, rounds=1, estimator=ft.orthogonal(directions=1))


@pytest.mark.slow
def test_a_model_of_one_s_own_in_jax_is_the_built_in_one():
    def make(features, classes, *, scale=0.0):
        return ft.Model(
            "mine",
            lambda key: {"w": jnp.full((classes, features), scale), "b": jnp.zeros(classes)},
            lambda x, inputs: inputs @ x["w"].T + x["b"][None],
        )

    run = {"rounds": 3, "tau": 2, "eval_every": 3}
    mine, ours = (ft.train(ft.server_only(), data(), model=model, **run) for model in (make, ft.softmax()))
    np.testing.assert_allclose(mine.model["w"], ours.model.weight, atol=1e-6)
    np.testing.assert_array_equal(mine.predict(ROWS[:9], client="1").values, ours.predict(ROWS[:9], client="1").values)
    with pytest.raises(ft.FedtierError, match="ask for 2"):
        ft.train(ft.server_only(), data(), model=lambda features: make(features, 5), **run)
    with pytest.raises(ft.FedtierError, match="asks for depth"):
        ft.model(lambda features, depth: None)


@pytest.mark.extras
def test_cores_that_call_one_pytorch_module_at_once_get_the_outputs_of_their_own_parameters():
    import torch  # pyright: ignore[reportMissingImports]

    class Slow(torch.nn.Linear):
        def forward(self, inputs):
            time.sleep(0.05)  # another thread has all the time to come in between
            return super().forward(inputs)

    model = from_torch(Slow(1, 1, bias=False), "slow")
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda k: model.apply({"weight": jnp.full((1, 1), float(k))}, np.ones((1, 1))), range(8)))
    assert [float(one[0, 0]) for one in found] == list(range(8))


@pytest.mark.extras
def test_a_pytorch_module_trains_as_the_same_net_in_jax_does():
    import torch  # pyright: ignore[reportMissingImports]

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    start = {name: value.detach().numpy().copy() for name, value in net.named_parameters()}

    def apply(x, inputs):
        return jnp.tanh(inputs @ x["0.weight"].T + x["0.bias"][None]) @ x["2.weight"].T + x["2.bias"][None]

    same = ft.Model("same", lambda key: {name: jnp.asarray(value) for name, value in start.items()}, apply)
    run = {"rounds": 4, "tau": 2, "eval_every": 4, "participation": 1.0}
    theirs, ours = (ft.train(ft.zo_hfl(server_steps=3), data(), model=model, **run) for model in (net, same))
    for name in start:
        np.testing.assert_allclose(theirs.model[name], ours.model[name], atol=1e-6)
        np.testing.assert_allclose(theirs.personal["1"][name], ours.personal["1"][name], atol=1e-6)
    np.testing.assert_array_equal(theirs.predict(ROWS[:9]).values, ours.predict(ROWS[:9]).values)
