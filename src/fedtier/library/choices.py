"""Methods and models as a program chooses them: by name, with the keys of a configuration, with parts, or of one's own.

A choice is no method yet: which problem it solves is known once there are a model and data, or a problem of one's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import NOTHING, FedtierError, require
from ..experiments.config import validate
from ..experiments.tables import MethodTable
from ..methods import Method, ProjectedSgd, registry
from ..methods.parts import KINDS
from ..own_code.black_box import check_solver
from ..own_code.held import PREFIX, Held
from ..own_code.naming import is_own, short
from ..problem import Bilevel
from .words import as_arguments, given, word

OF_PROBLEM = ("penalty", "proximity", "radius")


@dataclass(frozen=True, repr=False)
class MethodChoice:
    """A method with its options: `ft.train` and `ft.compare` bind it to a problem, `on` does so by hand."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)  # keys of [method] that were given; objects held by words

    @property
    def table(self) -> dict[str, Any]:
        """The [method] table that stands for it."""
        return {"name": self.name} | self.options

    @property
    def settings(self) -> dict[str, Any]:
        """Every key with its value, those of the preset included: what will run."""
        return validate({"method": self.table}).method.model_dump(exclude_none=True)

    def on(self, problem: Bilevel) -> Method:
        """The method on `problem`, for the engines underneath (`fedtier.engines`)."""
        table = validate({"method": self.table}).method
        return registry.make(table.entry, problem, table.options)

    def __repr__(self) -> str:
        words = ", ".join(f"{key}={_told(value)}" for key, value in self.settings.items() if key != "name")
        return f"{short(self.name)}({words})"


def _told(value: Any) -> str:
    return value.removeprefix(PREFIX) if isinstance(value, Held) else repr(value)


def method(name: str | Callable[..., Method], problem: Any = None, **options: Any) -> MethodChoice:
    """A method by its name, by the path of your own ("my.py:method"), or the function itself: method(problem, *, options)."""
    return _chosen(word(name), problem, options)


def _chosen(name: str, problem: Any, options: dict[str, Any]) -> MethodChoice:
    for part, kind in KINDS.items():
        if part in options and part != "estimator" and not is_own(name):
            value = options[part]
            black_box = part == "local" and callable(value) and not isinstance(value, ProjectedSgd)
            fits = isinstance(value, kind.type) or black_box
            require(fits, part, value, f"must be {kind.words}", f"for example {part}={kind.example}")
            if callable(value) and black_box:
                check_solver(value)  # pyright: ignore[reportArgumentType]  ProjectedSgd is no black box
    table = given({"problem": problem} | options)
    choice = MethodChoice(name, table)
    with as_arguments():
        validate({"method": choice.table})
    return choice


def _factory(name: str) -> Callable[..., MethodChoice]:
    """The function ft.NAME: its signature has the method's keys, their recommended values, and its parts."""
    entry = registry.entry(name)

    def choose(problem: Any = None, **options: Any) -> MethodChoice:
        return _chosen(name, problem, options)

    fields = {key: MethodTable.model_fields[key].default for key in MethodTable.model_fields if key not in ("name", "problem")}
    keys = fields | registry.defaults(name, "recommended")
    parts = [part for part in registry.part_names(entry) if part not in keys]
    shown = [inspect.Parameter("problem", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)]
    shown += [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=value) for key, value in keys.items()]
    shown += [inspect.Parameter(part, inspect.Parameter.KEYWORD_ONLY, default=None) for part in parts]
    choose.__signature__ = inspect.Signature(shown)  # pyright: ignore[reportFunctionMemberAccess]
    choose.__name__ = choose.__qualname__ = name
    choose.__doc__ = (
        f"{entry.title}: {entry.summary}.\n\n"
        "Without a problem it solves the one that `ft.train` makes of the model and the data. A problem of your own is a\n"
        'Bilevel, a function of the loss that returns one, or its path, "mine.py:problem". Values left out are those of the\n'
        "preset.\n\n"
        f"{inspect.getdoc(entry.factory) or ''}"
    )
    return choose


