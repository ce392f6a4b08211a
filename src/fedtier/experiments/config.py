"""Configurations: tables of words, checked whole before any work starts.

    [data]  what rows there are and who has them        [method]  how it is solved, and the problem's penalty and limits
    [model] what is trained                             [run]     how long, with whom, from which seed
    [attack] which clients send wrong replies, in a simulation      [privacy] how much may become known of clients or rows
    [clients] models of their own, of any kind

The options of a method are its flat keys (`fedtier methods`); they stand in [method] beside the keys below.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import pydantic
import tomli_w
from pydantic import BaseModel, ConfigDict, Field

from ..datasets import NAMES, OPTIONS, SETS, who_takes
from ..errors import NOTHING, FedtierError, called, choice, nearest, require
from ..methods import Method, ProjectedSgd, registry
from ..methods.flat import KEYS_OF_PARTS
from ..own_code import by_path
from ..own_code.by_path import is_own, short
from ..own_code.held import is_elsewhere, is_object, marked, value_of
from ..own_code.own_models.words import maker_of
from . import judges
from .privacy_rules import check_privacy

Share = float
RENAMED = {"method.cohort": "method.remembered", "method.estimates": "method.remembered"}  # keys of earlier versions
Word = pydantic.InstanceOf[str]  # a name, or "FILE.py:NAME"; kept as it is given, so that an object may ride along
CLOCK = ("speed_spread", "step_seconds", "latency")
LINEAR_MODELS = ("linear", "softmax")
MODELS = (*LINEAR_MODELS, "logistic", "mlp", "cnn", "lenet", "pfl_cnn", "zo_cnn", "zo_cnn_wide", "residual")
DRAWN_ROWS = (
    "test_share",
    "test_seed",
    "test",
    "client_test_share",
    "min_rows",
    "small_clients",
)  # keys of a split that is drawn


def described(default: Any, meaning: str, *, unit: str = "", example: Any = None, **rules: Any) -> Any:
    """A key of a table. The reference of all keys is made from its meaning, unit and example; `rules` are pydantic's."""
    return Field(default=default, description=meaning, examples=[example], json_schema_extra={"unit": unit}, **rules)


