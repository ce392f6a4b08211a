"""How it is solved: one file a method, all behind one contract (`method.py`), made of parts.

    zo_hfl(problem, estimator=guided(smoothing=0.1), local=projected_sgd(0.1), server=descent(optax.adam(3e-3), steps=20))

A number is a constant step size; a schedule has a name. `flat` builds the parts from the keys of a configuration.
"""

from .descent import ServerDescent, by_round, descent
from .ditto import ditto
from .estimator import ClientSide, Estimator
from .estimators import exact, first_order, guided, orthogonal, sphere
from .fedavg import fedavg
from .fedprox import fedprox
from .local_only import local_only
from .method import ClientSpec, Method, Opening, Round, Turn, turn_of
from .personal import PersonalRule, fine_tune, global_model, lower_level
from .registry import METHODS, make
from .scaffold import scaffold
from .server_only import server_only
from .solvers import LowerLevel, ProjectedSgd, pretrain, projected_sgd, sgd
from .zo_hfl import zo_hfl

__all__ = [
    "METHODS",
    "ClientSide",
    "ClientSpec",
    "Estimator",
    "LowerLevel",
    "Method",
    "Opening",
    "PersonalRule",
    "ProjectedSgd",
    "Round",
    "ServerDescent",
    "Turn",
    "by_round",
    "descent",
    "ditto",
    "exact",
    "fedavg",
    "fedprox",
    "fine_tune",
    "first_order",
    "global_model",
    "guided",
    "local_only",
    "lower_level",
    "make",
    "orthogonal",
    "pretrain",
    "projected_sgd",
    "scaffold",
    "server_only",
    "sgd",
    "sphere",
    "turn_of",
    "zo_hfl",
]  # fmt: skip
