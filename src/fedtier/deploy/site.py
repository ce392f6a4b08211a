"""A site from its own file: which rows it has, what it is willing to do, who solves.

python -m fedtier.deploy.site SITE.toml STATE KEYS        answers letters on standard input (see `protocol.process`)

KEYS is the file with the site's signing key; what is not signed by the server of the same authority is not answered.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ..compilation import jitted
from ..datasets import Dataset, Preparation
from ..engines.engine import tell_unused_rows
from ..errors import FedtierError, require
from ..experiments import config as configuration
from ..experiments.assemble import Algorithm, algorithm
from ..experiments.budgets import budgeted, most_steps, most_tau
from ..experiments.bundle.about import About
from ..experiments.bundle.bundle import FOLDER, write
from ..experiments.bundle.keep import versions
from ..experiments.bundle.rows import Reading
from ..experiments.metrics import client_scores, quality
from ..experiments.models import recipe_of
from ..experiments.solving import own_learner
from ..experiments.tables import Config
from ..experiments.toml import checked, read_toml
from ..federation import View, count_of, shown_rows
from ..methods import registry
from ..methods.method import Method, Turn
from ..methods.summed import sums_of
from ..own_code.naming import bare, is_own, is_path
from ..own_code.own_models.kept import OWN, Kept, names_in
from ..own_code.own_models.listed import LIST, listed, text_of
from ..problem import Rows, Spec
from ..protocol import (
    Keep,
    Masked,
    Masking,
    Memory,
    Player,
    Record,
    Scores,
    Site,
    SiteSeal,
    answer_letters,
    foreign,
    message_shapes,
    read_identity,
)
from ..protocol.secure.at_site import flat_numbers
from ..storage.files import private_files, write_whole
from .masks import guarded, masking_table, read_masking
from .party import dataset_of, open_rows
from .site_table import COARSE, SiteTable

OWN_CODE = (("method", "name"), ("method", "problem"), ("model", "name"))  # where a run between sites may name code


class Brief(NamedTuple):
    """What the server tells a site of a run: the problem and the method, and the form of the data."""

    tables: dict[str, Any]
    preparation: Preparation
    masking: Masking | None = None  # how replies are masked, where they are

    def text(self) -> str:
        masking = {} if self.masking is None else {"masking": masking_table(self.masking)}
        return json.dumps({"tables": self.tables, "preparation": json.loads(self.preparation.to_json())} | masking)

    @classmethod
    def parse(cls, text: str) -> Brief:
        try:
            content = json.loads(text)
            masking = read_masking(content["masking"]) if "masking" in content else None
            return cls(dict(content["tables"]), Preparation.from_json(json.dumps(content["preparation"])), masking)
        except FedtierError:
            raise
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise FedtierError("brief", f"{len(text)} characters", f"cannot be understood: {error}") from None


def brief_of(config: Config, preparation: Preparation, masking: Masking | None = None) -> Brief:
    """Neither the seed nor the schedule: a site learns what it needs for its own part."""
    content = config.model_dump(exclude_none=True)
    tables = {"model": content["model"], "method": content["method"], "data": {"clients": config.data.clients}}
    if config.run.personal_check:  # a site chooses by its own rows
        tables["run"] = {key: content["run"][key] for key in ("personal_check", "personal_scales")}
    for table, key in OWN_CODE:
        if is_path(tables[table].get(key)):
            tables[table][key] = bare(tables[table][key])  # where the file lies is each party's own business
    if config.privacy.kind != "none":
        tables["privacy"] = content["privacy"]
        tables["run"] = tables.get("run", {}) | {"participation": config.run.participation}
    if config.privacy.kind == "rows":  # what a site's own budget must pay for
        steps = {"tau": most_tau(config)} if config.run.local_steps is None else {"local_steps": config.run.local_steps}
        tables["run"] |= {"rounds": config.run.rounds} | steps
    return Brief(tables, preparation, masking)


def open_site(file: Path, state: Path, keys: Path | None = None) -> Site:
    """The site that `file` describes; what it remembers is in the folder `state`. Between machines `keys` names its signing
    key: only letters of the server count then, and the folder has a record of all that came and went."""
    table = checked("site", SiteTable, read_toml(file))
    data = file.parent / table.data
    require(data.exists(), "site.data", str(data), "is not there", "give the path from the site's file, or an absolute one")
    seal = None if keys is None else SiteSeal(read_identity(keys), keys)
    if seal is not None:
        rule = f"must be {table.name}, as the site's own file says"
        require(seal.identity.party == table.name, "signing key", seal.identity.party, rule)
    memory = Memory(state)
    record = None if seal is None else Record(state)
    return Site(table.name, partial(_player, table, file.parent), memory, table.limits, seal=seal, record=record)


def _player(table: SiteTable, folder: Path, text: str, client: int) -> Player:
    brief = Brief.parse(text)
    config = _limited(configuration.validate(_with_own_code(brief.tables, table, folder)), table, client)
    _check_method(table, config, brief.preparation)
    party = open_rows(folder / table.data, table.label, brief.preparation, table.image_size)
    inputs, labels = party
    held = min(len(labels) - 1, count_of(table.test_share, len(labels)) if table.test_rows is None else table.test_rows)
    train = len(labels) - held
    dataset = dataset_of(table.name, brief.preparation, party)
    config, sizes = _within_budget(config, table, train)
    kept = Kept()
    learner = None if table.model is None else own_learner([_own_model(table.model, folder)], dataset, kept)
    plan = algorithm(config, dataset, _adopted(table, folder, config, dataset, train), learner, sizes)
    plan = plan._replace(method=guarded(plan.method, config, config.data.clients, masked=brief.masking is not None))
    arrays = Rows(jnp.asarray(inputs), jnp.asarray(labels))
    index = jnp.arange(len(labels), dtype=jnp.int32)
    view, own_test = (
        View(arrays, index, jnp.asarray(a, jnp.int32), jnp.asarray(b, jnp.int32)) for a, b in ((0, train), (train, held))
    )
    player = _played(plan, table, view, own_test, train, held, _radius(config))
    player = player._replace(keep=_keeper(table, config, dataset, plan.method.predict is None, learner is not None))
    if config.privacy.kind != "none":  # how many rows there are is not told
        player = player._replace(rows=player.rows if config.privacy.public_sizes else 1, held=0, guarded=True)
    if sizes is not None:
        player = player._replace(paid=tuple(most_steps(config, config.run.rounds).tolist()))
    if brief.masking is not None:
        player = player._replace(masked=_masked(plan.method, brief.masking, table, client))
    if not plan.method.shows:
        return player

    def seat(shown: PyTree, place: Path | None) -> Player:
        if learner is not None and place is not None:
            kept.move_to(place / OWN)
        played = _played(plan, table, view._replace(shown=shown), own_test, train, held, _radius(config))
        return played._replace(keep=player.keep, play=_pruning(played.play, kept) if learner is not None else played.play)

    blank = jax.eval_shape(lambda view: shown_rows(view, plan.method.shows), view)
    return player._replace(shown=blank, seat=seat)


def _within_budget(config: Config, table: SiteTable, rows: int) -> tuple[Config, np.ndarray | None]:
    """Under privacy of rows the configuration with the noise that this site's own need, and their number; refuses steps that
    would be made without noise. Else (the configuration as it is, None)."""
    if config.privacy.kind != "rows":
        return config, None
    for key in ("solver", "model"):
        rule = "makes steps without noise, and the run promises privacy of rows"
        require(getattr(table, key) is None, f"site.{key}", getattr(table, key), rule, "leave it out")
    sizes = np.asarray([[rows]])
    return budgeted(config, config.data.clients, sizes), sizes


def _masked(method: Method, masking: Masking, table: SiteTable, client: int) -> Masked:
    """How this site masks: refused where the masks name another site in its place, or the method's rounds are no sums."""
    here = masking.sites[client] if client < len(masking.sites) else ""
    require(here == table.name, "masking.sites", here, f"must be {table.name} in the place of client {client}")
    sums = sums_of(method, "masking", True)
    share = jitted(lambda up, weight: sums.share(up, spec_of(weight, 1.0)))

    def numbers(up: PyTree, weight: float) -> np.ndarray:
        return flat_numbers(share(up, weight))

    return Masked(masking, numbers)


