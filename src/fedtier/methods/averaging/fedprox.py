"""FedProx: FedAvg with a pull towards the global model.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated Optimization in Heterogeneous Networks", MLSys 2020,
https://arxiv.org/abs/1812.06127

    y_i <- y_i - tilde_gamma_t (grad f1(y_i, zeta_t) + mu (y_i - x))     then averaged as in FedAvg

At mu = 0 it is FedAvg. The pull limits drift but does not remove it; a large mu slows everything down.
"""

from __future__ import annotations

from jaxtyping import Array, Float

from ...problem import Bilevel
from ..method import Method
from ..personal import PersonalRule
from ..solvers import ProjectedSgd
from .fedavg import LOCAL, PERSONAL, averaging, towards


def fedprox(
    problem: Bilevel,
    *,
    proximity: float | Float[Array, ""] = 0.1,
    local: ProjectedSgd = LOCAL,
    weighting: str = "data",
    personal: PersonalRule = PERSONAL,
) -> Method:
    """FedProx on problem.f1 with mu = `proximity`; the rest is FedAvg's."""
    return averaging("fedprox", problem, towards(proximity), local, weighting, personal)