class Table(BaseModel):
    """A table of a configuration: keys it does not have are refused, values are taken as they are written."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Data(Table):
    """[data]: what rows there are, and who has them; and the options of a loader of your own."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)  # the rest is checked against the loader's signature
    name: Word = described(
        "digits", 'The data set, by its name; your own where a file is named, or a function: "mine.py:load".', example="mnist"
    )
    folder: str | None = described(
        None,
        "The folder of the publishers' files. Without it FEDTIER_DATA names one, else they are downloaded.",
        example="data",
    )
    file: Word | None = described(
        None, "Your own table (CSV, Parquet, Arrow, .npz; .gz, .zip, .xz too) or folder of images.", example="patients.csv"
    )
    label: str = described("label", "The column of your table that is predicted.", example="outcome")
    owner: str | None = described(
        None, "The column that says whose row it is: clients are then natural; `folder` for FOLDER/OWNER/CLASS/IMAGE.png.",
        example="hospital",
    )  # fmt: skip
    weight: str | None = described(None, "A column that says how much each row counts.", example="weight")
    drop: list[str] = described([], "Columns that are no features.", example=["id"])
    keep: list[str] = described([], "The only columns that are features.", example=["age", "sex"])
    categories: list[str] = described([], "Columns of numbers that are mere codes.", example=["ward"])
    missing: Literal["median", "mean", "zero", "drop", "refuse"] = described(
        "median", "What stands for a missing value; the first three also get a 0/1 column that says so.", example="drop"
    )
    missing_words: list[str] | None = described(
        None, "Texts that stand for a missing label or owner, besides the empty cell; none: NA, none, ? and the like.",
        example=["unknown"],
    )  # fmt: skip
    decimal: Literal["auto", ",", "."] = described(
        "auto", "What stands before decimals where numbers such as 1,234 may be read both ways; auto: as in the other columns.",
        example=",",
    )  # fmt: skip
    max_categories: int = described(
        100, "0/1 columns of a category at most, one for all rarer ones included.", unit="columns", example=20, ge=2
    )
    task: Literal["auto", "classification", "binary", "regression"] = described(
        "auto", "What is predicted: a class, one of two, or a number; auto: by the label.", example="regression"
    )
    header: bool = described(True, "Whether a text file names its columns.", example=False)
    partition: Literal["dirichlet", "iid", "classes", "labels", "pathological", "quantity", "natural"] = described(
        "dirichlet",
        "How rows are dealt to clients: unequal shares of each class, at random, few classes each (in shards; labels: as in "
        "NIID-Bench; pathological: as in PFLlib), unequal numbers, by owner.",
        example="natural",
    )
    clients: int = described(
        10, "How many clients there are; with natural owners the data decide.", unit="clients", example=20, ge=1
    )
    alpha: float = described(
        0.1, "Dirichlet's parameter: the smaller, the more clients differ; 1000 makes them alike.", example=1.0, gt=0
    )
    balance: bool = described(
        False,
        "With dirichlet: a client that has its equal part of the rows gets none of the classes that follow.",
        example=True,
    )
    min_rows: int | None = described(
        None, "Rows that every client must have; none: 2, or 1 without client tests.", unit="rows", example=20, ge=1
    )
    small_clients: Literal["refuse", "drop", "merge"] = described(
        "refuse", "What becomes of natural owners who have fewer.", example="drop"
    )
    rows: int | None = described(None, "Rows of each client, for synthetic and quadratic.", unit="rows", example=100, ge=1)
    features: int | None = described(None, "Columns of a row, for synthetic and quadratic.", unit="columns", example=20, ge=1)
    classes: int | None = described(None, "Classes, for synthetic.", unit="classes", example=5, ge=2)
    spread: float | None = described(
        None, "How far clients lie apart, for synthetic and quadratic; 0: alike.", example=1.0, ge=0
    )
    image_size: int | None = described(None, "Side that a folder of images is resized to.", unit="pixels", example=32, ge=1)
    classes_per_client: int = described(
        2, "Classes of each client, with partition = classes, labels or pathological.", unit="classes", example=3, ge=1
    )
    server_share: Share = described(
        0.3, "The server's part of the rows that are not test rows; 0: none.", unit="share", example=0.1, ge=0, lt=1
    )
    server_copy: str | None = described(
        None, "Gives the server a copy of the training rows of this owner, or of all: for fed-heart-disease.", example="all"
    )
    test_share: Share = described(
        0.1, "The part of all rows that judges the global model; 0: only the clients' own test rows judge.", unit="share",
        example=0.2, ge=0, lt=1,
    )  # fmt: skip
    test: Literal["drawn", "published"] = described(
        "drawn", "The rows that judge the global model: drawn, or the test set of an image set's publisher.",
        example="published",
    )  # fmt: skip
    pixels: Literal["standard", "unit", "signed"] = described(
        "standard", "How a model sees the pixels of an image set: mean 0 and deviation 1, from 0 to 1, or from -1 to 1.",
        example="unit",
    )  # fmt: skip
    test_seed: int | None = described(
        None, "Draws the same test rows for every run.seed; without it each seed draws its own.", example=0, ge=0
    )
    validation_share: Share = described(
        0.0, "Above 0, models are judged on this part of the training rows instead of the test rows.", unit="share",
        example=0.2, ge=0, lt=1,
    )  # fmt: skip
    client_test_share: Share = described(
        0.2, "The part of each client's rows that is held back to judge its models.", unit="share", example=0.3, ge=0, lt=1
    )

    new_clients: Share = described(
        0.0, "The part of the clients that never train: each gets a model at the end, and is measured apart.", unit="share",
        example=0.2, ge=0, lt=1,
    )  # fmt: skip

    augment: bool = described(
        False, "Whether the clients' local steps see images cut out at random (4 pixels either way) and mirrored at random.",
        example=True,
    )  # fmt: skip

    @pydantic.model_validator(mode="before")
    @classmethod
    def implied(cls, given: Any) -> Any:
        """A file is the data that is meant; an owner, or a set whose rows have owners, means natural clients."""
        if not isinstance(given, dict):
            return given
        name = given.get("name", "digits" if given.get("file") is None else "file")
        natural = given.get("owner") is not None or (name in SETS and SETS[name].natural)
        split = {"server_share": 0.0} if name in SETS and SETS[name].split else {}
        return {"name": name} | ({"partition": "natural"} if natural else {}) | split | given

    @property
    def split(self) -> bool:
        """Whether the publisher says who has which rows."""
        return self.name in SETS and SETS[self.name].split

    @property
    def central(self) -> bool:
        """Whether the server has rows."""
        return self.server_share > 0 or self.server_copy is not None

    @property
    def title(self) -> str:
        """What the data are called in words: the file, or the set."""
        return short(self.name if self.file is None else Path(self.file).name)

    @property
    def takes(self) -> tuple[str, ...]:
        """The options of its loader."""
        if not is_own(self.name):
            return OPTIONS[self.name]
        if is_elsewhere(self.name):
            return tuple(OPTIONS["file"])
        return (*by_path.signature_of("data.name", self.name).options, *(key for key in OPTIONS["file"] if key != "file"))