def _own_model(word: str, folder: Path) -> str:
    """The word with the site's own file behind it, where it names one."""
    return f"{folder / word}" if is_path(word) else word


def _pruning(play: Callable[..., tuple[PyTree, PyTree]], kept: Kept) -> Callable[..., tuple[PyTree, PyTree]]:
    """`play`, after which models that no memory names any more go."""

    def step(state: PyTree, *message: Any) -> tuple[PyTree, PyTree]:
        after, up = play(state, *message)
        kept.prune(names_in(state) | names_in(after))
        return after, up

    return step


def _keeper(table: SiteTable, config: Config, dataset: Dataset, plain: bool, own: bool) -> Keep:
    """Writes the bundle of this site: the global model and its own, as `fedtier predict` and `Bundle.load` read it. Where the
    site predicts by more than a model (not `plain`), the bundle says so and has the global model alone."""

    def keep(folder: Path, turn: Turn, x: PyTree | None, y: PyTree) -> None:
        about = About(
            recipe_of(config, dataset), {0: dataset.preparation}, (table.name,) if plain else (),
            "" if plain else "a client predicts by its rows beside the global model, and a bundle has no rows",
            has_global=x is not None,
            reading=Reading(image_size=table.image_size), tables=config.model_dump(exclude_none=True), steps=int(turn.steps),
            round=int(turn.round), data={"name": table.data}, versions=versions(),
        )  # fmt: skip
        one = None if x is None else jax.tree.map(lambda a: a[None], x)
        if own:  # the model itself lies there already
            write_whole(folder / LIST, text_of({"0": {table.name: listed(y, turn)}}, bool(config.run.personal_check)))
        write(folder / FOLDER, about, one, jax.tree.map(lambda a: a[None, None], y) if plain else None)

    return keep


