"""Which model a word names: "sklearn:RandomForestClassifier(n_estimators=50)", "mine.py:make", "program:./closed --fast".

sklearn:NAME(...)       a classifier of scikit-learn; xgboost:NAME(...) and lightgbm:NAME(...) where they are installed
jax:mlp(hidden=32)      a net of ours (mlp, softmax), with lr, batch and epochs beside its sizes
torch:cnn(epochs=2)     a small convolutional net of PyTorch; a net of your own: `torch_net.TorchNet` in a file
program:COMMAND         a closed program over files; service:URL: one over HTTP (`program`)
FILE.py:NAME(...)       a function or class of the user's that makes a model, or a classifier like scikit-learn's
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ...errors import FedtierError, nearest, require
from ...problem import Model, mlp, softmax
from ..by_path import find
from ..held import Held, is_object, value_of
from ..naming import is_path
from .contract import OwnModel, require_model
from .learner import Make

KEY = "clients.models"
MODULES = ("ensemble", "linear_model", "naive_bayes", "neighbors", "neural_network", "svm", "tree", "discriminant_analysis")
TRAINING = ("lr", "batch", "epochs")
NETS: dict[str, Callable[..., Model]] = {"mlp": mlp, "softmax": softmax}
KINDS = ("sklearn", "xgboost", "lightgbm", "jax", "torch", "program", "service")


def maker_of(word: str, key: str = KEY) -> Make:
    """A function that makes a new model of this kind; refused before any work starts where the word names none."""
    if is_object(word):
        return _of_object(word, key)
    kind, _, rest = word.partition(":")
    if is_path(word):
        path, options = _call(word, key)
        return partial(_made, _with(find(key, path), options, word, key), key)
    if kind in ("program", "service"):
        from .program import Program, Service

        require(bool(rest), key, word, "must name what is called", "program:./closed, service:http://localhost:8000")
        return partial(Program if kind == "program" else Service, rest)
    if kind not in KINDS:
        hint = f"{nearest(kind, KINDS)}, or a path: mine.py:make"
        raise FedtierError(key, word, "names no kind of model", hint)
    name, options = _call(rest, key)
    if kind == "torch":
        return _torch(name, options, key)
    if kind == "jax":
        return _net(name, options, key)
    make = partial(_made, _with(_class(kind, name, key), options, word, key), key)
    make()  # one that cannot be used is refused now
    return make


def _with(make: Callable[..., Any], options: dict[str, Any], word: str, key: str) -> Callable[[], Any]:
    """The function with these options; refused where it does not take them."""
    try:
        takes = inspect.signature(make).parameters
    except ValueError:  # one of C's
        return partial(make, **options)
    if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in takes.values()):
        for option in options:
            require(option in takes, key, word, f"has no option {option}", nearest(option, takes))
    try:
        inspect.signature(make).bind(**options)
    except TypeError as error:
        raise FedtierError(key, word, f"cannot be made: {error}", "NAME(option=value, ...)") from None
    return partial(make, **options)


def _of_object(word: str, key: str) -> Make:
    value = value_of(key, word)
    assert isinstance(word, Held)
    if inspect.isclass(value) or inspect.isroutine(value):
        return partial(_made, value, key)
    import copy

    return lambda: as_own(copy.deepcopy(value), key)


def _made(make: Callable[[], Any], key: str) -> OwnModel:
    return as_own(make(), key)


def as_own(made: object, key: str = KEY) -> OwnModel:
    """What was made, as a model: a classifier like scikit-learn's is put into the interface."""
    if hasattr(made, "get_params") and hasattr(made, "set_params"):
        from .scikit import Scikit

        return Scikit(made)
    return require_model(key, made)


def _class(kind: str, name: str, key: str) -> Callable[..., Any]:
    modules = [f"sklearn.{part}" for part in MODULES] if kind == "sklearn" else [kind]
    known: list[str] = []
    for module in modules:
        try:
            found = importlib.import_module(module)
        except ImportError:
            raise FedtierError(key, f"{kind}:{name}", f"needs the package {kind}", f"pip install fedtier[{kind}]") from None
        if hasattr(found, name):
            return getattr(found, name)
        known += [one for one in dir(found) if one.endswith("Classifier")]
    raise FedtierError(key, name, f"is no classifier of {kind}", nearest(name, known))


def _net(name: str, options: dict[str, Any], key: str) -> Make:
    from .jax_net import JaxNet

    require(name in NETS, key, name, "is no net of ours", nearest(name, NETS))
    training = {option: options.pop(option) for option in TRAINING if option in options}
    sizes = inspect.signature(NETS[name]).parameters
    for option in options:
        require(option in sizes, key, option, f"is no option of {name}", nearest(option, [*sizes, *TRAINING]))
    make = _Sized(name, tuple(sorted(options.items())))
    return partial(JaxNet, make, **training)


def _torch(name: str, options: dict[str, Any], key: str) -> Make:
    try:
        importlib.import_module("torch")
    except ImportError:
        raise FedtierError(key, f"torch:{name}", "needs the package torch", "pip install torch") from None
    from .torch_net import TorchNet, cnn

    require(name == "cnn", key, name, "is no net of this kind", "torch:cnn, or a file of yours")
    for option in options:
        require(option in TRAINING[1:], key, option, "is no option of torch:cnn", nearest(option, TRAINING[1:]))
    return partial(TorchNet, cnn, **options)


class _Sized(NamedTuple):
    """A net of ours for the sizes of the data: named, so that it can be kept in a file."""

    name: str
    options: tuple[tuple[str, Any], ...]

    def __call__(self, features: int, classes: int) -> Model:
        return NETS[self.name](features, classes, **dict(self.options))


def _call(text: str, key: str) -> tuple[str, dict[str, Any]]:
    """(what is called, its options) of NAME or NAME(option=value, ...); values are plain ones, nothing is run."""
    name, bracket, rest = text.partition("(")
    if not bracket:
        return name, {}
    try:
        call = ast.parse(f"f({rest}", mode="eval").body
        assert isinstance(call, ast.Call) and not call.args
        return name, {str(one.arg): ast.literal_eval(one.value) for one in call.keywords if one.arg}
    except (SyntaxError, ValueError, AssertionError):
        raise FedtierError(key, text, "must read NAME(option=value, ...) with plain values") from None
