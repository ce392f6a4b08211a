"""run.toml: an ordinary configuration and a table [wire], which says between whom it runs and when a round counts.

[wire]
sites = ["north", "south", "west"]    # client i is sites[i]
server = "server.csv"                 # the server's own rows: a table, an .npz or a folder of images
test = "test.csv"                     # rows that judge the global model; they stay at the server too
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from .. import datasets as data_sets
from ..errors import NOTHING, called, require
from ..experiments import config as configuration
from ..experiments.tables import Config, RunTable
from ..experiments.toml import Table, checked, described
from ..methods import registry
from ..own_code.naming import is_own
from ..protocol import Rules
from .masks import fit_privacy


class WireTable(Table):
    """[wire]: between whom a run takes place, and when a round counts."""

    sites: list[str] = described(
        ..., "The sites' names; client i is the i-th.", example=["north", "south", "west"], min_length=1
    )
    server: str = described(..., "The server's own rows: .npz, .csv, .parquet or a folder of images.", example="server.csv")
    test: str = described(..., "Rows that judge the global model; they stay at the server too.", example="test.csv")
    label: str = described("label", "The column that is predicted, in both files.", example="outcome")
    labels: list[str] = described([], "All classes in order, where the server's own rows lack some.", example=["no", "yes"])
    preparation: str | None = described(
        None, "A preparation.json to use, instead of one fitted to the server's own rows.", example="preparation.json"
    )
    evaluate: str | None = described(
        None, "A bundle whose model is measured at the sites; nothing is trained. `serve --evaluate` sets it.", example="bundle"
    )
    start: int | None = described(None, "Sites that must answer before round 0; none: all.", unit="sites", example=2)
    quorum: float = described(0.5, "The part of a round's replies without which it is asked again.", unit="share", example=1.0)
    deadline: float = described(60.0, "How long a round waits for its replies.", unit="seconds", example=300.0)
    magnitude: float = described(1e4, "A reply longer than so many times the median of late is refused.", example=100.0)
    max_staleness: int = described(
        100, "Of a method without rounds: an answer to an older broadcast is refused.", unit="steps", example=10, ge=0
    )

    masked: bool = described(
        False, "Replies are masked: the server learns the sum over a round's sites, and no site's own. For methods of sums.",
        example=True,
    )  # fmt: skip
    threshold: int | None = described(
        None, "Of masked replies: sites without which nothing is unmasked, above half of a round's; none: two thirds.",
        unit="sites", example=3,
    )  # fmt: skip
    range: float = described(
        16.0, "Of masked replies: the largest number, either way; one beyond it is refused at its site.", example=64.0, gt=0,
        allow_inf_nan=False,
    )  # fmt: skip

    max_bytes_per_second: float = described(
        2e8, "What a site may send; one that sends more is read later.", unit="bytes", example=1e7, gt=0
    )
    max_messages_per_second: float = described(
        5e3,
        "FLARE's messages that a site may send, about ten for a letter; one that sends more is read later.",
        example=500.0,
        gt=0,
    )

    @property
    def rules(self) -> Rules:
        return Rules(self.start or len(self.sites), self.quorum, self.deadline, self.magnitude, self.max_staleness)


class WireRun(NamedTuple):
    config: Config
    wire: WireTable
    folder: Path  # that the files in [wire] are named from


def load_run_file(file: Path) -> WireRun:
    """The run in `file`, checked; data files are looked at when the run starts."""
    tables = configuration.read_toml(file)
    given = tables.pop("wire", None)
    require(isinstance(given, dict), "wire", NOTHING, f"is missing in {file}", "[wire] names the sites and the server's rows")
    wire = checked("wire", WireTable, given or {})
    require(len(set(wire.sites)) == len(wire.sites), "wire.sites", wire.sites, "names a site twice")
    with called({key: f"wire.{key}" for key in wire.rules._fields}):
        wire.rules.check(len(wire.sites))
    data = {"clients": len(wire.sites)} | tables.get("data", {})
    tables["data"] = data if "name" in data else {"name": "file", "file": wire.server} | data
    tables["method"] = {"server_seat": False} | tables.get("method", {})  # the wire has none
    config = configuration.validate(tables)
    if buffer_of(config) and "participation" not in tables.get("run", {}):  # every site has a task
        config = config.model_copy(update={"run": config.run.model_copy(update={"participation": 1.0})})
    _fits(config, wire)
    return WireRun(fit_privacy(config, wire), wire, file.parent)


def _fits(config: Config, wire: WireTable) -> None:
    clients = config.data.clients
    require(clients == len(wire.sites), "data.clients", clients, f"there are {len(wire.sites)} names in wire.sites")
    require(config.run.seeds == 1, "run.seeds", config.run.seeds, "must be 1 between sites", "one run, one seed")
    rule = "is a function, but between sites rows come from files: wire.server, wire.test, and each site's data"
    require(not is_own(config.data.name), "data.name", config.data.name, rule, "leave it out")
    labelled = data_sets.SETS[config.data.name].labelled
    require(labelled, "data.name", config.data.name, "has no labelled rows to share out among sites")
    rule = "is a simulation: between sites nobody is told to attack"
    require(config.attack.kind == "none", "attack.kind", config.attack.kind, rule, "leave [attack] out")
    limit = config.run.magnitude
    unset = limit == RunTable.model_fields["magnitude"].default
    require(unset, "run.magnitude", limit, "is for simulations: between sites it is wire.magnitude", "leave it out")
    spread, rule = config.run.speed_spread, "is not read between sites, whose clock is the real one"
    require(spread is None, "run.speed_spread", spread, rule, "leave it out")
    _fits_buffer(config, wire)
    rule = "the wire has no seat for the server's rows"
    require(not config.method.server_seat, "method.server_seat", True, rule, "use zo_hfl, which takes them in as f1")


def _fits_buffer(config: Config, wire: WireTable) -> None:
    """A method without rounds takes answers as they come: nothing is drawn of who works, and who is late or lost."""
    if not buffer_of(config):
        given = wire.max_staleness != WireTable.model_fields["max_staleness"].default
        rule = f"is not read: {config.method.name} has rounds, and no answer is older than its round"
        require(not given, "wire.max_staleness", wire.max_staleness, rule, "leave it out")
        return
    for key, value in (("participation", 1.0), ("stragglers", 0.0), ("dropouts", 0.0), ("step_seconds", 1.0), ("latency", 0.0)):
        rule = f"is for simulations of {config.method.name}: between sites each has a task, and takes the time that it takes"
        require(getattr(config.run, key) == value, f"run.{key}", getattr(config.run, key), rule, f"leave it out, or {value:g}")


def buffer_of(config: Config) -> int:
    return registry.sketch(config.method.entry, config.method.options).buffer
