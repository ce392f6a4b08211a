"""How it is solved: one file a method, in a folder for each family, all behind one contract (`method.py`), made of parts.

    zo_hfl(problem, estimator=guided(smoothing=0.1), local=projected_sgd(0.1), server=descent(optax.adam(3e-3), steps=20))

A number is a constant step size; a schedule has a name. The file
`entries.py` of a family has the rows of the registry, and builds the parts from the keys of a configuration.
"""

from .alone.local_only import local_only
from .alone.server_only import server_only
from .asynchronous.fedasync import fedasync
from .asynchronous.fedbuff import fedbuff
from .averaging.agnostic import agnostic
from .averaging.fedavg import fedavg
from .averaging.feddyn import feddyn
from .averaging.fedexp import fedexp
from .averaging.fednova import fednova
from .averaging.fedopt import fedadagrad, fedadam, fedavgm, fedyogi
from .averaging.fedprox import fedprox
from .averaging.moon import moon
from .averaging.scaffold import scaffold
from .clustered.cfl import cfl
from .clustered.ifca import ifca
from .descent import ServerDescent, by_round, descent
from .method import ClientSpec, Method, Opening, Round, Turn, turn_of
from .personal import PersonalRule, fine_tune, global_model, lower_level
from .personalised.apfl import apfl
from .personalised.ditto import ditto
from .personalised.fedmac import fedmac
from .personalised.knn_per import knn_per
from .personalised.mocha import mocha
from .personalised.partial import fedbn, fedper, fedrep, lg_fedavg
from .personalised.per_fedavg import per_fedavg
from .personalised.pfedme import pfedme
from .predictions.codistil import codistil
from .predictions.feddf import feddf
from .predictions.fedmd import fedmd
from .projected import projected
from .registry import METHODS, make
from .robust.coordinate_median import coordinate_median
from .robust.rfa import rfa
from .robust.trimmed_mean import trimmed_mean
from .shared_level.simfbo import shrofbo, simfbo
from .solvers import LowerLevel, ProjectedSgd, pretrain, projected_sgd, sgd
from .two_levels import estimators
from .two_levels.estimator import ClientSide, Estimator
from .two_levels.estimators import exact, first_order, guided, orthogonal, sphere
from .two_levels.zo_hfl import zo_hfl
from .zeroth_order.decomfl import decomfl
from .zeroth_order.fedrzo import fedrzo
from .zeroth_order.zoopfl import zoopfl

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
    "agnostic",
    "apfl",
    "by_round",
    "cfl",
    "codistil",
    "coordinate_median",
    "decomfl",
    "descent",
    "ditto",
    "estimators",
    "exact",
    "fedadagrad",
    "fedadam",
    "fedasync",
    "fedavg",
    "fedavgm",
    "fedbn",
    "fedbuff",
    "feddf",
    "feddyn",
    "fedexp",
    "fedmac",
    "fedmd",
    "fednova",
    "fedper",
    "fedprox",
    "fedrep",
    "fedrzo",
    "fedyogi",
    "fine_tune",
    "first_order",
    "global_model",
    "guided",
    "ifca",
    "knn_per",
    "lg_fedavg",
    "local_only",
    "lower_level",
    "make",
    "mocha",
    "moon",
    "orthogonal",
    "per_fedavg",
    "pfedme",
    "pretrain",
    "projected",
    "projected_sgd",
    "rfa",
    "scaffold",
    "server_only",
    "sgd",
    "shrofbo",
    "simfbo",
    "sphere",
    "trimmed_mean",
    "turn_of",
    "zo_hfl",
    "zoopfl",
]  # fmt: skip
