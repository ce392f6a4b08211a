"""Configurations: four tables of words, checked whole before any work starts.

    [data]  what rows there are and who has them        [method]  how it is solved, and the problem's penalty and limits
    [model] what is trained                             [run]     how long, with whom, from which seed

The options of a method are those of its factory (`fedtier methods`); they stand in [method] beside the keys below.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import pydantic
import tomli_w
from pydantic import BaseModel, ConfigDict, Field

from ..errors import NOTHING, FedtierError, nearest, require
from ..methods import registry
from ..problem import Bilevel

Share = float


def described(default: Any, meaning: str, *, unit: str = "", example: Any = None, **rules: Any) -> Any:
    """A key of a table. The reference of all keys is made from its meaning, unit and example; `rules` are pydantic's."""
    return Field(default=default, description=meaning, examples=[example], json_schema_extra={"unit": unit}, **rules)


class Table(BaseModel):
    """A table of a configuration: keys it does not have are refused, values are taken as they are written."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Data(Table):
    """[data]: what rows there are, and who has them."""

    name: str = described("digits", "The data set, by its name; `file` is your own.", example="mnist")
    folder: str | None = described(
        None,
        "The folder of the publishers' files. Without it FEDTIER_DATA names one, else they are downloaded.",
        example="data",
    )
    file: str | None = described(
        None, 'Your own table (.csv, .parquet, .npz) or folder of images, with name = "file".', example="patients.csv"
    )
    label: str = described("label", "The column of your table that is predicted.", example="outcome")
    owner: str | None = described(None, 'The column that says whose row it is, with partition = "natural".', example="hospital")
    partition: Literal["dirichlet", "iid", "classes", "quantity", "natural"] = described(
        "dirichlet",
        "How rows are dealt to clients: unequal shares of each class, at random, few classes each, unequal numbers, by owner.",
        example="natural",
    )
    clients: int = described(
        10, "How many clients there are; with natural owners the data decide.", unit="clients", example=20, ge=1
    )
    alpha: float = described(
        0.1, "Dirichlet's parameter: the smaller, the more clients differ; 1000 makes them alike.", example=1.0, gt=0
    )
    rows: int | None = described(None, "Rows of each client, for synthetic and quadratic.", unit="rows", example=100, ge=1)
    features: int | None = described(None, "Columns of a row, for synthetic and quadratic.", unit="columns", example=20, ge=1)
    classes: int | None = described(None, "Classes, for synthetic.", unit="classes", example=5, ge=2)
    spread: float | None = described(
        None, "How far clients lie apart, for synthetic and quadratic; 0: alike.", example=1.0, ge=0
    )
    image_size: int | None = described(None, "Side that a folder of images is resized to.", unit="pixels", example=32, ge=1)
    classes_per_client: int = described(
        2, 'Classes of each client, with partition = "classes".', unit="classes", example=3, ge=1
    )
    server_share: Share = described(
        0.3, "The server's part of the rows that are not test rows.", unit="share", example=0.1, gt=0, lt=1
    )
    test_share: Share = described(
        0.1, "The part of all rows that judges the global model.", unit="share", example=0.2, gt=0, lt=1
    )
    test_seed: int | None = described(
        None, "Draws the same test rows for every run.seed; without it each seed draws its own.", example=0, ge=0
    )
    validation_share: Share = described(
        0.0, "Above 0, models are judged on this part of the server's rows instead of the test rows.", unit="share",
        example=0.2, ge=0, lt=1,
    )  # fmt: skip
    client_test_share: Share = described(
        0.2, "The part of each client's rows that is held back to judge its models.", unit="share", example=0.3, ge=0, lt=1
    )


class ModelTable(Table):
    """[model]: what is trained."""

    name: Literal["softmax", "mlp", "cnn"] = described(
        "softmax", "Softmax regression, a net of dense layers, or a small convolutional net for images.", example="mlp"
    )
    hidden: int = described(64, "Width of a hidden layer of mlp.", unit="numbers", example=128, ge=1)
    depth: int = described(1, "Hidden layers of mlp.", unit="layers", example=2, ge=1)


class MethodTable(Table):
    """[method]: how it is solved; the keys below and the options of the method itself."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)  # the rest is checked against the method's own options
    name: str = described("zo_hfl", "The method, by its name.", example="scaffold")
    penalty: float = described(
        1.0, "lambda: what the server pays for the distance of its model to the personal ones.", example=30.0, ge=0,
        allow_inf_nan=False,
    )  # fmt: skip
    proximity: float = described(
        0.1, "mu: how strongly a client's loss pulls its personal model to the server's.", example=10.0, ge=0,
        allow_inf_nan=False,
    )  # fmt: skip
    radius: float | list[float] | None = described(
        None, "Personal models stay within this distance of the server's: one for all, or one per client; none: no limit.",
        unit="distance", example=0.5,
    )  # fmt: skip
    server_seat: bool = described(
        False, "Gives the server's rows to one more client, for the methods without a server's part.", example=True
    )
    pretrain: int = described(0, "Steps on the server's rows before round 0.", unit="steps", example=1000, ge=0)
    pretrain_lr: float = described(0.1, "The size of these steps.", unit="step size", example=0.01, gt=0, allow_inf_nan=False)

    @property
    def options(self) -> dict[str, Any]:
        given = dict(self.model_extra or {})
        if "proximity" in registry.options(self.name):
            given["proximity"] = self.proximity
        return given