class ModelTable(Table):
    """[model]: what is trained; and the options of a model of your own."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)  # the rest is checked against the model's signature
    name: Word = described(
        "linear",
        "linear or softmax regression, logistic: one logit for two classes, mlp: a net of dense layers, cnn: a small "
        "convolutional net for images, lenet: that of NIID-Bench, pfl_cnn: that of PFLlib, zo_cnn and zo_cnn_wide: "
        "those of DeComFL, residual: a small residual net with "
        'group normalisation; or a function of your own: "net.py:make".',
        example="mlp",
    )
    bias: bool = described(True, "An intercept in every layer; the paper has none.", example=False)
    hidden: int = described(64, "Width of a hidden layer of mlp.", unit="numbers", example=128, ge=1)
    depth: int = described(1, "Hidden layers of mlp.", unit="layers", example=2, ge=1)
    loss: Literal["auto", "cross_entropy", "squared", "huber"] = described(
        "auto", "The loss; auto: cross entropy for classes, else the squared error.", example="huber"
    )
    huber_width: float = described(
        1.0, "Errors beyond this count linearly, with loss = huber.", unit="deviations of the label", example=2.0, gt=0,
        allow_inf_nan=False,
    )  # fmt: skip


class MethodTable(Table):
    """[method]: how it is solved; the keys below and the options of the method itself."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)  # the rest is checked against the method's own options
    name: Word = described("zo_hfl", 'The method, by its name, or a function of your own: "my.py:method".', example="scaffold")
    preset: Literal["recommended", "paper"] = described(
        "recommended", "Where the keys come from that are left out: our advice, or the method's paper.", example="paper"
    )
    problem: Word | None = described(
        None, 'A problem of your own, "mine.py:problem": a function of the loss; none: the loss, penalty and proximity.',
        example="mine.py:problem",
    )  # fmt: skip
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
    server_seat: bool | None = described(
        None, "Gives the server's rows to one more client; none: wherever the method can and there are some.", example=False
    )
    pretrain: int = described(0, "Steps on the server's rows before round 0.", unit="steps", example=1000, ge=0)
    pretrain_lr: float = described(0.1, "The size of these steps.", unit="step size", example=0.01, gt=0, allow_inf_nan=False)

    @property
    def entry(self) -> registry.Entry:
        """The method's row: of the registry, or of the user's own."""
        return by_path.entry_of(self.name)

    @property
    def options(self) -> dict[str, Any]:
        """What the method itself takes; parts that a program has given as the objects they are."""
        entry = self.entry
        given = self._given({*registry.options(entry), *registry.part_names(entry)})
        return {key: value for key, value in given.items() if not (key == "local" and value is self.solver)}

    @property
    def solver(self) -> Callable[..., Any] | None:
        """The black box that a program gives as `local`, in place of our local steps: see `black_box`."""
        local = self._given({"local"}).get("local")
        return local if callable(local) and not isinstance(local, ProjectedSgd) else None

    @property
    def problem_options(self) -> dict[str, Any]:
        """What a problem of one's own takes."""
        return {} if self.problem is None else self._given(by_path.problem_options(self.problem))

    def _given(self, known: Iterable[str]) -> dict[str, Any]:
        every = {key: getattr(self, key) for key in MethodTable.model_fields} | dict(self.model_extra or {})
        return {key: value_of(f"method.{key}", value) for key, value in every.items() if key in known}


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
    local_steps: int | None = described(
        None, "Local steps of every client in every round, in place of tau.", unit="steps", example=100, ge=1
    )
    epochs: float | None = described(
        None, "Local steps as so many times a client's rows, in place of tau: epochs ceil(rows/method.batch).", unit="epochs",
        example=10.0, gt=0, allow_inf_nan=False,
    )  # fmt: skip
    personal_steps: int | None = described(
        None, "Local steps from which a personal model is made when it is measured; none: as many as in a round; 0: it is "
        "measured as it is.", unit="steps", example=0, ge=0,
    )  # fmt: skip
    order: Literal["drawn", "cycle", "poisson"] = described(
        "drawn", "Who is asked in a round: clients at random, or in turn, each once before anyone is asked again, or each by a "
        "coin of its own, so that cohorts differ in size.", example="cycle",
    )  # fmt: skip
    stragglers: Share = described(
        0.0, "The part of a cohort that is too slow and makes no step.", unit="share", example=0.1, ge=0, le=1
    )
    dropouts: Share = described(0.0, "The part of the replies that is lost.", unit="share", example=0.1, ge=0, lt=1)
    speed_spread: float | None = described(
        None, "Turns on a virtual clock: the slowest client may take so many times as long as the fastest; none: no clock, "
        "and in asynchronous methods all are equally fast.", example=10.0, ge=1, allow_inf_nan=False,
    )  # fmt: skip
    step_seconds: float = described(
        1.0, "Virtual time of a local step at the fastest client.", unit="virtual seconds", example=0.1, gt=0,
        allow_inf_nan=False,
    )  # fmt: skip
    latency: float = described(
        0.0, "Virtual time of both messages of a client.", unit="virtual seconds", example=5.0, ge=0, allow_inf_nan=False
    )
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
    metrics: list[Word] = described(
        [], 'Metrics of the final models beside the usual ones, in words or as a function of your own: "my.py:cost".',
        example=["auc", "log_loss"],
    )  # fmt: skip
    keep_personal: float = described(
        1.0, "Personal models are kept in the run's bundle where all of them fit into this; 0: never.", unit="GiB",
        example=10.0, ge=0, allow_inf_nan=False,
    )  # fmt: skip
    personal_check: Share = described(
        0.0, "The part of a client's rows by which it chooses between its personal model and the global one, or, with codistil "
        "and fedmd, what it takes of the others beside a model that has learnt alone; 0: it always has the personal one.",
        unit="share", example=0.2, ge=0, lt=1,
    )  # fmt: skip
    magnitude: float = described(
        1e4, "A reply longer than so many times the median of late is lost; 1e30: none is, for its length.", example=100.0,
        gt=1, allow_inf_nan=False,
    )  # fmt: skip


