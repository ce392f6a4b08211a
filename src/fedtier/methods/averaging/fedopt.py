"""FedOpt: the clients' average move is a gradient for the server's own optimiser: FedAvgM, FedAdagrad, FedAdam, FedYogi.

Reddi, Charles, Zaheer, Garrett, Rush, Konečný, Kumar, McMahan, "Adaptive Federated Optimization", ICLR 2021,
https://arxiv.org/abs/2003.00295; FedAvgM: Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for
Federated Visual Classification", 2019, https://arxiv.org/abs/1909.06335

    d <- sum_i w_i (y_i - x) / sum_i w_i                         y_i as in FedAvg
    m <- beta_1 m + d;  x <- x + eta m                           FedAvgM
    m <- beta_1 m + (1 - beta_1) d                               the others, from m = 0 and v = tau^2
    v <- v + d^2                                                 FedAdagrad
    v <- beta_2 v + (1 - beta_2) d^2                             FedAdam
    v <- v - (1 - beta_2) d^2 sign(v - d^2)                      FedYogi
    x <- x + eta m / (sqrt v + tau)                              FedAdagrad, FedAdam, FedYogi

As published there is no correction of the bias of m and v, which optax.adam has. Where no client made a step, m, v and x stay.
FedAvgM at beta_1 = 0, eta = 1 is FedAvg; FedAdam at beta_1 = beta_2 = 0, eta = tau, tau -> inf too. FedAdam and FedYogi
move a coordinate by about eta a round wherever |d| is above tau: with a constant eta they do not settle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from ... import trees
from ...errors import positive, share
from ...problem import Bilevel
from ...schedules import StepSize, as_schedule, constant
from ..method import Method, Opening, Round, Sums
from ..personal import PersonalRule
from ..solvers import ProjectedSgd
from ..summed import known_sums
from .counted import Counted, counted
from .fedavg import LOCAL, PERSONAL, Info, fedavg

Update = Callable[["Server", PyTree], tuple[PyTree, "Server"]]  # (state, d) -> (the direction, the state but for x)


class Server(NamedTuple):
    x: PyTree  # x_r [n]
    m: PyTree  # [n]
    v: PyTree  # [n]; () for FedAvgM


def fedavgm(
    problem: Bilevel, *, server_lr: StepSize = 1.0, server_momentum: float = 0.9, local: ProjectedSgd = LOCAL,
    weighting: str = "data", personal: PersonalRule = PERSONAL,
) -> Method:  # fmt: skip
    """FedAvg with momentum: eta = `server_lr`, a number or a schedule of the round, and beta_1 = `server_momentum`."""
    share("server_momentum", server_momentum)

    def update(server: Server, d: PyTree) -> tuple[PyTree, Server]:
        m = trees.axpy(server_momentum, server.m, d)
        return m, server._replace(m=m)

    base = counted(fedavg(problem, local=local, weighting=weighting, personal=personal), "fedavgm")
    return _fedopt(base, update, lambda x: (), server_lr)


def fedadagrad(
    problem: Bilevel, *, server_lr: StepSize = 0.1, server_momentum: float = 0.0, adaptivity: float = 1e-3,
    local: ProjectedSgd = LOCAL, weighting: str = "data", personal: PersonalRule = PERSONAL,
) -> Method:  # fmt: skip
    """As `fedadam`; the paper has no momentum here."""
    base = counted(fedavg(problem, local=local, weighting=weighting, personal=personal), "fedadagrad")
    return _adaptive(base, lambda v, square: v + square, server_lr, server_momentum, adaptivity)


def fedadam(
    problem: Bilevel, *, server_lr: StepSize = 0.1, server_momentum: float = 0.9, second_moment: float = 0.99,
    adaptivity: float = 1e-3, local: ProjectedSgd = LOCAL, weighting: str = "data", personal: PersonalRule = PERSONAL,
) -> Method:  # fmt: skip
    """beta_1 = `server_momentum`, beta_2 = `second_moment`, tau = `adaptivity`: the larger, the more alike the coordinates."""
    share("second_moment", second_moment)
    base, b = counted(fedavg(problem, local=local, weighting=weighting, personal=personal), "fedadam"), second_moment
    return _adaptive(base, lambda v, square: b * v + (1 - b) * square, server_lr, server_momentum, adaptivity)


def fedyogi(
    problem: Bilevel, *, server_lr: StepSize = 0.1, server_momentum: float = 0.9, second_moment: float = 0.99,
    adaptivity: float = 1e-3, local: ProjectedSgd = LOCAL, weighting: str = "data", personal: PersonalRule = PERSONAL,
) -> Method:  # fmt: skip
    """As `fedadam`, but v moves by at most (1 - beta_2) d^2 a round: it falls slowly after a large move."""
    share("second_moment", second_moment)
    base, b = counted(fedavg(problem, local=local, weighting=weighting, personal=personal), "fedyogi"), second_moment
    grow = lambda v, square: v - (1 - b) * square * jnp.sign(v - square)  # noqa: E731
    return _adaptive(base, grow, server_lr, server_momentum, adaptivity)


def _adaptive(base: Method, grow: Callable[[Array, Array], Array], lr: StepSize, beta: float, tau: float) -> Method:
    """The method with m and v, v <- grow(v, d^2)."""
    share("server_momentum", beta)
    positive("adaptivity", tau)

    def update(server: Server, d: PyTree) -> tuple[PyTree, Server]:
        m = trees.axpy(1.0 - beta, d, trees.scale(beta, server.m))
        v = trees.map(lambda v, d: grow(v, d * d), server.v, d)
        return trees.map(lambda m, v: m / (jnp.sqrt(v) + tau), m, v), server._replace(m=m, v=v)

    return _fedopt(base, update, lambda x: trees.map(lambda a: jnp.full_like(a, tau**2), x), lr)


def _fedopt(base: Method, update: Update, first_v: Callable[[PyTree], PyTree], lr: StepSize) -> Method:
    """FedAvg whose server moves by eta times what `update` makes of the mean d."""
    eta = as_schedule("server_lr", lr, constant)

    def aggregate(server: Server, owns: tuple, ups: Counted, specs: PyTree, round: Round) -> tuple[Server, Info]:
        averaged, _ = base.aggregate(base.server_init(trees.zeros_like(server.x)), owns, ups, specs, round)  # FedAvg from 0
        return moved(server, averaged.x, ups.moved(round), round.opening)

    def moved(server: Server, d: PyTree, anybody: Bool[Array, ""], opening: Opening) -> tuple[Server, Info]:
        along, after = update(server, d)
        after = trees.where(anybody, after._replace(x=trees.axpy(eta(opening.round), along, server.x)), server)
        return after, Info(trees.norm(trees.sub(after.x, server.x)))

    sums = Sums(known_sums(base).share, lambda server, total, at: moved(server, total.mean, total.moved > 0, at))
    return base._replace(server_init=lambda x: Server(x, trees.zeros_like(x), first_v(x)), aggregate=aggregate, sums=sums)