zo_hfl = _factory("zo_hfl")
fedavg = _factory("fedavg")
fedprox = _factory("fedprox")
scaffold = _factory("scaffold")
fednova = _factory("fednova")
fedavgm = _factory("fedavgm")
fedadagrad = _factory("fedadagrad")
fedadam = _factory("fedadam")
fedyogi = _factory("fedyogi")
fedexp = _factory("fedexp")
agnostic = _factory("agnostic")
feddyn = _factory("feddyn")
moon = _factory("moon")
server_only = _factory("server_only")
local_only = _factory("local_only")
ditto = _factory("ditto")
apfl = _factory("apfl")
pfedme = _factory("pfedme")
per_fedavg = _factory("per_fedavg")
fedper = _factory("fedper")
fedrep = _factory("fedrep")
fedbn = _factory("fedbn")
lg_fedavg = _factory("lg_fedavg")
fedmac = _factory("fedmac")
knn_per = _factory("knn_per")
mocha = _factory("mocha")
rfa = _factory("rfa")
trimmed_mean = _factory("trimmed_mean")
coordinate_median = _factory("coordinate_median")
decomfl = _factory("decomfl")
fedrzo = _factory("fedrzo")
zoopfl = _factory("zoopfl")
simfbo = _factory("simfbo")
shrofbo = _factory("shrofbo")
ifca = _factory("ifca")
cfl = _factory("cfl")
fedbuff = _factory("fedbuff")
fedasync = _factory("fedasync")
codistil = _factory("codistil")
fedmd = _factory("fedmd")
feddf = _factory("feddf")


FACTORIES = (
    zo_hfl, fedavg, fedprox, scaffold, fednova, fedavgm, fedadagrad, fedadam, fedyogi, fedexp, agnostic, feddyn, moon,
    server_only, local_only, ditto, apfl, pfedme, per_fedavg, fedper, fedrep, fedbn, lg_fedavg, fedmac, knn_per, mocha, rfa,
    trimmed_mean, coordinate_median, decomfl, fedrzo, zoopfl, simfbo, shrofbo, ifca, cfl, fedbuff, fedasync,
    codistil, fedmd, feddf,
)  # fmt: skip


def as_method(given: Any) -> MethodChoice:
    """A choice as it is; a name, a path or a function as one."""
    _refuse_uncalled("method", given, FACTORIES)
    if isinstance(given, MethodChoice):
        return given
    if isinstance(given, Method):
        hint = "ft.zo_hfl(...), or ft.method(function): train binds it to the problem"
        raise FedtierError("method", given.name, "is bound to a problem already, which cannot be measured from outside", hint)
    fits = isinstance(given, str) or callable(given)
    require(fits, "method", given, "must be a method", "ft.zo_hfl(), a name, or a function of the problem")
    return _chosen(word(given), None, {})


def _refuse_uncalled(name: str, given: Any, factories: tuple[Callable[..., Any], ...]) -> None:
    for factory in factories:
        if given is factory:
            raise FedtierError(
                name, NOTHING, f"is the function ft.{factory.__name__} itself", f"call it: ft.{factory.__name__}()"
            )


@dataclass(frozen=True, repr=False)
class ModelChoice:
    """A kind of model with its options; its sizes come from the data."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)  # keys of [model]

    @property
    def table(self) -> dict[str, Any]:
        """The [model] table that stands for it."""
        return {"name": self.name} | self.options

    def __repr__(self) -> str:
        return f"{short(self.name)}({', '.join(f'{key}={value}' for key, value in self.options.items())})"


def _model(name: str, **options: Any) -> ModelChoice:
    choice = ModelChoice(name, given(options))
    with as_arguments():
        validate({"model": choice.table, "method": {"name": "fedavg"}})  # which goes with every model
    return choice


def softmax(*, bias: bool = True) -> ModelChoice:
    """Softmax regression, for classes."""
    return _model("softmax", bias=bias)


def linear(*, bias: bool = True, loss: str = "auto", huber_width: float = 1.0) -> ModelChoice:
    """Linear regression for numbers, softmax regression for classes; `loss` "squared" or "huber" for numbers."""
    return _model("linear", bias=bias, loss=loss, huber_width=huber_width)


def mlp(*, hidden: int = 64, depth: int = 1, bias: bool = True, loss: str = "auto", huber_width: float = 1.0) -> ModelChoice:
    """A net of `depth` hidden layers of width `hidden`, ReLU between them."""
    return _model("mlp", hidden=hidden, depth=depth, bias=bias, loss=loss, huber_width=huber_width)


def cnn(*, bias: bool = True, loss: str = "auto", huber_width: float = 1.0) -> ModelChoice:
    """A small convolutional net for images [channels, height, width]."""
    return _model("cnn", bias=bias, loss=loss, huber_width=huber_width)


def model(made: Any, **options: Any) -> ModelChoice:
    """A model of ours by its name, such as "lenet" or "residual", or one of your own: its path, "net.py:make", a function of
    the sizes (features, shape, outputs, classes), or a Model, an Equinox module over one row or a PyTorch nn.Module. `options`
    are those of the function."""
    name = word(made)
    require(isinstance(name, str), "model", made, "is no model", "ft.mlp(hidden=64), a path, a function, a module")
    return _model(name, **options)


def as_model(chosen: Any) -> ModelChoice:
    """A choice as it is, anything else as `model` takes it."""
    _refuse_uncalled("model", chosen, (softmax, linear, mlp, cnn))
    return chosen if isinstance(chosen, ModelChoice) else ModelChoice("linear") if chosen is None else model(chosen)