class AttackTable(Table):
    """[attack]: which clients send wrong replies, in a simulation."""

    kind: Literal["none", "labels", "signs", "large", "noise"] = described(
        "none",
        "What attackers do: train on flipped labels, send the reply with the other sign, many times the reply, or noise.",
        example="signs",
    )
    share: Share = described(
        0.2, "The part of the clients that attack; each seed draws its own, attack.json names them.", unit="share",
        example=0.4, ge=0, lt=0.5,
    )  # fmt: skip
    scale: float | None = described(
        None, "The factor on what they send; none: 1 for signs, 10 for large and noise.", example=100.0, gt=0,
        allow_inf_nan=False,
    )  # fmt: skip


class PrivacyTable(Table):
    """[privacy]: what is done to what leaves a client, and how much may become known."""

    kind: Literal["none", "clients", "rows"] = described(
        "none",
        "What is protected: nothing, whole clients (replies are clipped and noise is added to their sum), or single rows "
        "(gradients of local steps are clipped row by row and get noise). Clients then count alike, whatever rows they have.",
        example="clients",
    )
    place: Literal["central", "distributed", "local"] = described(
        "central", "Who adds the noise for clients: the server to the sum, the clients together, or each client for itself.",
        example="local",
    )  # fmt: skip
    epsilon: float | None = described(
        None, "The budget: what may become known in all rounds. Sets the noise; with noise given too, ends the run.",
        example=8.0, gt=0, allow_inf_nan=False,
    )  # fmt: skip
    delta: float = described(1e-5, "The chance of saying more than epsilon; below 1/clients.", example=1e-6, gt=0, lt=1)
    noise: float | None = described(
        None, "Deviation of the noise on a sum in units of the clip; none: what epsilon allows.", unit="clips", example=4.0,
        gt=0, allow_inf_nan=False,
    )  # fmt: skip
    by_rows: dict[str, float] = described(
        {}, "Under privacy of rows, the noise of clients with at least so many rows; empty: what epsilon asks of each. Written "
        "by a run, too.", unit="clips", example={"30": 4.0, "200": 1.5},
    )  # fmt: skip
    public_sizes: bool = described(
        False, "Under privacy of rows: may numbers of rows be known? Replies are weighted by them then; else all count alike.",
        example=True,
    )  # fmt: skip
    calibrated: bool = described(
        False, "Written by a run: its noise was found for epsilon when it began, and stays.", example=True
    )
    clip: float = described(
        1.0, "The length to which a reply, or a row's gradient, is shortened; where it adapts, the first one.", unit="length",
        example=0.1, gt=0, allow_inf_nan=False,
    )  # fmt: skip
    adaptive: float | None = described(
        None, "Lets the clip follow this quantile of the replies' lengths; none: it stays.", unit="share", example=0.5, gt=0,
        lt=1,
    )  # fmt: skip
    quorum: Share = described(
        1.0, "The part of a cohort whose distributed noise suffices: 0.8 bears that a fifth of the replies is lost.",
        unit="share", example=0.8, gt=0, le=1,
    )  # fmt: skip
    accountant: Literal["auto", "pld", "rdp"] = described(
        "auto", "How epsilon is bounded: by privacy loss distributions, by Rényi divergences; auto: the tightest that applies.",
        example="rdp",
    )  # fmt: skip


