"""Server only: what the server reaches with its own data. The first number an honest table needs.

    x <- x - gamma_r grad f1(x, xi_r)

It is `zo_hfl` at penalty 0. If a federated method does not beat it, the clients' data brought nothing.
"""

from __future__ import annotations

from jaxtyping import PyTree

from ... import trees
from ...problem import Bilevel
from ..averaging.fedavg import PERSONAL, Info
from ..descent import Descent, ServerDescent, descent
from ..method import Method, Round
from ..parts import check_parts
from ..personal import PersonalRule, without_lower_level

SERVER = descent("inverse_sqrt(0.01)")


def server_only(problem: Bilevel, *, server: ServerDescent = SERVER, personal: PersonalRule = PERSONAL) -> Method:
    """f1 alone; nothing crosses the wire. `server` is as in `zo_hfl`, `personal` as in FedAvg."""
    check_parts(server=server, personal=personal)

    def aggregate(state: Descent, owns: tuple, ups: tuple, specs: PyTree, round: Round) -> tuple[Descent, Info]:
        after = server.step(problem.f1, state, trees.zeros_like, round.view, round.round, round.key)
        return after, Info(trees.norm(trees.sub(after.x, state.x)))

    return Method(
        name="server_only",
        server_init=server.init,
        broadcast=lambda server, opening: (),
        local=lambda client, shared, own, view, spec, turn: (client, ()),
        aggregate=aggregate,
        global_model=server.model,
        personal_model=without_lower_level(personal, problem),
        needs_server_data=True,
        solves=0,
    )
