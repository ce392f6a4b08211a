"""Keys that may not stand together, and keys that nothing would read: refused before any work starts."""

from __future__ import annotations

import inspect

from ..datasets import NAMES, OPTIONS, SETS, who_takes
from ..errors import FedtierError, choice, nearest, require
from ..methods import Method, registry
from ..own_code.naming import is_own
from ..own_code.own_models.words import maker_of
from . import judges
from .tables import LINEAR_MODELS, MODELS, AttackTable, Config, Data, ModelTable, RunTable

DRAWN_ROWS = (
    "test_share",
    "test_seed",
    "test",
    "client_test_share",
    "min_rows",
    "small_clients",
)  # keys of a split that is drawn


def check_own_models(config: Config) -> None:
    """Refuses models of the clients' own that are none, or that the method has no place for."""
    words = config.clients.models
    if not words:
        return
    for word in words:
        maker_of(word)
    takes = [name for name, row in registry.METHODS.items() if "learner" in inspect.signature(row.factory).parameters]
    fits = "learner" in inspect.signature(config.method.entry.factory).parameters
    rule = f"{config.method.name} compares parameters, which models of different kinds do not share"
    require(fits, "clients.models", [str(word) for word in words], rule, f"method.name = {' or '.join(takes)}")
    for name, value in (("data.new_clients", config.data.new_clients), ("data.augment", config.data.augment)):
        require(not value, name, value, "has no meaning for models of the clients' own", "leave it out")
    kind, rule = config.privacy.kind, "cannot be kept for models of the clients' own, into whose fits nobody sees"
    require(kind == "none", "privacy.kind", kind, rule, "leave [privacy] out")


def check_together(config: Config) -> None:
    data, method, run = config.data, config.method, config.run
    for name, value in (("method.radius", method.radius), ("run.tau", run.tau)):
        for one in value if isinstance(value, list) else [value]:
            require(one is None or 0 <= one < float("inf"), name, value, "must be finite and at least 0")
        if isinstance(value, list) and data.partition != "natural":  # whose number of clients only the data tell
            require(len(value) == data.clients, name, value, f"must have one number for each of the {data.clients} clients")
        rule = "must be one number where there are new clients (data.new_clients)"
        require(not (isinstance(value, list) and data.new_clients), name, value, rule)
    if not is_own(config.model.name):
        name = config.model.name
        meant = "did you mean 'residual'?" if "resnet" in name.lower() else nearest(name, MODELS)
        require(name in MODELS, "model.name", name, f"must be one of {', '.join(MODELS)}", meant)
    both = run.epochs is not None and run.local_steps is not None
    require(not both, "run.epochs", run.epochs, "says what run.local_steps says", "leave out one of the two")
    judges.check_names(run.metrics)
    _check_data(data)
    _check_server(config)
    _check_linear(config)
    _check_precision(config)
    _check_augment(config)
    _check_attack(config)


def _check_attack(config: Config) -> None:
    """Refuses keys of [attack] that nothing would read, and an attack on labels where there are none."""
    attack = config.attack
    for key, idle in (("share", attack.kind == "none"), ("scale", attack.kind in ("none", "labels"))):
        given = getattr(attack, key)
        read = not idle or given == AttackTable.model_fields[key].default
        require(read, f"attack.{key}", given, f"is not read with attack.kind = {attack.kind!r}", "leave it out")
    labelled = config.data.name not in SETS or SETS[config.data.name].labelled
    rule = f"has nobody to attack with data.name = {config.data.name!r}"
    require(attack.kind == "none" or labelled, "attack.kind", attack.kind, rule, "name rows with labels")


def check_clock(config: Config, method: Method) -> None:
    """Refuses a buffer that never fills, and times of a clock that is not there."""
    clients, rule = config.data.clients, "each client is at most once in a buffer"
    if config.data.partition != "natural" and not config.data.new_clients:  # whose number only the data tell
        fits = method.buffer <= clients
        require(fits, "method.buffer", method.buffer, f"there are only {clients} clients, and {rule}", "lower it")
    turns, rule = method.buffer > 0 and config.run.order != "drawn", f"{method.name} asks whoever is free, and nobody waits"
    require(not turns, "run.order", config.run.order, rule, '"drawn"')
    for key in ("step_seconds", "latency"):
        value, there = getattr(config.run, key), config.run.speed_spread is not None or method.buffer > 0
        given = value != RunTable.model_fields[key].default
        require(there or not given, f"run.{key}", value, "is not read: there is no clock", "set run.speed_spread, 1 or more")