class ClientsTable(Table):
    """[clients]: which model each client has, where it is not the one that the server trains."""

    models: list[Word] = described(
        [], "A model of its own for each client, of any kind, or one for all; none: the server's.",
        example=["sklearn:RandomForestClassifier(n_estimators=50)", "jax:mlp(hidden=32)", "program:./closed"],
    )  # fmt: skip


class Config(Table):
    """A whole configuration: the tables."""

    data: Data = Data()
    model: ModelTable = ModelTable()
    method: MethodTable = MethodTable()
    run: RunTable = RunTable()
    attack: AttackTable = AttackTable()
    privacy: PrivacyTable = PrivacyTable()
    clients: ClientsTable = ClientsTable()

    def toml(self) -> str:
        """Every key with its value, defaults included; reads back as the same configuration."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))

    def digest(self, *, endless: bool = False) -> str:
        """Twelve letters for what determines the rows of metrics: what is saved of a run and where its data lie do not.
        `endless`: nor does how long it lasts, so that a run may be extended."""
        content = self.model_dump()
        if endless:
            content["run"].pop("rounds")
        content["run"].pop("checkpoint_every")
        content["run"].pop("keep_personal")
        for table, key in LATER:
            if content[table][key] == TABLES[table].model_fields[key].default:
                content[table].pop(key)
        if self.attack.kind == "none":
            content.pop("attack")
        if self.privacy.kind == "none":
            content.pop("privacy")
        elif content["privacy"].pop("calibrated"):
            content["privacy"]["noise"] = None  # epsilon says it
            content["privacy"].pop("by_rows", None)
        if not self.clients.models:  # likewise
            content.pop("clients")
        for key in CLOCK:  # likewise
            if content["run"][key] == RunTable.model_fields[key].default:
                content["run"].pop(key)
        content["data"].pop("folder")
        tables = {name: {key: marked(value) for key, value in table.items()} for name, table in content.items()}
        return hashlib.sha256(repr(sorted((k, sorted(v.items())) for k, v in tables.items())).encode()).hexdigest()[:12]


LATER = (
    ("data", "new_clients"), ("data", "augment"), ("run", "metrics"), ("data", "server_copy"), ("run", "local_steps"),
    ("run", "order"), ("data", "balance"), ("data", "test"), ("data", "pixels"), ("run", "epochs"), ("run", "personal_steps"),
    ("run", "magnitude"), ("run", "personal_check"), ("privacy", "by_rows"), ("privacy", "public_sizes"),
)  # fmt: skip
"""Keys that stand in a digest only where they are set: runs from before there were such keys keep theirs."""
TABLES: dict[str, type[Table]] = {
    "data": Data, "model": ModelTable, "method": MethodTable, "run": RunTable, "attack": AttackTable,
    "privacy": PrivacyTable,
    "clients": ClientsTable,
}  # fmt: skip


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


def read_written(file: Path) -> Config:
    """A configuration that a run wrote: it was checked then, and names of the user's code are not looked up."""
    try:
        return Config.model_validate({table: _lists(content) for table, content in read_toml(file).items()})
    except pydantic.ValidationError as error:
        raise _refusal(error) from None


