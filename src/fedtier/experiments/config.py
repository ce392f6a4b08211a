"""Configurations: tables of words (`tables`), read from files and settings and checked whole before any work starts."""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pydantic

from ..errors import NOTHING, FedtierError, called, nearest, require
from ..methods import Method, registry
from ..methods.flat import KEYS_OF_PARTS
from ..own_code import by_path
from ..own_code.held import is_elsewhere, is_object
from ..own_code.naming import is_own
from .privacy_rules import check_privacy
from .rules import check_clock, check_own_models, check_together
from .tables import TABLES, Config
from .toml import read_toml

RENAMED = {"method.cohort": "method.remembered", "method.estimates": "method.remembered"}  # keys of earlier versions


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
        raise _refusal(error, _method_keys({key: given[key] for key in ("name", "preset") if key in given})) from None
    method = _made(config, given)
    if config.method.solver is not None:
        names = ", ".join(registry.names_with("foreign"))
        require(method.foreign, "method.local", given["local"], f"cannot take the place of {method.name}'s own steps", names)
        share, rule = config.data.new_clients, "cannot be measured with a black box: nobody calls it for them"
        require(not share, "data.new_clients", share, rule, "leave it out")
    check_own_models(config)
    check_together(config)
    check_clock(config, method)
    check_privacy(config.privacy, config, method)
    return _seated(config, method)


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
    gave_way: set[str] = set()
    for (key, value), asked in method.entry.gives_way.items():
        applies = options[key] == value and key not in gave_way
        instead = {k: v for k, v in asked.items() if applies and options[k] == v}
        gave_way |= {*instead}
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


def _parse_setting(setting: str) -> tuple[str, str, Any]:
    path, equals, text = setting.partition("=")
    table, dot, key = path.strip().partition(".")
    hint = f"--set {_with_table(path.strip())}={text}" if equals and not dot else "for example --set data.alpha=1"
    require(bool(equals and dot and key), "--set", setting, "must read table.key=value", hint)
    return table, key, value_of(text)


def value_of(text: str) -> Any:
    """What stands behind an equals sign, as TOML has it; a bare word is a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


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


def _refusal(error: pydantic.ValidationError, advised: Mapping[str, Any] | None = None) -> FedtierError:
    """The first thing that is wrong; `advised` are the keys of [method] where none is given."""
    first = error.errors()[0]
    table, key = (str(part) for part in first["loc"][:2])
    default = TABLES[table].model_fields[key].default
    default = advised.get(key, default) if advised and table == "method" else default
    rule = first["msg"][0].lower() + first["msg"][1:].replace("Input", "it").replace("a valid boolean", "true or false")
    hint = f"the default is {json.dumps(default) if isinstance(default, bool) else repr(default)}"
    if first["type"] == "list_type" and isinstance(first["input"], str | int | float):
        given = first["input"]
        listed = json.dumps([word.strip() for word in given.split(",")] if isinstance(given, str) else [given])
        hint = f"{key} = {listed}; on the command line --set '{table}.{key}={listed}'"
    return FedtierError(f"{table}.{key}", first["input"], rule.replace("input should", "must"), hint)
