"""FedAvg on alike clients is pooled logistic regression: its log loss is scikit-learn's, on tables of five shapes.

Clients share all rows but the test's, take part in every round and make constant steps on large minibatches; scikit-learn gets
the same prepared rows of all clients at once, without a penalty.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss

from fedtier import trees
from fedtier.experiments import config as configuration
from fedtier.experiments.assemble import assemble
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment

from ..small_runs import first_slow


def logistic(rng, logits):
    return (rng.random(len(logits)) < 1 / (1 + np.exp(-logits))).astype(int)


def categories(rng, rows=3000):
    """Words decide as much as numbers; the classes are words too, and there are three of them."""
    colour, size = rng.choice(["red", "green", "blue", "grey"], rows, p=[0.4, 0.3, 0.2, 0.1]), rng.choice(["s", "m"], rows)
    x = rng.normal(size=rows)
    logits = np.stack([x, (colour == "red") * 1.5 - x, (size == "m") - (colour == "grey") * 1.0], axis=1)
    return {"colour": colour, "size": size, "x": x}, np.array(["a", "b", "c"])[
        np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    ]


def gaps(rng, rows=3000):
    """Values that are missing, and missing more often where it matters."""
    x = rng.normal(10, 4, size=(rows, 4))
    y = logistic(rng, 0.3 * (x[:, 0] - 10) - 0.2 * (x[:, 1] - 10) + 0.3)
    shown = np.where(rng.random((rows, 4)) < 0.1 + 0.2 * y[:, None] * [1, 0, 0, 1], np.nan, x)
    return {f"x{k}": shown[:, k] for k in range(4)}, y


def unbalanced(rng, rows=6000):
    """One row in twenty."""
    x = rng.normal(size=(rows, 5))
    return {f"x{k}": x[:, k] for k in range(5)}, logistic(rng, x @ [1.0, -0.5, 0.5, 0, 0] - 3.5)


def far_off(rng, rows=3000):
    """Numbers of any size and place, one of them skewed; no mean is 0, so that an intercept is needed."""
    x = np.stack([rng.normal(1e6, 10, rows), rng.lognormal(0, 1, rows), rng.normal(-3e-4, 1e-5, rows)], axis=1)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    return {f"x{k}": x[:, k] for k in range(3)}, logistic(rng, z @ [1.0, 0.7, -0.7] + 1.0)


def wide(rng, rows=4000):
    """Forty columns of numbers, correlated."""
    x = rng.normal(size=(rows, 40)) + 0.5 * rng.normal(size=(rows, 1))
    return {f"x{k}": x[:, k] for k in range(40)}, logistic(rng, x[:, :10] @ np.linspace(-0.5, 0.5, 10))


def written(tmp_path, make, seed=0):
    columns, label = make(np.random.default_rng(seed))
    names = [*columns, "label"]
    cells = zip(*(np.asarray(column).tolist() for column in (*columns.values(), label)), strict=True)
    lines = [",".join("" if cell != cell else str(cell) for cell in row) for row in cells]  # noqa: PLR0124  NaN
    path = tmp_path / f"{make.__name__}.csv"
    path.write_text("\n".join([",".join(names), *lines]) + "\n")
    return path


def fitted(tmp_path, path, *settings):
    config = configuration.load_config(
        None,
        [
            f'data.file="{path}"', "data.server_share=0", "data.client_test_share=0", "data.test_share=0.2",
            "method.name=fedavg", "method.batch=4096", "run.rounds=100", "run.eval_every=100", "run.participation=1",
            "run.tau=5", *settings,
        ],
    )  # fmt: skip
    experiment = assemble(config)
    result = run_experiment(config, tmp_path / "run", progress=Progress(), experiment=experiment)
    x = trees.take(experiment.method.global_model(result.state.server), 0)
    index, dataset = np.asarray(experiment.federation.index[0]), experiment.dataset
    test = index[: int(experiment.federation.test.size[0])]
    train = index[len(test) :]
    return result.final[0], x, (dataset.inputs[train], dataset.labels[train]), (dataset.inputs[test], dataset.labels[test])


def share_of(x, inputs):
    logits = np.asarray(inputs @ np.asarray(x.weight).T + np.asarray(x.bias), np.float64)
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


SHAPES = [
    (categories, ["data.partition=iid", "data.clients=4"], 0.5),
    (gaps, ["data.partition=iid", "data.clients=1"], 0.2),
    (unbalanced, ["data.partition=iid", "data.clients=5"], 1.0),
    (far_off, ["data.partition=iid", "data.clients=50", "run.tau=0.2", "run.rounds=400", "method.batch=512"], 0.5),
    (wide, ["data.partition=iid", "data.clients=4"], 0.15),
]


@pytest.mark.parametrize(("make", "settings", "step"), first_slow(SHAPES))
def test_fedavg_on_alike_clients_has_the_log_loss_of_a_pooled_fit(tmp_path, make, settings, step):
    final, x, (inputs, labels), (test_inputs, test_labels) = fitted(
        tmp_path, written(tmp_path, make), *settings, f'method.client_lr="constant({step})"'
    )
    pooled = LogisticRegression(C=np.inf, max_iter=10_000, tol=1e-8).fit(inputs.astype(np.float64), labels)
    ours, theirs = (log_loss(labels, p) for p in (share_of(x, inputs), pooled.predict_proba(inputs)))
    assert abs(ours - theirs) < 1e-3
    unseen = log_loss(test_labels, pooled.predict_proba(test_inputs))
    assert abs(final["global_loss"] - unseen) < 1e-3
    majority = np.bincount(test_labels).max() / len(test_labels)
    assert final["global_accuracy"] >= majority - 0.01


@pytest.mark.slow
def test_fedavg_on_natural_clients_of_one_kind_is_as_accurate_as_a_pooled_fit(tmp_path):
    """Owners who differ in size and in what they measure, but not in what follows from it."""

    def owned(rng, rows=12_000):
        owner = rng.choice(12, rows, p=np.arange(1, 13) / 78)
        x = rng.normal(size=(rows, 4)) + 0.7 * rng.normal(size=(12, 4))[owner]
        return {f"x{k}": x[:, k] for k in range(4)} | {"site": np.char.add("site ", owner.astype(str))}, logistic(
            rng, x @ [1.0, -1.0, 0.5, 0.0] + 0.7
        )

    final, _, (inputs, labels), (test_inputs, test_labels) = fitted(
        tmp_path,
        written(tmp_path, owned),
        "data.owner=site",
        'method.client_lr="constant(0.3)"',
        "run.tau=2",
        "method.batch=256",
    )
    pooled = LogisticRegression(C=np.inf, max_iter=10_000).fit(inputs, labels).score(test_inputs, test_labels)
    assert abs(final["global_accuracy"] - pooled) < 0.005 and pooled > 0.7


@pytest.mark.parametrize("loss", first_slow(["squared", "huber"]))
def test_fedavg_on_alike_clients_is_linear_regression(tmp_path, loss):
    def priced(rng, rows=3000):
        x = rng.normal(3, 2, size=(rows, 5))
        return {f"x{k}": x[:, k] for k in range(5)}, 100 + x @ [5.0, -3, 2, 0, 0] + rng.normal(0, 5, rows)

    final, _, (inputs, labels), (test_inputs, test_labels) = fitted(
        tmp_path, written(tmp_path, priced), "data.partition=iid", "data.clients=4", 'method.client_lr="constant(0.1)"',
        f"model.loss={loss}",
    )  # fmt: skip
    pooled = LinearRegression().fit(inputs.astype(np.float64), labels)
    r2 = pooled.score(test_inputs, test_labels)
    assert final["global_r2"] == pytest.approx(r2, abs=2e-3) and r2 > 0.8
