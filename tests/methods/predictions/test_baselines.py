"""FedMD and FedDF on linear models, in plain NumPy, and what they reduce to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines.battery import method_claims
from fedtier.errors import FedtierError
from fedtier.federation import View
from fedtier.methods import Round, make
from fedtier.methods.predictions.consensus import labels_as_outputs
from fedtier.methods.predictions.distillation import Moved
from fedtier.problem import Model, Rows, Spec, cross_entropy, supervised

from .linear import PROBLEM, START, WEIGHT, B, C, U, played


def revisit(y, b, steps):
    for _ in range(steps):
        y = y - C * np.asarray([y[0] - b, 0.0, 0.0])
    return y


@pytest.mark.known_answer("fedmd")
@pytest.mark.slow
def test_fedmd_digests_the_mean_of_what_all_said_and_revisits_its_own_rows():
    """Where U^T U = P I a consensus of predictions is one of parameters: digesting is y <- y - c (y - mean)."""
    ys, mean = [START, START], None
    for _ in range(3):
        for i, steps in enumerate((2, 4)):
            for _ in range(steps if mean is not None else 0):
                ys[i] = ys[i] - C * (ys[i] - mean)
            ys[i] = revisit(ys[i], B[i], steps)
        mean = np.mean(ys, axis=0)
    server, clients = played("fedmd", {"public_labels": "none"}, [2, 4])
    np.testing.assert_allclose(clients.y, ys, rtol=1e-9)
    np.testing.assert_allclose(server.z[:, 0], U @ mean, rtol=1e-9)


@pytest.mark.known_answer("fedmd")
def test_fedmd_starts_from_the_labels_of_the_public_rows():
    view = View(Rows(np.zeros((4, 2)), np.asarray([0, 2, 1, 0])), np.asarray([3, 1, 2, 0]), np.asarray(1), np.asarray(2))
    shares = np.exp(labels_as_outputs(view, 3, 3))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-6)
    assert shares.argmax(axis=1).tolist() == [2, 1, 1]  # a place without a row repeats the last one, and is never known
    np.testing.assert_allclose(shares.max(axis=1), 0.95 + 0.05 / 3, rtol=1e-6)


@pytest.mark.known_answer("feddf")
@pytest.mark.slow
def test_feddf_without_a_step_of_distillation_is_fedavg():
    found, _ = played("feddf", {"server_lr": 1e-12}, [2, 4])
    wanted, _ = played_fedavg([2, 4])
    np.testing.assert_allclose(found.x, wanted, rtol=1e-9)


def played_fedavg(steps):
    x = START
    for _ in range(3):
        ends = [revisit(x, b, h) for b, h in zip(B, steps, strict=True)]
        x = np.average(ends, axis=0, weights=WEIGHT)
    return x, ()


@pytest.mark.known_answer("feddf")
@pytest.mark.slow
def test_feddf_distils_the_mean_of_the_logits_into_the_average():
    """Two classes, three clients that have moved by D_i, one of them lost: the others teach."""
    rng = np.random.default_rng(1)
    inputs, x, moves = rng.standard_normal((5, 3)), rng.standard_normal((2, 3)), rng.standard_normal((3, 2, 3))
    with jax.enable_x64(True):
        net = Model("plain", lambda key: jnp.zeros((2, 3)), lambda x, inputs: inputs @ x.T)
        problem = supervised(cross_entropy(net))._replace(model=net, outputs=2)
        method = make("feddf", problem, {"public_rows": 5, "server_lr": 0.3, "server_steps": 4, "weighting": "uniform"})
        view = View(Rows(jnp.asarray(inputs), jnp.zeros(5, int)), jnp.arange(5), jnp.asarray(0), jnp.asarray(5))
        came = jnp.asarray([True, True, False])
        round = Round(jnp.asarray(0), jnp.arange(3), came, 3, view, keys.root(0))
        ups = Moved(jnp.asarray(moves), jnp.ones(3, bool))
        specs = Spec(*[jnp.ones(3)] * 3)
        found = np.asarray(method.aggregate(method.server_init(jnp.asarray(x)), (), ups, specs, round)[0].x)
    teacher = softmaxed(np.mean([inputs @ (x + moves[i]).T for i in (0, 1)], axis=0))
    wanted = x + moves[:2].mean(axis=0)
    for _ in range(4):
        wanted = wanted - 0.3 * (softmaxed(inputs @ wanted.T) - teacher).T @ inputs / 5
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def softmaxed(logits):
    e = np.exp(logits)
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"fusion": "models"}, {"fusion": "predictions"}])
def test_feddf_keeps_the_contract(options):
    claims = ("states keep their shapes and types", "messages survive the codec", "H = 0 for all is as if nobody had replied")
    found = method_claims(lambda problem: make("feddf", problem, {"public_rows": 30} | options), only=claims)
    assert [claim for claim in found if not claim.holds] == []


@pytest.mark.parametrize(
    ("name", "bad"), [("fedmd", {"public_labels": "all"}), ("feddf", {"fusion": "values"}), ("feddf", {"public_rows": 0})]
)
def test_the_baselines_refuse_bad_options(name, bad):
    with pytest.raises(FedtierError, match=next(iter(bad))):
        make(name, PROBLEM, bad)