def validate(tables: dict[str, Any]) -> Config:
    """The checked configuration; the first thing wrong with it as FedtierError."""
    for table, content in tables.items():
        if table not in TABLES:
            raise FedtierError(table, NOTHING, "is no table of a configuration", nearest(table, TABLES))
        require(isinstance(content, dict), table, content, "must be a table", f"write [{table}] and its keys below it")
    tables = {table: _lists(dict(content)) for table, content in tables.items()}
    for table, content in tables.items():
        known = {*TABLES[table].model_fields, *_own_keys(table, content)}
        for key, value in content.items():
            if key not in known:
                of = f" for {content.get('name', 'zo_hfl')}" if table == "method" else ""
                now = RENAMED.get(f"{table}.{key}")
                hint = f"it is called {now} now" if now else nearest(key, known)
                raise FedtierError(f"{table}.{key}", value, f"is no key of [{table}]{of}", hint)
    given = tables.get("method", {})
    tables["method"] = _method_keys(given)
    if is_own(tables.get("model", {}).get("name")):
        tables["model"] = _declared(by_path.model_options(tables["model"]["name"])) | tables["model"]
    try:
        config = Config.model_validate(tables)
    except pydantic.ValidationError as error:
        raise _refusal(error) from None
    method = _made(config, given)
    if config.method.solver is not None:
        names = ", ".join(registry.names_with("foreign"))
        require(method.foreign, "method.local", given["local"], f"cannot take the place of {method.name}'s own steps", names)
        share, rule = config.data.new_clients, "cannot be measured with a black box: nobody calls it for them"
        require(not share, "data.new_clients", share, rule, "leave it out")
    _check_own_models(config)
    _check_together(config)
    _check_clock(config, method)
    check_privacy(config.privacy, config, method)
    return _seated(config, method)


