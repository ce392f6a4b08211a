"""MOCHA: a plain loop over single rows, closed forms, scikit-learn's support vector machines, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import polar
from sklearn.svm import LinearSVC

from fedtier import keys
from fedtier.engines import compiled
from fedtier.engines.battery import method_claims
from fedtier.engines.engine import check_federation
from fedtier.errors import FedtierError, FedtierWarning
from fedtier.federation import Plan, build, partition
from fedtier.keys import Tag
from fedtier.methods import make, turn_of
from fedtier.problem import Rows, linear, logistic, mlp, softmax, squared_error, supervised

from ..federations import bumpy_plan

CLIENTS, D, BATCH, RIDGE, SHRINKAGE = 5, 3, 4, 0.2, 0.3
DRAWS = jax.jit(lambda key, size: jax.vmap(lambda t: keys.below(keys.at(key, t), size, BATCH))(jnp.arange(32)))
OPTIONS = {"ridge": RIDGE, "batch": BATCH, "members": 7, "stored": 60, "shrinkage": SHRINKAGE}


def federation(classes):
    """Unequal clients whose models are alike in pairs; a label of float or of int."""
    rng = np.random.default_rng(5)
    owner = rng.choice(CLIENTS, 120, p=[0.4, 0.25, 0.15, 0.1, 0.1])
    inputs = rng.standard_normal((120, D))
    value = np.sum(inputs * rng.standard_normal((2, D))[owner % 2], axis=1) + 0.3 * rng.standard_normal(120) + 0.5
    labels = (value > 0).astype(np.int32) + (value > 1.0) if classes else value
    with jax.enable_x64(True):
        rows = Rows(jnp.asarray(inputs), jnp.asarray(labels))
        return build(rows, partition.natural(owner), clients=CLIENTS, rng=rng, test_share=0.0, server_share=0.0)


def method_of(classes, **options):
    plain = softmax(D, 3) if classes else linear(D)
    model = plain._replace(apply=lambda x, inputs: plain.apply(x, (inputs - 0.5) * 2.0))  # rows are stored as they came
    return make("mocha", supervised(squared_error(model))._replace(model=model), OPTIONS | options)


def play(method, data, plan, classes):
    with jax.enable_x64(True):
        x = jax.tree.map(lambda a: a.astype(jnp.float64), (softmax(D, 3) if classes else linear(D)).init(None))
        engine = compiled(method, capacity=len(plan.ids))
        state, _ = engine.advance(engine.init(x, data), data, plan, keys.root(0), 0, len(plan.ids))
        return jax.tree.map(np.asarray, (state.server, state.clients))


def flat(server_b):
    """b_t or w_t [M, K, D + 1], the intercept last."""
    return np.concatenate([server_b.weight, server_b.bias[..., None]], axis=-1)


def rows_of(data, i, classes):
    """(inputs as the model sees them with 1 for the intercept, y [N, K]) of client i."""
    window = slice(int(data.train.start[i]), int(data.train.start[i] + data.train.size[i]))
    numbers = np.asarray(data.index)[window]
    inputs, labels = np.asarray(data.arrays.inputs)[numbers], np.asarray(data.arrays.labels)[numbers]
    u = np.concatenate([(inputs - 0.5) * 2.0, np.ones((len(inputs), 1))], axis=1)
    return u, 2.0 * (labels[:, None] == np.arange(3)) - 1.0 if classes else labels[:, None]


def ascent(u, y, w, alpha, q, key, steps, classes):
    """The published loop, a row at a time: (alpha, db)."""
    n, db, alpha = len(u), np.zeros_like(w), alpha.copy()
    for drawn in np.asarray(DRAWS(key, n))[:steps]:
        for j in drawn:
            z, near = (w + q * db) @ u[j], q * (u[j] @ u[j]) / n
            if classes:
                new = y[j] * np.clip(y[j] * alpha[j] + (1.0 - y[j] * z) / near, 0.0, 1.0)
            else:
                new = alpha[j] + (y[j] - z - alpha[j]) / (1.0 + near)
            db, alpha[j] = db + np.outer(new - alpha[j], u[j]) / n, new
    return alpha, db


def related(w):
    """(W^T W)^{1/2} is the second factor of W's polar decomposition; the root of W^T W itself would have half the digits."""
    root = polar(w.reshape(CLIENTS, -1).T)[1]
    return (1 - SHRINKAGE) * CLIENTS * root / np.trace(root) + SHRINKAGE * np.eye(CLIENTS)