def _check_data(data: Data) -> None:
    """Refuses keys of [data] that contradict each other, and keys that nothing would read."""
    if not is_own(data.name):
        choice("data.name", data.name, NAMES)
    takes = data.takes
    for key, rule in (SETS[data.name].needs if data.name in SETS else {}).items():
        require(getattr(data, key) is not None, f"data.{key}", None, rule, f'data.{key} = "rows.csv"')
    if data.new_clients:
        labelled = data.name not in SETS or SETS[data.name].labelled
        rule = f"is not read with data.name = {data.name!r}"
        require(labelled, "data.new_clients", data.new_clients, rule, "a new client's model is judged by labels")
    if data.file is not None and "file" not in takes:
        hint = "leave out data.name, or data.file"
        raise FedtierError("data.file", data.file, f"names other data than data.name = {data.name!r}", hint)
    if data.owner is not None and data.partition != "natural":
        rule = f"would not be read: data.partition = {data.partition!r} draws other clients"
        raise FedtierError("data.owner", data.owner, rule, "leave out one of the two")
    of_sets = {key for known in OPTIONS.values() for key in known} - {"folder", "seed", "clients"}
    drawn = {"alpha": ("dirichlet", "quantity"), "classes_per_client": ("classes", "labels", "pathological")}
    drawn |= {"small_clients": ("natural",), "balance": ("dirichlet",)}
    for key in sorted(key for key, field in Data.model_fields.items() if getattr(data, key) != field.default):
        value = getattr(data, key)
        if key in of_sets and key not in takes:
            hint = "name your file: data.file" if key in OPTIONS["file"] else who_takes(key)
            raise FedtierError(f"data.{key}", value, f"is not read with data.name = {data.name!r}", hint)
        if key in drawn and data.partition not in drawn[key]:
            rule = f"is not read with data.partition = {data.partition!r}"
            raise FedtierError(f"data.{key}", value, rule, f"it belongs to {' and '.join(drawn[key])}")
    if data.split:
        _check_split(data)
    if data.test == "published":
        fits, rule = data.partition != "natural", "is not read with natural clients, whose rows are their own"
        require(fits, "data.test", data.test, rule, '"drawn"')
        for key in ("test_share", "test_seed"):
            value, default = getattr(data, key), Data.model_fields[key].default
            require(value == default, f"data.{key}", value, 'is not read with data.test = "published"', "leave it out")
    if data.partition == "natural" and "clients" not in takes and data.clients != Data.model_fields["clients"].default:
        rule = "is not read: natural clients are those whom the data name"
        raise FedtierError("data.clients", data.clients, rule, "leave it out, or choose another partition")


def _check_split(data: Data) -> None:
    """Refuses keys that draw rows where the publisher says who has which."""
    rule = f"is not read with data.name = {data.name!r}, whose publisher says who has which rows"
    require(data.partition == "natural", "data.partition", data.partition, rule, '"natural"')
    require(data.server_share == 0, "data.server_share", data.server_share, rule, 'data.server_copy = "all"')
    for key in DRAWN_ROWS:
        value = getattr(data, key)
        require(value == Data.model_fields[key].default, f"data.{key}", value, rule, "leave it out")


def _check_linear(config: Config) -> None:
    """Refuses a net of ours for a method that is for linear models alone; others are known when they are made."""
    fits = not config.method.entry.linear or config.model.name not in MODELS or config.model.name in LINEAR_MODELS
    rule = f"{config.method.name} is for linear models with weights for every output"
    require(fits, "model.name", config.model.name, rule, "softmax, or linear where the label is a number")


def unread_words(config: Config) -> list[str]:
    """The sizes of an mlp that another model does not read: told and not refused, because a grid over models has them too."""
    table = config.model
    sizes = {} if table.name == "mlp" or is_own(table.name) else {"hidden": table.hidden, "depth": table.depth}
    given = {key: value for key, value in sizes.items() if value != ModelTable.model_fields[key].default}
    return [f"model.{key} = {value} is not read: it is for mlp, and the model is {table.name}" for key, value in given.items()]


def _check_precision(config: Config) -> None:
    """Refuses three digits for a method that subtracts values which differ in the fourth."""
    if config.model.precision == "full":
        return
    method = registry.sketch(config.method.entry, config.method.options)
    rule = f"{config.method.name} takes differences of values, as it is set here, and three digits are too few for them"
    require(not method.differences, "model.precision", "half", rule, "full, or a method that follows slopes, such as fedavg")


def _check_augment(config: Config) -> None:
    """Refuses other images for a method that makes no steps on images."""
    if not config.data.augment:
        return
    name, fits = config.method.name, {"local", "server"} & set(registry.part_names(config.method.entry))
    rule = f"{name} has no steps that could see other images"
    require(fits, "data.augment", True, rule, f"false, or a comparison without {name}")
    require(config.method.solver is None, "data.augment", True, "a solver of your own sees the stored images", "false")


def _check_server(config: Config) -> None:
    """Refuses what needs rows at the server where it has none."""
    if config.data.central:
        return
    asking = {"method.server_seat": config.method.server_seat, "method.pretrain": config.method.pretrain}
    for name, value in asking.items():
        require(not value, name, value, "needs rows at the server, but data.server_share = 0", "raise data.server_share")
    method = registry.sketch(config.method.entry, config.method.options, central=False)
    rule = f"{config.method.name} needs rows at the server, as it is set here"
    require(
        not method.needs_server_data,
        "data.server_share",
        0,
        rule,
        "raise it, or choose a method that needs none, zo_hfl or fedavg",
    )