class RunTable(Table):
    """[run]: how long, with whom, from which seed."""

    rounds: int = described(200, "Exchanges between the server and its clients.", unit="rounds", example=500, ge=0)
    participation: Share = described(
        0.5, "beta: the part of the clients that is asked in a round.", unit="share", example=0.1, gt=0, le=1
    )
    tau: float | list[float] = described(
        5.0, "A client makes ceil(tau sqrt(r + 1)) local steps in round r: one tau for all, or one per client.", unit="steps",
        example=20.0,
    )  # fmt: skip
    stragglers: Share = described(
        0.0, "The part of a cohort that is too slow and makes no step.", unit="share", example=0.1, ge=0, le=1
    )
    dropouts: Share = described(0.0, "The part of the replies that is lost.", unit="share", example=0.1, ge=0, lt=1)
    seed: int = described(0, "The first seed: of splits, partitions, plans, first models and minibatches.", example=100, ge=0)
    seeds: int = described(1, "How many seeds run at once, from `seed` on.", unit="seeds", example=5, ge=1)
    eval_every: int = described(
        20, "Models are measured every so many rounds, and at the end.", unit="rounds", example=50, ge=1
    )
    eval_clients: int = described(
        1000, "Personal models are measured for at most so many clients, evenly spaced.", unit="clients", example=100, ge=1
    )
    checkpoint_every: int = described(
        100, "The state is saved every so many rounds, and at the end.", unit="rounds", example=10, ge=1
    )