def _check_own_models(config: Config) -> None:
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


def _own_keys(table: str, content: dict[str, Any]) -> set[str]:
    """The keys of a table beside its fields: the options of the method, of a problem, model or loader of one's own."""
    name = content.get("name")
    if table == "method":
        with called({"name": "method.name"}):
            entry = by_path.entry_of(name) if isinstance(name, str) else registry.entry("zo_hfl")
        problem = content.get("problem")
        options = by_path.problem_options(problem) if isinstance(problem, str) else ()
        return {*registry.options(entry), *registry.part_names(entry), *options}
    if not isinstance(name, str) or not is_own(name):
        return set()
    if table == "model":
        return set(by_path.model_options(name))
    if table == "data" and not is_elsewhere(name):
        return set(by_path.signature_of("data.name", name).options)
    return set()


def _made(config: Config, given: dict[str, Any]) -> Method:
    """The method without its problem; a refusal of a key that the preset has set says where it comes from."""
    try:
        with called({key: f"method.{key}" for key in (*registry.options(config.method.entry), *KEYS_OF_PARTS)}):
            return registry.sketch(config.method.entry, config.method.options)
    except FedtierError as error:
        if error.name.removeprefix("method.") in given:
            raise
        hint = f"it comes from method.preset = {config.method.preset!r}: set it too, or another preset; {error.hint}"
        raise FedtierError(error.name, error.value, error.rule, hint.removesuffix("; ")) from None


def _method_keys(given: dict[str, Any]) -> dict[str, Any]:
    """All keys of [method]: those of the preset, with the given ones on top. A key changes itself and nothing else, but that
    what cannot stand beside it gives way in the recommended preset (`preset_words` says so). A part that a program gives
    whole stands in place of its keys."""
    name, preset = given.get("name", "zo_hfl"), given.get("preset", "recommended")
    if not isinstance(name, str) or preset not in registry.PRESETS:
        return given  # refused by the table
    problem = given.get("problem")
    of_problem = _declared(by_path.problem_options(problem)) if isinstance(problem, str) else {}
    if is_own(name):
        return _declared(registry.options(by_path.entry_of(name))) | of_problem | given
    replaced: dict[str, str] = {}
    for part, keys in KEYS_OF_PARTS.items():
        if is_object(given.get(part)):
            replaced |= dict.fromkeys((key for key in keys if key != part), part)
    for key, part in replaced.items():
        hint = f"give it to the part, or leave {part} out"
        require(key not in given, f"method.{key}", given.get(key), f"belongs to the part {part}, which is given whole", hint)
    defaults = registry.defaults(name, preset, given)
    return {key: value for key, value in defaults.items() if key not in replaced} | of_problem | given


def preset_words(config: Config) -> list[str]:
    """Where the recommended preset gives way to a key of the configuration: a line for each such key."""
    method = config.method
    if method.preset != "recommended" or is_own(method.name):
        return []
    advised, options, lines = registry.defaults(method.name, "recommended"), method.options, []
    for key in method.entry.gives_way:
        instead = {k: v for k, v in registry.given_way(method.name, {key: options[key]}).items() if options[k] == v}
        if instead:
            now = ", ".join(f"{k} = {json.dumps(v)} in place of {json.dumps(advised[k])}" for k, v in instead.items())
            lines.append(f"method.{key} = {json.dumps(options[key])}: the recommended preset gives way, {now}")
    return lines


