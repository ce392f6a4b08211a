"""ZO-HFL: the two-level problem solved with the values of f2 at a few probes per client.

Qiu, Kim, Yousefian, "A Randomized Zeroth-Order Hierarchical Framework for Heterogeneous Federated Learning", 2025,
https://arxiv.org/abs/2504.01839

    v_i uniform on the unit sphere;  y± = Algorithm 2 at x ± eta v_i
    g_i = n/(2 eta) (f2(x + eta v_i, y+) - f2(x - eta v_i, y-)) v_i
    x  <- x - gamma_r (grad f1(x, xi_r) + mean of g_i over the replies that arrived)

This is the estimator `sphere`, the paper's; `estimators` has the others. A client with H_i = 0 has g_i = 0. At penalty 0 it is
`server_only`. With one random direction in thousands of dimensions the clients hardly count: use another estimator, or few
dimensions.
"""

from __future__ import annotations

from ... import keys
from ...errors import choice, require, share, whole
from ...keys import Tag
from ...problem import Bilevel
from ..descent import ServerDescent, descent
from ..method import Method, Sums, counted_alike
from ..parts import check_parts
from ..personal import PersonalRule, lower_level
from ..solvers import ProjectedSgd, projected_sgd
from .client import AtClient
from .estimator import Estimator
from .estimators import sphere
from .probes import Own, Probes
from .server import AtServer

UPLINKS = ("values", "models", "estimate")
MOST_REMEMBERED = 100_000
TUNING = 2  # a fine-tuned personal model has the steps of two solves
PAPER = (sphere(), projected_sgd("inverse(0.1)"), descent("inverse_sqrt(0.01)"), lower_level())  # the parts of the paper


def zo_hfl(
    problem: Bilevel,
    *,
    estimator: Estimator = PAPER[0],
    local: ProjectedSgd = PAPER[1],
    server: ServerDescent = PAPER[2],
    personal: PersonalRule = PAPER[3],
    coupled: bool = True,
    uplink: str = "auto",
    start: str = "probe",
    remembered: int = 0,
    fading: bool = False,
    spread: float = 0.0,
    shared_directions: bool = False,
) -> Method:
    """ZO-HFL on `problem`. Defaults are the paper's, except `coupled` (the paper draws independently); as `fedtier.zo_hfl`,
    with the keys of a configuration, it has the recommended ones.

    estimator     of a client's hypergradient: `sphere`, `orthogonal`, `guided`, `first_order` or `exact`, see `estimators`
    local         a client's solver of the lower level
    server        the server's descent on f1 plus the mean estimate
    personal      what the personal model is; a fine-tuned one has the steps of two solves
    coupled       the 2 K solves share their minibatches: 10 to 100 times less noise in the difference, one gather
    uplink        what leaves a client: "values", 2 K numbers, or "models", its 2 K models (both: sphere, orthogonal), or
                  "estimate", g_i itself (the others); "auto": the least that the estimator needs
    start         "probe": a solve starts at x ± eta v; "warm": at the client's last solution, projected
    remembered    k > 0: beside the replies of the round, the latest of up to k other clients count, which at low
                  participation trades staleness for variance (k models of state at the server); 0: the mean of the round's
    fading        an estimate pulls as far as it says anything about and no further: see `pull`
    spread        s > 0: where fewer than the share s of the clients (or of those asked plus `remembered`) answer, the pull is
                  weaker in proportion, so that what is remembered for long does not pull too much: see `pull`
    shared_directions   all clients of a round probe along the same directions: the server needs the mean of their slopes
                  alone, a client sends K numbers, and the noise of the directions does not average out over clients
    """
    check_parts(estimator=estimator, local=local, server=server, personal=personal)
    choice("uplink", uplink, ("auto", *UPLINKS))
    choice("start", start, ("probe", "warm"))
    whole("remembered", remembered, 0)
    rule = f"must be at most {MOST_REMEMBERED:,}: each is a model of state at the server"
    require(remembered <= MOST_REMEMBERED, "remembered", remembered, rule, "10, or the number of clients")
    if shared_directions:
        _check_shared(estimator, uplink, remembered, fading, spread)
    share("spread", spread, "0.3, or 0 for none", one=True)
    require(not spread or remembered > 0, "spread", spread, "spreads what is remembered: remembered is 0", "remembered = 10")
    sends = "g_i: uplink = 'estimate'" if estimator.private else "values or models"
    fits = uplink == "auto" or (uplink == "estimate") == estimator.private
    require(fits, "uplink", uplink, f"the estimator {estimator.name} sends {sends}", "or leave the uplink out")
    rule = "measures by f1's gradient, but the server has no rows"
    require(problem.central or not server.trust, "trust", server.trust, rule, "trust = 0, or give the server rows")
    problem, local = local.with_decay_in(problem)
    probes, tuned = Probes(problem, estimator), personal.on(problem, local.lower_level(problem), TUNING)
    at_server = AtServer(problem, estimator, probes, server, remembered, fading, spread, shared_directions)
    how = {"models": uplink == "models", "warm": start == "warm", "common": shared_directions}
    at_client = AtClient(problem, estimator, probes, local, tuned, coupled, **how)
    slopes = Sums(lambda up, spec: counted_alike(up.s), lambda state, total, at: at_server.along(state, total.mean, at))
    return Method(
        name="zo_hfl",
        server_init=at_server.init,
        client_init=at_client.init,
        broadcast=at_server.broadcast,
        address=lambda server, turn: () if shared_directions else Own(keys.at(turn.key, Tag.DIRECTION)),
        local=at_client.local,
        aggregate=at_server.aggregate,
        global_model=lambda state: server.model(state.descent),
        personal_model=at_client.personal_model,
        needs_server_data=problem.central or estimator.served,
        solves=estimator.solves,
        foreign=True,
        differences=estimator.directions > 0,
        lower_level=personal.name == "lower_level",
        sums=slopes if shared_directions else None,
    )


def _check_shared(estimator: Estimator, uplink: str, remembered: int, fading: bool, spread: float) -> None:
    """Refuses what needs more of a client than its slopes along directions that all share."""
    hint = 'sphere, orthogonal, or guided with guide = "server" and at most 2 directions, without control'
    rule = f"the estimator {estimator.name} has directions of each client's own"
    require(estimator.common, "shared_directions", True, rule, hint)
    require(uplink == "auto", "uplink", uplink, "with shared directions a client sends its slopes", "leave the uplink out")
    require(remembered == 0, "remembered", remembered, "with shared directions no reply is known alone", "remembered = 0")
    require(not spread, "spread", spread, "with shared directions nothing is remembered that could be spread", "spread = 0")
    require(not fading, "fading", fading, "needs values of f2; with shared directions only slopes are sent", "fading = false")
