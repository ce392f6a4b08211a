"""A federation of linear models in which predictions, gradients and rounds are arithmetic; for the tests of this folder.

Rows U of the server with U^T U = P I make the distance of predictions that of parameters: mean_u |x.u - y.u|^2 = |x - y|^2. A
client's rows are one point e_1 with the target b_i, its loss 1/2 (y_1 - b_i)^2.
"""

import jax
import jax.numpy as jnp
import numpy as np

from fedtier import keys
from fedtier.engines import compiled
from fedtier.federation import Federation, Plan, Window
from fedtier.methods import make
from fedtier.problem import Model, Rows, Spec, squared_error, supervised

N, P, CLIENTS, C, GAMMA = 3, 6, 2, 0.3, 0.2
NET = Model("plain", lambda key: jnp.zeros(N), lambda x, inputs: (inputs @ x)[:, None])
PROBLEM = supervised(squared_error(NET))._replace(model=NET, outputs=1)
U = np.linalg.qr(np.random.default_rng(0).standard_normal((P, N)))[0] * np.sqrt(P)
START, TRUE, B = np.asarray([0.5, -1.0, 0.2]), np.asarray([1.0, 0.0, -1.0]), np.asarray([2.0, -1.0])
WEIGHT = np.asarray([0.5, 1.5])
BATCH = 64  # above P: the rows that are shown are taken whole


def federation():
    """The server has the rows U with targets U TRUE, a client 4 times the row e_1 with its own target."""
    inputs = np.concatenate([U, np.tile(np.eye(N)[:1], (8, 1))])
    labels = np.concatenate([U @ TRUE, np.repeat(B, 4)])
    none = jnp.zeros(CLIENTS, jnp.int32)
    return Federation(
        Rows(jnp.asarray(inputs), jnp.asarray(labels)), jnp.arange(len(labels)), Window(jnp.asarray(0), jnp.asarray(0)),
        Window(jnp.asarray(0), jnp.asarray(P)), Window(jnp.asarray([P, P + 4]), jnp.asarray([4, 4])), Window(none, none),
        Spec(jnp.asarray(WEIGHT), jnp.full(CLIENTS, jnp.inf), jnp.ones(CLIENTS)),
    )  # fmt: skip


def whole(x, rows):
    """The loss whose minibatch is no matter of chance: 1/2 |x - TRUE|^2 at the server, 1/2 (y_1 - b)^2 at a client."""
    at_server = jnp.sum(jnp.abs(rows.inputs[0] - jnp.eye(N)[0])) > 1e-9
    return jnp.where(at_server, 0.5 * jnp.sum((x - TRUE) ** 2), 0.5 * (x[0] - rows.labels[0]) ** 2)


def played(name, options, steps, rounds=3):
    """(server's state, clients' models) after some rounds of both clients with these steps."""
    with jax.enable_x64(True):
        given = {"public_rows": P, "client_lr": C, "batch": BATCH} | options
        method = make(name, PROBLEM._replace(f1=whole), given)
        plan = Plan(*(np.tile(np.asarray([row]), (rounds, 1)) for row in ([0, 1], steps, [True, True])))
        engine, parties = compiled(method, capacity=rounds, layout="map"), federation()
        state, _ = engine.advance(engine.init(jnp.asarray(START), parties), parties, plan, keys.root(0), 0, rounds)
        return jax.tree.map(np.asarray, (state.server, state.clients))