class Config(Table):
    """A whole configuration: the four tables."""

    data: Data = Data()
    model: ModelTable = ModelTable()
    method: MethodTable = MethodTable()
    run: RunTable = RunTable()

    def toml(self) -> str:
        """Every key with its value, defaults included; reads back as the same configuration."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))

    def digest(self) -> str:
        """Twelve letters for what determines the rows of metrics: how often a run is saved and where its data lie do not."""
        content = self.model_dump()
        content["run"].pop("checkpoint_every")
        content["data"].pop("folder")
        return hashlib.sha256(repr(sorted((k, sorted(v.items())) for k, v in content.items())).encode()).hexdigest()[:12]


TABLES: dict[str, type[Table]] = {"data": Data, "model": ModelTable, "method": MethodTable, "run": RunTable}


def keys_of(*tables: str) -> dict[str, str]:
    """The keys of these tables by the name of the parameter that they set: `alpha` is data.alpha. For `errors.called`."""
    return {key: f"{table}.{key}" for table in tables for key in TABLES[table].model_fields}


def load_config(file: str | Path | None = None, settings: Iterable[str] = ()) -> Config:
    """The configuration of a TOML file (defaults where it is silent) with `table.key=value` settings on top."""
    tables = read_toml(Path(file)) if file is not None else {}
    return validate(with_settings(tables, settings))


def with_settings(tables: dict[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """`tables` with each `table.key=value` on top."""
    for setting in settings:
        table, key, value = _parse_setting(setting)
        tables.setdefault(table, {})
        require(isinstance(tables[table], dict), table, tables[table], "must be a table", f"[{table}]")
        tables[table][key] = value
    return tables


def validate(tables: dict[str, Any]) -> Config:
    """The checked configuration; the first thing wrong with it as FedtierError."""
    for table, content in tables.items():
        if table not in TABLES:
            raise FedtierError(table, NOTHING, "is no table of a configuration", nearest(table, TABLES))
        require(isinstance(content, dict), table, content, "must be a table", f"write [{table}] and its keys below it")
    tables = {table: _lists(dict(content)) for table, content in tables.items()}
    name = tables.get("method", {}).get("name", "zo_hfl")
    known_options = registry.options(name) if isinstance(name, str) else {}
    for table, content in tables.items():
        known = set(TABLES[table].model_fields) | (set(known_options) if table == "method" else set())
        for key, value in content.items():
            if key not in known:
                rule = f"is no key of [{table}]" + (f" for {name}" if table == "method" else "")
                raise FedtierError(f"{table}.{key}", value, rule, nearest(key, known))
    given = tables.get("method", {})
    tables["method"] = registry.defaults(name, given) | given if known_options else given
    try:
        config = Config.model_validate(tables)
    except pydantic.ValidationError as error:
        raise _refusal(error) from None
    registry.make(config.method.name, _NO_PROBLEM, config.method.options)
    _check_together(config)
    return config


def _check_together(config: Config) -> None:
    data, method, run = config.data, config.method, config.run
    for name, value in (("method.radius", method.radius), ("run.tau", run.tau)):
        for one in value if isinstance(value, list) else [value]:
            require(one is None or 0 <= one < float("inf"), name, value, "must be finite and at least 0")
        if isinstance(value, list) and data.partition != "natural":  # whose number of clients only the data tell
            require(len(value) == data.clients, name, value, f"must have one number for each of the {data.clients} clients")
    if method.name in ("zo_hfl", "server_only", "local_only"):
        hint = "it is for fedavg, fedprox and scaffold"
        require(not method.server_seat, "method.server_seat", True, f"{method.name} needs no seat for the server's data", hint)
    if data.name == "file":
        require(data.file is not None, "data.file", None, "must name your file", 'data.file = "rows.csv"')


def read_toml(file: Path) -> dict[str, Any]:
    """The tables of a TOML file, unchecked."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FedtierError("FILE", str(file), "is not there", "give the path of a TOML file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FedtierError("FILE", str(file), f"cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        hint = "strings need quotes, tables are [data] [model] ..."
        raise FedtierError("FILE", str(file), f"is not TOML: {error}", hint) from None


def _parse_setting(setting: str) -> tuple[str, str, Any]:
    path, equals, text = setting.partition("=")
    table, dot, key = path.strip().partition(".")
    require(bool(equals and dot and key), "--set", setting, "must read table.key=value", "for example --set data.alpha=1")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a text
    return table, key, value


def _lists(content: dict[str, Any]) -> dict[str, Any]:
    """Whole numbers stand for floats inside lists too, where a strict check would refuse them."""

    def number(v: Any) -> Any:
        return float(v) if isinstance(v, int) and not isinstance(v, bool) else v

    return {key: [number(v) for v in value] if isinstance(value, list) else value for key, value in content.items()}


def _refusal(error: pydantic.ValidationError) -> FedtierError:
    first = error.errors()[0]
    table, key = (str(part) for part in first["loc"][:2])
    default = TABLES[table].model_fields[key].default
    rule = first["msg"][0].lower() + first["msg"][1:].replace("Input", "it")
    return FedtierError(f"{table}.{key}", first["input"], rule.replace("input should", "must"), f"the default is {default!r}")


_NO_PROBLEM = Bilevel(f1=lambda x, rows: 0.0, f2=lambda x, y, spec: 0.0, h=lambda x, y, rows, spec: 0.0)  # pyright: ignore[reportArgumentType]