@pytest.mark.known_answer("mocha")
@pytest.mark.slow
def test_mocha_is_the_published_loop_with_unequal_steps_partial_participation_and_lost_replies():
    plan, data = bumpy_plan(6, clients=CLIENTS), federation(True)
    server, clients = play(method_of(True, relate_every=3), data, plan, True)
    parts = [rows_of(data, i, True) for i in range(CLIENTS)]
    b = np.zeros((CLIENTS, 3, D + 1))
    alpha, sigma, rho = [np.zeros_like(y) for _, y in parts], np.eye(CLIENTS), 1.0
    for r, (ids, steps, arrived) in enumerate(zip(plan.ids, plan.steps, plan.arrived, strict=True)):
        w = np.einsum("ts,skd->tkd", sigma, b) / RIDGE
        for i, h in zip(ids[arrived], steps[arrived], strict=True):
            key = keys.at(turn_of(r, int(i), int(h), keys.root(0)).key, Tag.SOLVE)
            alpha[i], db = ascent(*parts[i], w[i], alpha[i], rho * sigma[i, i] / RIDGE, key, h, True)
            b[i] = b[i] + db
        if (r + 1) % 3 == 0 and (steps[arrived] > 0).any():
            sigma = related(np.einsum("ts,skd->tkd", sigma, b) / RIDGE)
            rho = np.max(np.abs(sigma).sum(axis=1) / np.diagonal(sigma))
    assert rho > 1.2 and np.abs(b).max() > 0.05
    np.testing.assert_allclose(flat(server.b)[:CLIENTS], b, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(server.sigma[:CLIENTS, :CLIENTS], sigma, rtol=1e-7, atol=1e-9)
    for i, (_, y) in enumerate(parts):
        np.testing.assert_allclose(clients.alpha[i, : len(y)], alpha[i], rtol=1e-9, atol=1e-12)


def everyone(rounds, steps):
    ids = np.tile(np.arange(CLIENTS, dtype=np.int32), (rounds, 1))
    return Plan(ids, np.full_like(ids, steps), np.ones_like(ids, bool))


@pytest.mark.slow
@pytest.mark.known_answer("mocha")
def test_the_alternation_ends_at_ridge_regressions_that_are_tied_by_the_matrix_of_their_own_models():
    """(1/N_t) U_t^T (U_t w_t - y_t) + lam sum_s Omega_ts w_s = 0 for every t, and Sigma is that of these models."""
    data = federation(False)
    server, _ = play(method_of(False, relate_every=4), data, everyone(400, 20), False)
    sigma = server.sigma[:CLIENTS, :CLIENTS]
    w = np.einsum("ts,skd->tkd", sigma, flat(server.b)[:CLIENTS]) / RIDGE
    pull = RIDGE * np.einsum("ts,skd->tkd", np.linalg.inv(sigma), w)
    for i in range(CLIENTS):
        u, y = rows_of(data, i, False)
        np.testing.assert_allclose((u @ w[i].T - y).T @ u / len(u) + pull[i], 0.0, atol=1e-7)
    np.testing.assert_allclose(sigma, related(w), atol=1e-6)
    assert np.abs(sigma - np.eye(CLIENTS)).max() > 0.1


@pytest.mark.known_answer("mocha")
@pytest.mark.slow
def test_where_nobody_is_like_anybody_every_client_has_its_own_support_vector_machine():
    data = federation(True)
    server, _ = play(method_of(True, relate_every=0), data, everyone(20, 600), True)
    w = flat(server.b) / RIDGE
    for i in range(CLIENTS):
        u, y = rows_of(data, i, True)
        svm = LinearSVC(loss="hinge", C=1 / (RIDGE * len(u)), fit_intercept=False, tol=1e-9, max_iter=1_000_000)
        wanted = [svm.fit(u, side).coef_[0] if np.ptp(side) else None for side in y.T]
        for k, coefficients in enumerate(wanted):
            if coefficients is not None:
                np.testing.assert_allclose(w[i, k], coefficients, atol=1e-4)


@pytest.mark.slow
@pytest.mark.checked
def test_the_personal_model_goes_on_and_a_newcomer_begins_at_the_mean_of_the_others():
    data, method = federation(False), method_of(False)
    server, clients = play(method, data, everyone(3, 5), False)
    w = np.einsum("ts,skd->tkd", server.sigma, flat(server.b)) / RIDGE

    def personal(i, steps, new=False):
        with jax.enable_x64(True):
            turn = turn_of(3, 9 if new else i, steps, keys.root(0))
            train, spec = jax.tree.map(lambda a: jnp.asarray(a)[i], (data.train, data.spec))
            client = jax.tree.map(lambda a: jnp.zeros_like(a[i]) if new else jnp.asarray(a[i]), clients)
            told = method.briefed(client, jax.tree.map(jnp.asarray, server), turn)
            return flat(jax.tree.map(np.asarray, method.personal_model(told, None, data.view(train), spec, turn)))

    np.testing.assert_allclose(personal(1, 0), w[1], rtol=1e-10)
    np.testing.assert_allclose(personal(1, 0, new=True), w[:CLIENTS].mean(axis=0), rtol=1e-10)
    (u, y), alpha = rows_of(data, 1, False), clients.alpha[1]
    key = keys.at(turn_of(3, 1, 2, keys.root(0)).key, Tag.PERSONAL)
    _, db = ascent(u, y, w[1], alpha[: len(y)].copy(), 1 / RIDGE, key, 2, False)
    np.testing.assert_allclose(personal(1, 2), w[1] + db / RIDGE, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.checked
def test_the_battery_holds_where_the_matrix_is_learnt_in_every_round():
    claims = ("compiled = messages", "H = 0 for all is as if nobody had replied", "a lost reply is ignored, whatever it holds")
    found = method_claims(lambda problem: make("mocha", problem, {"relate_every": 1, "members": 6, "stored": 40}), claims)
    assert [claim.why for claim in found if not claim.holds] == []


@pytest.mark.parametrize("name", ["mocha", "knn_per"])
def test_rows_beyond_those_that_are_stored_are_spoken_of(name):
    data, model = federation(True), mlp(D, 3) if name == "knn_per" else softmax(D, 3)
    most = int(np.max(data.train.size))

    def begin(stored):
        method = make(name, supervised(squared_error(model))._replace(model=model), {"stored": stored})
        check_federation(method, data)

    begin(most)
    with pytest.warns(FedtierWarning, match=rf"uses the first {most - 3} alone, and one has {most}"):
        begin(most - 3)


@pytest.mark.slow
def test_what_is_not_linear_is_refused_by_name():
    def started(model, classes=True, **options):
        method = make("mocha", supervised(squared_error(model))._replace(model=model), OPTIONS | options)
        x = model.init(keys.root(0))
        server = method.server_init(x)
        data = jax.tree.map(
            lambda a: jnp.asarray(np.asarray(a, np.float32 if a.dtype == np.float64 else a.dtype)), federation(classes)
        )
        train, spec = jax.tree.map(lambda a: a[0], (data.train, data.spec))
        turn = turn_of(0, 0, 1, keys.root(0))
        return jax.eval_shape(
            lambda: method.local(method.client_init(x, spec), (), method.address(server, turn), data.view(train), spec, turn)
        )

    with pytest.raises(FedtierError, match=r"model = 'mlp': mocha needs a linear model"):
        started(mlp(D, 3))
    with pytest.raises(FedtierError, match=r"model = 'logistic': mocha needs weights of its own for every output"):
        started(logistic(D))
    with pytest.raises(FedtierError, match="loss = 'hinge': is for classes"):
        started(linear(D), classes=False, loss="hinge")
    started(softmax(D, 3))