def _declared(options: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """What a function of one's own takes where no key says otherwise."""
    return {key: option.default for key, option in options.items()}


def _seated(config: Config, method: Method) -> Config:
    """With method.server_seat said, one way or the other: by default every method sees the server's rows."""
    seat, rows = config.method.server_seat, config.data.central
    if seat:
        hint = "it uses the server's rows anyway, or no rows but a client's own"
        require(method.seat, "method.server_seat", True, f"{method.name} has no seat for the server's rows", hint)
        require(rows, "method.server_seat", True, "there are no rows at the server", "raise data.server_share")
    plain = config.privacy.kind != "clients" and config.run.order != "poisson"  # the server's rows are no client's
    require(not seat or plain, "method.server_seat", True, "the server is no client: not with privacy or coins", "false")
    resolved = method.seat and rows and plain if seat is None else seat
    return config.model_copy(update={"method": config.method.model_copy(update={"server_seat": resolved})})


def solves(config: Config) -> int:
    """Local solves of a client in a round; 0 where clients do nothing."""
    return registry.sketch(config.method.entry, config.method.options).solves


def _check_together(config: Config) -> None:
    data, method, run = config.data, config.method, config.run
    for name, value in (("method.radius", method.radius), ("run.tau", run.tau)):
        for one in value if isinstance(value, list) else [value]:
            require(one is None or 0 <= one < float("inf"), name, value, "must be finite and at least 0")
        if isinstance(value, list) and data.partition != "natural":  # whose number of clients only the data tell
            require(len(value) == data.clients, name, value, f"must have one number for each of the {data.clients} clients")
        rule = "must be one number where there are new clients (data.new_clients)"
        require(not (isinstance(value, list) and data.new_clients), name, value, rule)
    if not is_own(config.model.name):
        choice("model.name", config.model.name, MODELS)
    both = run.epochs is not None and run.local_steps is not None
    require(not both, "run.epochs", run.epochs, "says what run.local_steps says", "leave out one of the two")
    judges.check_names(run.metrics)
    _check_data(data)
    _check_server(config)
    _check_linear(config)
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


def _check_clock(config: Config, method: Method) -> None:
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


def read_toml(file: Path) -> dict[str, Any]:
    """The tables of a TOML file, unchecked; files of the user's code are looked for here first, then beside the file."""
    try:
        return _anchored(tomllib.loads(file.read_text(encoding="utf-8")), file.parent)
    except FileNotFoundError:
        raise FedtierError("FILE", str(file), "is not there", "give the path of a TOML file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FedtierError("FILE", str(file), f"cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        hint = "strings need quotes, tables are [data] [model] ..."
        raise FedtierError("FILE", str(file), f"is not TOML: {error}", hint) from None


def _anchored(content: Any, folder: Path) -> Any:
    if isinstance(content, dict):
        return {key: _anchored(value, folder) for key, value in content.items()}
    return [_anchored(one, folder) for one in content] if isinstance(content, list) else by_path.anchored(content, folder)


def _parse_setting(setting: str) -> tuple[str, str, Any]:
    path, equals, text = setting.partition("=")
    table, dot, key = path.strip().partition(".")
    hint = f"--set {_with_table(path.strip())}={text}" if equals and not dot else "for example --set data.alpha=1"
    require(bool(equals and dot and key), "--set", setting, "must read table.key=value", hint)
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a text
    return table, key, value


def _with_table(key: str) -> str:
    """A key with the table that has it; with TABLE where none has, or several."""
    keys = {table: {*kind.model_fields} for table, kind in TABLES.items()}
    keys["method"] |= {option for method in registry.METHODS for option in registry.options(method)}
    tables = [table for table, known in keys.items() if key in known]
    return f"{tables[0]}.{key}" if len(tables) == 1 else f"TABLE.{key}"


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
    hint = f"the default is {default!r}"
    if first["type"] == "list_type" and isinstance(first["input"], str):
        listed = json.dumps([word.strip() for word in first["input"].split(",")])
        hint = f"{key} = {listed}; on the command line --set '{table}.{key}={listed}'"
    return FedtierError(f"{table}.{key}", first["input"], rule.replace("input should", "must"), hint)
