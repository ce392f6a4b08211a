"""Co-distillation on linear models, where everything is known: rounds in plain NumPy, and what each estimator estimates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtier import keys
from fedtier.engines.battery import method_claims
from fedtier.errors import FedtierError
from fedtier.federation import Shown, View, Window
from fedtier.methods import Opening, Round, make, turn_of

from ...small_runs import first_slow
from .linear import BATCH, GAMMA, PROBLEM, START, TRUE, WEIGHT, B, C, P, U, federation, played, whole

LAMBDA, MU = 0.7, 0.4
SQUARES = {"divergence": "logits", "public_rows": P, "agreement": LAMBDA, "guidance": MU, "client_lr": C, "server_lr": GAMMA}


def slope_at_client(y, x, b):
    return np.asarray([y[0] - b, 0.0, 0.0]) + MU * (y - x)


@pytest.mark.known_answer("codistil")
@pytest.mark.slow
def test_with_linear_models_and_full_rank_predictions_couple_as_parameters_do():
    """first_order in plain NumPy: lambda w (x - y) at the server, mu (y - x) at the clients, unequal steps, warm starts."""
    x, ys = START, [START, START]
    for _ in range(3):
        for i, steps in enumerate((3, 5)):
            for _ in range(steps):
                ys[i] = ys[i] - C * slope_at_client(ys[i], x, B[i])
        x = x - GAMMA * ((x - TRUE) + LAMBDA * np.mean([w * (x - y) for w, y in zip(WEIGHT, ys, strict=True)], axis=0))
    server, clients = played("codistil", SQUARES, [3, 5])
    np.testing.assert_allclose(server.x, x, rtol=1e-9)
    np.testing.assert_allclose(clients.y, ys, rtol=1e-9)


def hypergradient(x):
    """Of lambda w/2 |x - y(x)|^2 for client 0, with y(x) the exact minimiser: y = x but y_1 = (b + mu x_1)/(1 + mu)."""
    away = (x[0] - B[0]) / (1 + MU)
    return LAMBDA * WEIGHT[0] * np.asarray([away / (1 + MU), 0.0, 0.0]), LAMBDA * WEIGHT[0] * np.asarray([away, 0.0, 0.0])


def estimate(options, key=0):
    """J^T g of client 0 at START after a long solve: what the server adds to its own gradient."""
    with jax.enable_x64(True):
        method = make("codistil", PROBLEM._replace(f1=whole), SQUARES | {"batch": BATCH} | options)
        parties = federation()
        server, root = method.server_init(jnp.asarray(START)), keys.root(key)
        view = parties.view(Window(jnp.asarray(P), jnp.asarray(4)))._replace(shown=parties.shown(P))
        turn, spec = turn_of(0, 0, 150, root), jax.tree.map(lambda a: a[:1], parties.spec)
        opening = Opening(jnp.asarray(0), 2, parties.view(parties.server), root)
        own = method.address(server, turn)
        one = jax.tree.map(lambda a: a[0], spec)
        _, up = jax.jit(method.local)(
            method.client_init(server.x, one), method.broadcast(server, opening), own, view, one, turn
        )
        round = Round(opening.round, jnp.zeros(1, jnp.int32), jnp.ones(1, bool), 2, opening.view, root)
        after, _ = method.aggregate(server, *(jax.tree.map(lambda a: a[None], t) for t in (own, up)), spec, round)
        return (START - np.asarray(after.x)) / GAMMA - (START - TRUE)


@pytest.mark.known_answer("codistil")
@pytest.mark.slow
@pytest.mark.checked
def test_first_order_lacks_what_the_client_would_follow_and_guided_has_it():
    """The exact gradient has the factor 1/(1 + mu) more: y follows x through the guidance. Here z - z_1 points along it."""
    exact, partial = hypergradient(START)
    np.testing.assert_allclose(estimate({}), partial, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(estimate({"estimator": "guided"}), exact, rtol=1e-6, atol=1e-9)
    assert np.abs(exact - partial).max() > 0.1
    np.testing.assert_allclose(estimate({"guidance": 0.0}), estimate({"guidance": 0.0, "estimator": "guided"}), atol=1e-7)


@pytest.mark.slow
@pytest.mark.known_answer("codistil")
@pytest.mark.checked
def test_two_values_along_a_random_direction_are_right_on_average():
    """F is quadratic, so that the mean over directions is the gradient itself; n = P directions give it within their spread."""
    found = np.stack([estimate({"uplink": "values", "directions": 30}, key) for key in range(3)])
    exact, partial = hypergradient(START)
    error = found.std(axis=0).max() / np.sqrt(len(found))
    assert np.abs(found.mean(axis=0) - exact).max() <= 5 * error
    assert np.abs(found.mean(axis=0) - exact).max() < np.abs(partial - exact).max()


@pytest.mark.known_answer("codistil")
@pytest.mark.slow
def test_without_agreement_the_server_is_alone():
    x = START
    for _ in range(3):
        x = x - GAMMA * (x - TRUE)
    np.testing.assert_allclose(played("codistil", SQUARES | {"agreement": 0.0}, [3, 5])[0].x, x, rtol=1e-9)


def test_rows_that_nobody_has_labels_for_are_no_rows_of_f1():
    method = make("codistil", PROBLEM, SQUARES | {"public_rows": 4, "public_labels": "none"})
    rules = method.aggregate.__self__
    view = rules._labelled(View((), jnp.arange(9), jnp.asarray(2), jnp.asarray(7)))
    assert (int(view.start), int(view.size)) == (6, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", first_slow([{"estimator": "guided", "decimals": 1, "top": 1, "noise": 0.1}, {"uplink": "values"}])
)
@pytest.mark.checked
def test_every_estimator_and_coarse_predictions_keep_the_contract(options):
    claims = ("states keep their shapes and types", "messages survive the codec", "H = 0 for all is as if nobody had replied")
    found = method_claims(lambda problem: make("codistil", problem, {"public_rows": 30} | options), only=claims)
    assert [claim for claim in found if not claim.holds] == []


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"uplink": "values", "estimator": "guided"}, "sends predictions"),
        ({"divergence": "logits", "temperature": 2.0}, "temperature"),
        ({"directions": 2}, "sphere"),
        ({"public_rows": 0}, "public_rows"),
        ({"public_labels": "all"}, "public_labels"),
        ({"agreement": -1.0}, "agreement"),
        ({"top": -1}, "top"),
    ],
)
def test_codistil_refuses_bad_options(bad, words):
    with pytest.raises(FedtierError, match=words):
        make("codistil", PROBLEM, bad)


def test_a_problem_without_a_model_has_no_predictions():
    with pytest.raises(FedtierError, match="codistil compares predictions"):
        make("codistil", PROBLEM._replace(model=None), {})


@pytest.mark.slow
def test_the_server_shows_its_first_rows_and_says_where_it_has_no_more():
    shown = federation().shown(8)
    assert isinstance(shown, Shown)
    np.testing.assert_allclose(shown.inputs[:P], U)
    assert shown.known.tolist() == [True] * P + [False] * 2 and not shown.inputs[P:].any()