def _with_own_code(tables: dict[str, Any], site: SiteTable, folder: Path) -> dict[str, Any]:
    """The run's tables with the site's own files behind the code that they name. Code that the site's own file does not list
    is refused before anything is loaded, wherever it stands."""
    known = {bare(word): word for word in site.code if is_path(word)}
    out: dict[str, Any] = {}
    for table, content in tables.items():
        require(isinstance(content, dict), "brief", table, "must be a table")
        out[table] = dict(content)
        for key, word in content.items():
            if is_own(word):
                fits = (table, key) in OWN_CODE and word in known
                hint = f"if you have it and trust it: code = [{word!r}] in the site's file"
                require(fits, f"{table}.{key}", word, "is code that this site's own file does not list", hint)
                out[table][key] = str(folder / known[word])
    return out


def _check_method(table: SiteTable, config: Config, preparation: Preparation) -> None:
    """What this site's own file refuses, before anything is read or made for the run."""
    name, methods = config.method.name, table.methods
    require(methods is None or name in methods, "method", name, f"this site takes part in {', '.join(methods or [])} only")
    batch = config.method.options.get("batch", 1)
    numbers, most = batch * math.prod(preparation.shape), table.max_model_numbers
    require(numbers <= most, "batch", f"{numbers} numbers", f"this site takes at most {most}")


def _check_uplink(table: SiteTable, x: PyTree, up: PyTree, shows: int) -> None:
    """`models` are replies that hold as many numbers as the model, whatever the method calls them; `predictions` hold a number
    or more for each row that the server shows; `values` are shorter."""
    model, reply = (sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree)) for tree in (x, up))
    uplink = "predictions" if 0 < shows <= reply else "models" if reply >= model else "values"
    rule = f"this site lets only {' and '.join(table.uplinks) or 'nothing'} leave"
    require(uplink in table.uplinks or not reply, "uplink", f"{uplink}: {reply} numbers a reply", rule)
    most = table.max_model_numbers
    require(max(model, reply) <= most, "model", f"{max(model, reply)} numbers", f"this site takes at most {most}")


