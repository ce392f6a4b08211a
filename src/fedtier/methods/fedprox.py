"""FedProx: FedAvg with a rope.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated Optimization in Heterogeneous Networks", MLSys 2020,
https://arxiv.org/abs/1812.06127

    y_i <- y_i - tilde_gamma_t (grad f1(y_i, zeta_t) + mu (y_i - x))     then averaged as in FedAvg

At mu = 0 it is FedAvg. The rope limits drift but does not remove it; a large mu slows everything down.
"""

from __future__ import annotations

from .. import trees
from ..errors import not_negative
from ..problem import Bilevel
from ..schedules import StepSize
from .fedavg import averaging
from .method import Method


def fedprox(
    problem: Bilevel,
    *,
    proximity: float = 0.1,
    client_lr: StepSize = 0.1,
    batch: int = 32,
    weighting: str = "data",
    fine_tune: StepSize = 0.0,
) -> Method:
    """FedProx on problem.f1 with mu = `proximity`; the other options are FedAvg's."""
    not_negative("proximity", proximity)

    def pull(y, x):
        return trees.scale(proximity, trees.sub(y, x))

    return averaging("fedprox", problem, pull, client_lr, batch, weighting, fine_tune)
