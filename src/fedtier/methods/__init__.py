"""How it is solved: one file a method, all behind one contract (`method.py`)."""

from .ditto import ditto
from .fedavg import fedavg
from .fedprox import fedprox
from .local_only import local_only
from .method import Method, Round, Turn
from .registry import METHODS, make
from .scaffold import scaffold
from .server_only import server_only
from .solvers import lower_level, pretrain, sgd
from .zo_hfl import zo_hfl

__all__ = [
    "METHODS", "Method", "Round", "Turn", "ditto", "fedavg", "fedprox", "local_only", "lower_level", "make", "pretrain",
    "scaffold", "server_only", "sgd", "zo_hfl",
]  # fmt: skip
