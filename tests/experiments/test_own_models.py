"""Runs whose clients have models of their own: the same numbers again, resumed or not; predictions; what crosses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.experiments.bundle import Bundle
from fedtier.experiments.bundle.layers import layers_of
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import resume_experiment, run_experiment
from fedtier.federation import View
from fedtier.methods import make
from fedtier.problem import Rows, Spec, cross_entropy, softmax, supervised
from fedtier.protocol import message_shapes

from ..small_runs import metrics

QUIET = Progress()
MODELS = '["sklearn:LogisticRegression", "sklearn:RandomForestClassifier(n_estimators=5)", "jax:softmax(epochs=1)"]'
SETTINGS = [
    "data.name=synthetic", "data.clients=3", "data.partition=dirichlet", "data.alpha=0.5", "data.client_test_share=0.3",
    "run.rounds=3", "run.eval_every=3", "run.participation=1.0", "run.checkpoint_every=1", "method.name=codistil",
    "method.public_rows=20", "method.server_steps=2", f"clients.models={MODELS}",
]  # fmt: skip


def without_time(rows):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_experiment(configuration.load_config(None, SETTINGS), tmp_path_factory.mktemp("own") / "run", progress=QUIET)


@pytest.mark.slow
def test_a_run_that_is_stopped_and_resumed_ends_where_the_other_does_and_both_predict(run, tmp_path):
    config = configuration.load_config(None, [*SETTINGS, "run.rounds=2"])
    run_experiment(config, tmp_path / "run", progress=QUIET)
    resumed = resume_experiment(tmp_path / "run", progress=QUIET, rounds=3)
    wanted, found = metrics(run.folder), metrics(resumed.folder)
    assert without_time(found)[-1] == without_time(wanted)[-1]
    assert wanted[-1]["f2"] > 0 and len(wanted[-1]["by_client"]["personal"]) == 3
    rows = np.random.default_rng(0).standard_normal((6, *run.experiment.dataset.shape)).astype(np.float32)
    for client in ("0", "1", "2"):
        one, other = (Bundle.load(folder).predict(rows, client=client) for folder in (run.folder, resumed.folder))
        np.testing.assert_array_equal(one.probabilities, other.probabilities)
    assert len([*(run.folder / "own").iterdir()]) <= 6  # a personal model and a state of each client: the others are gone


@pytest.mark.slow
def test_a_bundle_to_give_away_does_not_hold_models_in_a_format_of_their_own(run, tmp_path):
    with pytest.raises(FedtierError, match="model of the client's own"):
        Bundle.load(run.folder).save(tmp_path / "away")
    with pytest.raises(FedtierError, match="--client = '1': is a model of the client's own"):
        layers_of(Bundle.load(run.folder), "1")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("method.name=fedavg", "compares parameters"),
        ('clients.models=["sklearn:Nothing"]', "is no classifier"),
        ("data.new_clients=0.3", "has no meaning for models"),
        ("privacy.kind=rows", "privacy"),
    ],
)
def test_models_that_cannot_take_part_are_refused_before_any_work(setting, words):
    settings = [one for one in SETTINGS if setting != "method.name=fedavg" or not one.startswith("method.")]
    with pytest.raises(FedtierError, match=words):
        configuration.load_config(None, [*settings, setting])


def test_there_is_one_model_or_one_for_each_client(tmp_path):
    two = 'clients.models=["jax:softmax", "jax:softmax"]'
    with pytest.raises(FedtierError, match="one for each of the 3 clients"):
        run_experiment(configuration.load_config(None, [*SETTINGS, two]), tmp_path / "run", progress=QUIET)


@pytest.mark.parametrize(("options", "numbers"), [({}, 1000 * 10 * 4 + 1000), ({"uplink": "values"}, 2 * 4)])
def test_what_leaves_a_client_is_a_number_for_each_class_of_each_row_or_two_values(options, numbers):
    """P = 1,000 rows and 10 classes, float32: 40,000 bytes and a mark for each row; down 40,000. The rest is heads."""
    net = softmax(784, 10)
    problem = supervised(cross_entropy(net))._replace(model=net, outputs=10)
    method = make("codistil", problem, {"public_rows": 1000} | options)
    x = net.init(keys.root(0))
    view = View(Rows(jnp.zeros((4, 784)), jnp.zeros(4, int)), jnp.arange(4), jnp.asarray(0), jnp.asarray(4))
    spec = Spec(jnp.ones(()), jnp.ones(()), jnp.ones(()))
    shapes = message_shapes(method, jax.eval_shape(method.server_init, x), method.client_init(x, spec), view, spec, 4)
    assert 0 < shapes.up_bytes() - numbers < 500
    assert 0 < shapes.down_bytes() - 40_000 < 500
