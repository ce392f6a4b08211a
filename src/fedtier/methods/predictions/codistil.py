"""Two levels in prediction space: server and clients have models of any kind and learn from what the others say of shared rows.

The coupling is ours; models that teach each other by predictions are Anil et al.'s, "Large Scale Distributed Neural Network
Training through Online Distillation", ICLR 2018, https://arxiv.org/abs/1804.03235

    h_i(y)   = loss of y on client i's rows + mu mean_u D(x's outputs, y's)      u: the P rows that the server shows
    f2(x, y) = lambda w_i mean_u D(y's outputs, x's)      z = x's outputs [P, C] is all that a client learns of x
    x <- x - gamma_r (grad f1(x) + J_z(x)^T mean_i g_i)      g_i estimates the gradient of F_i(z) = f2(z, y_i(z)) in z

| estimator   | g_i                                       | its mean, with exact solves         | solves | a client sends   |
|-------------|-------------------------------------------|-------------------------------------|--------|------------------|
| first_order | grad_z f2(z, y_i), y_i held fixed         | grad F_i without J_y^T grad_y f2    | 1      | P C predictions  |
| guided      | the same + (s - <first_order, v>) v       | exact along v = z - z_i, normalised | 3      | P C, one number  |
| sphere      | n/(2 eta) (F_i(z + eta v) - F_i(z - eta v)) v | the gradient of F_i smoothed    | 2 K    | 2 K values of f2 |

At mu = 0 no y_i depends on x and first_order is exact. With D = "logits", a linear model and rows U with U^T U = P I it is the
quadratic coupling |x - y|^2 of parameters: `zo_hfl` with first_order. At lambda = 0 it is `server_only`. Not for servers
without rows, or where no row may be shown. State: the client's model.
"""

from __future__ import annotations

from jaxtyping import Array, Float

from ... import keys
from ...errors import choice, not_negative, positive, require, whole
from ...keys import Tag
from ...problem import Bilevel
from ..averaging.fedavg import LOCAL
from ..descent import ServerDescent, descent
from ..method import Method
from ..parts import check_parts
from ..solvers import ProjectedSgd
from .disclosure import PLAIN, Disclosure
from .divergences import divergence_of
from .guard import guarded
from .learners import Learner, model_of, net
from .pulls import Coupling
from .rules import Client, Own, Rules

ESTIMATORS = ("first_order", "guided", "sphere")
SERVER = descent("inverse_sqrt(0.01)")


def codistil(
    problem: Bilevel,
    *,
    local: ProjectedSgd = LOCAL,
    server: ServerDescent = SERVER,
    learner: Learner | None = None,
    estimator: str = "first_order",
    agreement: float | Float[Array, ""] = 1.0,
    guidance: float | Float[Array, ""] = 1.0,
    divergence: str = "kl",
    temperature: float = 1.0,
    smoothing: float = 0.1,
    directions: int = 1,
    public_rows: int = 200,
    public_labels: str = "server",
    disclosure: Disclosure = PLAIN,
    check: float = 0.0,
) -> Method:
    """Two levels coupled by predictions.

    local          the steps of a client with a net like the server's; `learner` replaces it by any other model
    estimator      see the table; "sphere" is for clients of which only values may leave
    agreement      lambda: how strongly the server is drawn to what the clients say
    guidance       mu: how strongly they are drawn to what it says
    divergence     "kl" (with `temperature`), "probabilities" or "logits": see `divergences`
    smoothing      eta: by how much a probe moves an output, root mean square
    public_rows    P: so many rows of the server are shown to all clients, without labels; all where it has fewer
    public_labels  "server": they are rows that the server learns from, too; "none": nobody's labels, f1 has the other rows
    disclosure     how coarse predictions are when they leave a client
    check          the share of its rows by which a client chooses how much of the others it takes: see `guard`
    """
    check_parts(local=local, server=server)
    choice("estimator", estimator, ESTIMATORS)
    choice("public_labels", public_labels, ("server", "none"))
    whole("public_rows", public_rows)
    whole("directions", directions)
    positive("smoothing", smoothing)
    for name, value in (("agreement", agreement), ("guidance", guidance)):
        not_negative(name, value)
    many = directions > 1 and estimator != "sphere"
    require(not many, "directions", directions, f"has no meaning for {estimator}", 'estimator = "sphere"')
    model, apart = model_of(problem, "codistil"), divergence_of(divergence, temperature)
    rules = Rules(
        problem, model, learner or net(problem, local, apart, "codistil"), server, Coupling(apart, agreement), guidance,
        estimator, smoothing, directions, public_rows, public_labels == "none", disclosure.check(),
    )  # fmt: skip
    method = Method(
        name="codistil",
        server_init=server.init,
        client_init=lambda x, spec: Client(rules.learner.init(x, spec)),
        broadcast=rules.broadcast,
        address=lambda server, turn: Own(keys.at(turn.key, Tag.DIRECTION)) if estimator == "sphere" else (),
        local=rules.local,
        aggregate=rules.aggregate,
        global_model=server.model,
        personal_model=rules.personal_model,
        predict=rules.learner.predict,
        needs_server_data=True,
        solves={"first_order": 1, "guided": 3, "sphere": 2 * directions}[estimator],
        shows=public_rows,
        coupling=rules.coupled,
    )
    return guarded(method, problem, rules.learner, check)
