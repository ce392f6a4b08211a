"""The parts of a method that a program gave as objects, in a bundle's file: what a personal model needs of them.

An estimator and a server's descent only train; a new client's model needs the local solver and the personal rule. Those of ours
with one of our step sizes are written down and made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...errors import FedtierError
from ...methods import personal, registry
from ...methods.personal import PersonalRule
from ...methods.solvers import ProjectedSgd, projected_sgd
from ...own_code.held import Held, is_elsewhere, is_object
from ...schedules import words_of
from ...storage.json_value import Json, as_object, as_text
from ..tables import MethodTable

TRAIN_ONLY = ("estimator", "server")
RULES: dict[str, Callable[..., PersonalRule]] = {
    "lower_level": personal.lower_level,
    "global_model": personal.global_model,
    "fine_tune": personal.fine_tune,
}
PARTS: dict[str, Callable[..., object]] = {"local": projected_sgd, **RULES}


def parts_told(method: MethodTable) -> dict[str, dict[str, Json]]:
    """The parts that can be made again, as plain values."""
    if method.name not in registry.METHODS:
        return {}
    given = {part: value for part, value in method.options.items() if is_object((method.model_extra or {}).get(part))}
    told = {"local": _local_told(given.get("local")), "personal": _rule_told(given.get("personal"))}
    return {part: values for part, values in told.items() if values is not None}


def _local_told(local: object) -> dict[str, Json] | None:
    if not isinstance(local, ProjectedSgd) or (step := words_of(local.step)) is None:
        return None
    return {"step": step} | {field: getattr(local, field) for field in ("batch", "bounded", "momentum", "weight_decay")}


def _rule_told(rule: object) -> dict[str, Json] | None:
    """Of a rule that `personal` has made, by its name."""
    if not isinstance(rule, PersonalRule) or rule.name not in RULES or rule.on.__module__ != personal.__name__:
        return None
    if rule.name != "fine_tune":
        return {"rule": rule.name}
    local = _local_told(rule.local)
    return None if local is None else {"rule": rule.name, "step": local["step"], "batch": local["batch"]}


def with_parts(method: Mapping[str, Json], told: Mapping[str, Json]) -> dict[str, Json]:
    """The [method] table for a new client's model: objects that the program still has stay, those that only train are left
    out, the others are made again from what `parts_told` wrote; refuses what cannot be."""
    if method.get("name") not in registry.METHODS:
        return dict(method)
    gone = {key for key, word in method.items() if is_elsewhere(word)}
    kept = {key: word for key, word in method.items() if key not in gone or key not in TRAIN_ONLY}
    if "estimator" in gone:
        kept.pop("uplink", None)  # it must fit the estimator
    for part in (part for part in ("local", "personal") if part in gone):
        if part not in told:
            rule = "was an object of a Python program, which no file holds, and a new client's model needs it"
            hint = "result.adapt(...) in that program, or train with plain keys: ft.zo_hfl(client_lr=0.1, fine_tune=0.1)"
            raise FedtierError(f"method.{part}", method[part], rule, hint)
        values = dict(as_object(told[part]))
        make = PARTS[part if part == "local" else as_text(values.pop("rule"))]
        kept[part] = Held(part, make(**values))
    return kept
