"""The methods by name. The command line, the tests and the battery read this table; adding a method is adding a row."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import FedtierError, nearest
from ..problem import Bilevel
from .ditto import ditto
from .fedavg import fedavg
from .fedprox import fedprox
from .local_only import local_only
from .method import Method
from .scaffold import scaffold
from .server_only import server_only
from .zo_hfl import RECOMMENDED, zo_hfl


class Entry(NamedTuple):
    factory: Callable[..., Method]
    summary: str
    reference: str  # BibTeX; empty for the references of our own


ZO_HFL = """@article{qiu2025zohfl,
  title = {A Randomized Zeroth-Order Hierarchical Framework for Heterogeneous Federated Learning},
  author = {Qiu, Yuyang and Kim, Kibaek and Yousefian, Farzad},
  journal = {arXiv preprint arXiv:2504.01839},
  year = {2025}
}"""

FEDAVG = """@inproceedings{mcmahan2017fedavg,
  title = {Communication-Efficient Learning of Deep Networks from Decentralized Data},
  author = {McMahan, Brendan and Moore, Eider and Ramage, Daniel and Hampson, Seth and Ag{\\"u}era y Arcas, Blaise},
  booktitle = {Artificial Intelligence and Statistics (AISTATS)},
  year = {2017}
}"""

FEDPROX = """@inproceedings{li2020fedprox,
  title = {Federated Optimization in Heterogeneous Networks},
  author = {Li, Tian and Sahu, Anit Kumar and Zaheer, Manzil and Sanjabi, Maziar and Talwalkar, Ameet and Smith, Virginia},
  booktitle = {Machine Learning and Systems (MLSys)},
  year = {2020}
}"""

SCAFFOLD = """@inproceedings{karimireddy2020scaffold,
  title = {{SCAFFOLD}: Stochastic Controlled Averaging for Federated Learning},
  author = {Karimireddy, Sai Praneeth and Kale, Satyen and Mohri, Mehryar and Reddi, Sashank and Stich, Sebastian and
            Suresh, Ananda Theertha},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2020}
}"""

DITTO = """@inproceedings{li2021ditto,
  title = {Ditto: Fair and Robust Federated Learning Through Personalization},
  author = {Li, Tian and Hu, Shengyuan and Beirami, Ahmad and Smith, Virginia},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2021}
}"""

METHODS: dict[str, Entry] = {
    "zo_hfl": Entry(zo_hfl, "two levels: server data, personal models, f2's values alone leave a client", ZO_HFL),
    "fedavg": Entry(fedavg, "average of local SGD", FEDAVG),
    "fedprox": Entry(fedprox, "FedAvg with a pull towards the global model", FEDPROX),
    "scaffold": Entry(scaffold, "FedAvg with control variates against client drift", SCAFFOLD),
    "ditto": Entry(ditto, "FedAvg, and a personal model beside it that is pulled towards the global one", DITTO),
    "server_only": Entry(server_only, "the server's own data alone: what a federation must beat", ""),
    "local_only": Entry(local_only, "each client alone: what a personal model must beat", ""),
}


def entry(name: str) -> Entry:
    if name not in METHODS:
        raise FedtierError("method.name", name, "is no method", nearest(name, METHODS))
    return METHODS[name]


def options(name: str) -> dict[str, inspect.Parameter]:
    """The keyword options of a method, read from its factory: the one place where they are declared."""
    parameters = inspect.signature(entry(name).factory).parameters
    return {key: p for key, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}


def defaults(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """The keys of [method] that `given` leaves open. For zo_hfl with estimator = "auto", or none named, these are the
    recommended ones; naming an estimator, or an uplink that forbids sending g, is asking for the paper's."""
    declared = {key: option.default for key, option in options(name).items()}
    auto = given.get("estimator", "auto") == "auto" and given.get("uplink", "auto") in ("auto", "estimate")
    return declared | RECOMMENDED if name == "zo_hfl" and auto else declared


def make(name: str, problem: Bilevel, given: dict[str, Any]) -> Method:
    """The method `name` with the options `given`; an option it does not have, or of a wrong type, is refused."""
    known = options(name)
    hints = typing.get_type_hints(entry(name).factory)
    for key, value in given.items():
        if key not in known:
            raise FedtierError(f"method.{key}", value, f"is no option of {name}", nearest(key, known))
        _check_type(f"method.{key}", value, hints[key])
    try:
        return entry(name).factory(problem, **given)
    except FedtierError as error:
        inside = error.name if error.name.startswith("method.") else f"method.{error.name}"
        raise FedtierError(inside, error.value, error.rule, error.hint) from None


def _check_type(name: str, value: Any, hint: Any) -> None:
    members = typing.get_args(hint) if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union else (hint,)
    plain = tuple(member for member in members if member in (bool, int, float, str))
    if not plain or (callable(value) or not isinstance(value, bool | int | float | str | list | dict)):
        return
    accepts = isinstance(value, plain) or (float in plain and isinstance(value, int))
    if not accepts or (isinstance(value, bool) and bool not in plain):
        words = " or ".join({bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[t] for t in plain)
        raise FedtierError(name, value, f"must be {words}", "")