def _played(plan: Algorithm, table: SiteTable, view: View, held_view: View, train: int, held: int, radius: float) -> Player:
    method = plan.method
    x = jax.eval_shape(lambda: plan.model.init(jax.random.key(0)))  # pyright: ignore[reportOptionalMemberAccess]

    blank = jax.eval_shape(lambda: spec_of(1.0, radius))
    client = jax.eval_shape(method.client_init, x, blank)
    shapes = message_shapes(method, jax.eval_shape(method.server_init, x), client, view, blank, 1)
    _check_uplink(table, x, shapes.up, method.shows)
    tell_unused_rows(method, train)

    # A solver, or a model, of another framework is called from plain Python: it has no compiled form.
    plainly = table.solver is not None or table.model is not None
    judge = jitted(partial(quality, plan)) if table.model is not None else None

    def measure(state: PyTree, x: PyTree, view: View, held: View, spec: Spec, turn: Turn) -> Any:
        return client_scores(plan, state, x, view, held, spec, turn, judge)

    local, measure = (method.local, measure) if plainly else (jitted(method.local), jitted(measure))

    def step(state: PyTree, shared: PyTree, own: PyTree, turn: Turn, weight: float) -> tuple[PyTree, PyTree]:
        return local(state, shared, own, view, spec_of(weight, radius), turn)

    def score(state: PyTree, x: PyTree, turn: Turn, weight: float) -> tuple[Scores, PyTree]:
        (f2, personal, shared), y = measure(state, x, view, held_view, spec_of(weight, radius), turn)
        return Scores(float(f2), float(personal.main), float(shared.main)), y

    def init(x: PyTree) -> PyTree:
        return jax.tree.map(jnp.asarray, method.client_init(x, spec_of(1.0, radius)))

    return Player(x, shapes.shared, shapes.own, train, held, init, step, score, offer=shapes.offer, stale=method.buffer > 0)


def spec_of(weight: Any, radius: float) -> Spec:
    """What differs between sites and is not data, of this one."""
    return Spec(*(jnp.asarray(a, jnp.result_type(float)) for a in (weight, radius, 1.0)))


def _limited(config: Config, table: SiteTable, client: int) -> Config:
    """The run's problem within this site's own limits."""
    radius = config.method.radius
    own = [r for r in (radius[client] if isinstance(radius, list) else radius, table.radius) if r is not None]
    changes: dict[str, Any] = {"radius": min(own) if own else None}
    if table.proximity is not None:
        changes["proximity"] = table.proximity
    known = config.method.options
    changes |= {key: value for key in COARSE if (value := getattr(table, key)) is not None and key in known}
    return config.model_copy(update={"method": config.method.model_copy(update=changes)})


def _radius(config: Config) -> float:
    radius = config.method.radius
    return float("inf") if radius is None else float(np.asarray(radius))


def _adopted(table: SiteTable, folder: Path, config: Config, dataset: Dataset, train: int) -> Callable[..., Any]:
    if table.solver is None:
        return lambda problem: problem
    name = config.method.name
    if not registry.sketch(config.method.entry, config.method.options).foreign:
        hint = f"leave out the solver, or run {', '.join(registry.names_with('foreign'))}"
        raise FedtierError("site.solver", table.solver, f"cannot take the place of {name}'s own local steps", hint)
    make = foreign.find(table.solver, folder)
    settings = config.method.model_dump() | {"classes": dataset.classes, "model": config.model.name}
    solver = make(dataset.model_inputs(slice(0, train)), dataset.labels[:train], settings)
    return lambda problem: foreign.adopt(problem, solver)


if __name__ == "__main__":
    from ..compilation import configure_jax

    configure_jax()
    opened = cache(lambda: open_site(*map(Path, sys.argv[1:])))  # with the first letter: who waits for it holds no lock
    with private_files():
        answer_letters(lambda letter: opened().answer(letter))
