"""run.toml: an ordinary configuration and a table [wire], which says between whom it runs and when a round counts.

[wire]
sites = ["north", "south", "west"]    # client i is sites[i]
server = "server.csv"                 # the server's own rows: a table, an .npz or a folder of images
test = "test.csv"                     # rows that judge the global model; they stay at the server too
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pydantic
from pydantic import Field

from .. import datasets as data_sets
from ..errors import NOTHING, FedtierError, nearest, require
from ..experiments import config as configuration
from ..experiments.config import Config, Table
from ..protocol import Rules


class WireTable(Table):
    sites: list[str] = Field(min_length=1)
    server: str
    test: str
    label: str = "label"
    labels: list[str] = Field(default=[])  # all classes in order, where the server's own rows lack some
    preparation: str | None = None  # a preparation.json to use, instead of one fitted to the server's own rows
    start: int | None = None  # sites that must answer before the first round; none = all
    quorum: float = 0.5
    deadline: float = 60.0
    magnitude: float = 1e4

    @property
    def rules(self) -> Rules:
        return Rules(self.start or len(self.sites), self.quorum, self.deadline, self.magnitude)


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
    wire.rules.check(len(wire.sites))
    data = {"clients": len(wire.sites)} | tables.get("data", {})
    tables["data"] = data if "name" in data else {"name": "file", "file": wire.server} | data
    tables["method"] = {"server_seat": False} | tables.get("method", {})  # the wire has none
    config = configuration.validate(tables)
    _fits(config, wire)
    return WireRun(config, wire, file.parent)


def _fits(config: Config, wire: WireTable) -> None:
    clients = config.data.clients
    require(clients == len(wire.sites), "data.clients", clients, f"there are {len(wire.sites)} names in wire.sites")
    require(config.run.seeds == 1, "run.seeds", config.run.seeds, "must be 1 between sites", "one run, one seed")
    labelled = config.data.name not in data_sets.UNLABELLED
    require(labelled, "data.name", config.data.name, "has no labelled rows to share out among sites")
    rule = "the wire has no seat for the server's rows"
    require(not config.method.server_seat, "method.server_seat", True, rule, "use zo_hfl, which takes them in as f1")


def checked(name: str, kind: type[Any], given: dict[str, Any]) -> Any:
    """`given` as a table of this kind; the first thing wrong with it as FedtierError."""
    for key, value in given.items():
        if key not in kind.model_fields:
            raise FedtierError(f"{name}.{key}", value, f"is no key of [{name}]", nearest(key, kind.model_fields))
    try:
        return kind.model_validate(given)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        shown = NOTHING if first["type"] == "missing" else first["input"]
        raise FedtierError(f"{name}.{key}", shown, first["msg"][0].lower() + first["msg"][1:]) from None
