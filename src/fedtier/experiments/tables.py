"""The tables of a configuration: every key with its meaning, its default and the values it may have.

    [data]  what rows there are and who has them        [method]  how it is solved, and the problem's penalty and limits
    [model] what is trained                             [run]     how long, with whom, from which seed
    [attack] which clients send wrong replies, in a simulation      [privacy] how much may become known of clients or rows
    [clients] models of their own, of any kind

The options of a method are its flat keys (`fedtier methods`); they stand in [method] beside the keys below.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import pydantic
import tomli_w
from pydantic import ConfigDict

from ..datasets import OPTIONS, SETS
from ..methods import ProjectedSgd, registry
from ..own_code import by_path
from ..own_code.held import is_elsewhere, marked, value_of
from ..own_code.naming import is_own, short
from .toml import Table, described

Share = float
Word = pydantic.InstanceOf[str]  # a name, or "FILE.py:NAME"; kept as it is given, so that an object may ride along
CLOCK = ("speed_spread", "step_seconds", "latency")
LINEAR_MODELS = ("linear", "softmax")
MODELS = (*LINEAR_MODELS, "logistic", "mlp", "cnn", "lenet", "pfl_cnn", "zo_cnn", "zo_cnn_wide", "residual")


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
        False,
        "Whether training steps, the clients' and the server's, see images cut out at random (4 pixels either way) and "
        "mirrored at random.",
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
    precision: Literal["full", "half"] = described(
        "full",
        "half: local steps in bfloat16, three digits: faster on a GPU, slower on a CPU; parameters and scores stay full.",
        example="half",
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
    personal_scales: list[float] = described(
        [1.0], "Factors on method.fine_tune among which each client chooses by these rows of its own (run.personal_check), "
        "beside the global model: steps that fit every client need not be searched.", example=[0.1, 0.3, 1.0, 3.0, 10.0],
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
    delta: float = described(
        1e-5, "The chance of saying more than epsilon; below 1/clients, for rows below 1/rows.", example=1e-6, gt=0, lt=1
    )
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
    ("run", "magnitude"), ("run", "personal_check"), ("run", "personal_scales"), ("privacy", "by_rows"),
    ("privacy", "public_sizes"), ("model", "precision"),
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
