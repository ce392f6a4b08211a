"""The list of methods: what each keeps at a client, what a client sends, and what it needs; measured, not written down.

Shapes tell the state and the reply, of a small net or, by a method for those alone, of a linear model: nothing is computed,
and local steps, after which a model has the shapes that it had before, are not even traced.
A method has a personal model of its own where, with the keys of its paper, a client's model is something else than the global
one; with the recommended keys all fine-tune it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from rich import box
from rich.table import Table

from .. import keys, trees
from ..errors import choice
from ..experiments.tables import MethodTable
from ..federation import View, shown_rows
from ..methods import Method, registry, turn_of
from ..methods.outline import outlined
from ..problem import Rows, Spec, softmax
from ..problem.models import Linear
from ..protocol.shapes import Shapes, message_shapes
from ..storage.json_value import Json
from .layout import folded

CLIENTS, FEW = 10, 100
Part = Table | str


class Layer(NamedTuple):
    weight: Float[Array, "outputs inputs"]
    bias: Float[Array, "outputs"]


class Net(NamedTuple):
    """A net by its shapes alone, with a layer of each kind that a method may treat apart."""

    body: Layer
    norm: Layer
    head: Layer


def net(width: int) -> Net:
    """A hidden layer of `width` on 64 inputs, normalised, and 10 outputs."""
    layers = {"body": (width, 64), "norm": (width, 1), "head": (10, width)}
    shape = jax.ShapeDtypeStruct
    return Net(**{name: Layer(shape((o, i), jnp.float32), shape((o,), jnp.float32)) for name, (o, i) in layers.items()})  # pyright: ignore[reportArgumentType]


def linear(inputs: int) -> Linear:
    """A linear model with 10 outputs, for methods that are for linear models alone."""
    return jax.eval_shape(lambda: softmax(inputs, 10).init(keys.root(0)))


NARROW, WIDE = net(64), net(128)
SIZES = (trees.size(NARROW), trees.size(WIDE))


class Size(NamedTuple):
    """Numbers in a message or a state: some for each number of the model, and others."""

    models: float
    others: int

    @classmethod
    def of(cls, few: int, many: Callable[[], int], sizes: tuple[int, int] = SIZES) -> Size:
        """From the numbers for the narrow model, and where they are not plainly some models and a few, those for the wide one:
        what grows with the model is counted in models, a part of one as such. `sizes`: of the two models."""
        n, N = sizes
        whole, rest = divmod(few, n)
        if rest <= FEW:
            return cls(whole, rest)
        whole, rest = divmod(many() - few, N - n)
        return cls(few / n, 0) if rest else cls(whole, few - whole * n)

    def words(self) -> str:
        models = f"{self.models:.2g} model{'s' * (self.models != 1)}" if self.models else ""
        others = f"{self.others}" if models else f"{self.others} number{'s' * (self.others > 1)}"
        return " + ".join(word for word in (models, others if self.others else "") if word) or "nothing"


class Facts(NamedTuple):
    """What one looks for in a method, with its recommended keys."""

    state: Size  # of one client, between rounds
    sends: Size  # of one client, in a round
    needs_server_data: bool
    wire: bool  # does anything travel, so that it can be between sites?
    personal: bool  # has it a personal model of its own?

    def as_object(self) -> dict[str, Json]:
        sizes = {"state": self.state, "sends": self.sends}
        told: dict[str, Json] = {name: {"models": size.models, "numbers": size.others} for name, size in sizes.items()}
        return told | {"needs_server_data": self.needs_server_data, "wire": self.wire, "personal": self.personal}


class Wish(NamedTuple):
    """What the listed methods must have in common; `names`: those alone."""

    names: tuple[str, ...] = ()
    family: str | None = None
    personal: bool = False
    wire: bool = False
    no_server_data: bool = False

    def fits(self, row: registry.Entry, facts: Facts) -> bool:
        return (
            self.family in (None, row.family)
            and (facts.personal or not self.personal)
            and (facts.wire or not self.wire)
            and not (self.no_server_data and facts.needs_server_data)
        )


def facts_of(name: str) -> Facts:
    """The facts of a method of the registry."""
    spec = Spec(np.float32(1.0), np.float32(np.inf), np.float32(1.0))
    plain = registry.METHODS[name].linear
    model, narrow, wide = (softmax(64, 10), linear(64), linear(128)) if plain else (None, NARROW, WIDE)
    ours, papers = (registry.sketch(name, _method_keys(name, preset), model=model) for preset in ("recommended", "paper"))

    def view(x: PyTree) -> View:
        return _view(x.weight.shape[1] if plain else 64)

    @functools.cache
    def measured(x: PyTree) -> tuple[PyTree, Shapes]:
        """A client's state, and the messages."""
        server, client = jax.eval_shape(lambda x, spec: (ours.server_init(x), ours.client_init(x, spec)), x, spec)
        return client, message_shapes(ours, server, client, view(x), spec, CLIENTS)

    with outlined():
        (client, shapes), sizes = measured(narrow), (trees.size(narrow), trees.size(wide))
        state = Size.of(_numbers(client), lambda: _numbers(measured(wide)[0]), sizes)
        sends = Size.of(_numbers(shapes.up), lambda: _numbers(measured(wide)[1].up), sizes)
        personal = _has_own_model(papers, narrow, view(narrow), spec)
    alone = registry.sketch(name, _method_keys(name, "recommended"), central=False, model=model)
    return Facts(state, sends, alone.needs_server_data, not shapes.silent, personal)


def _method_keys(name: str, preset: str) -> dict[str, Any]:
    """The keys of a preset that are the method's own: penalty and proximity belong to the problem where it has none."""
    own = registry.options(name)
    return {key: value for key, value in registry.defaults(name, preset).items() if key in own}


@functools.cache
def _view(features: int) -> View:
    """Some rows, by their shapes alone."""

    def made() -> View:
        rows = Rows(jnp.zeros((CLIENTS, features)), jnp.zeros(CLIENTS, jnp.int32))
        return View(rows, jnp.arange(CLIENTS), jnp.asarray(0), jnp.asarray(CLIENTS))

    return jax.eval_shape(made)


def _numbers(tree: PyTree) -> int:
    """Real and whole numbers in the tree; random keys are none."""
    return sum(leaf.size for leaf in jax.tree.leaves(tree) if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _has_own_model(method: Method, x: PyTree, view: View, spec: Spec) -> bool:
    """Whether a client's model is anything else than the global one, handed on as it is."""
    found: list[bool] = []

    def look(x: PyTree, view: View, spec: Spec) -> PyTree:
        server, client, turn = method.server_init(x), method.client_init(x, spec), turn_of(0, 0, 1, keys.root(0))
        shared = method.global_model(server)
        seen = view._replace(shown=shown_rows(view, method.shows)) if method.shows else view
        y = method.personal_model(method.briefed(client, server, turn), shared, seen, spec, turn)
        pairs = zip(jax.tree.leaves(y), jax.tree.leaves(shared), strict=shared is not None)
        found.append(shared is None or any(a is not b for a, b in pairs))
        return y

    jax.eval_shape(look, x, view, spec)
    return found[0]


def chosen(wish: Wish) -> dict[str, Facts]:
    """The methods that fit, with their facts, in the registry's order."""
    for name in wish.names:
        choice("NAME", name, registry.METHODS)
    if wish.family is not None:
        choice("--family", wish.family, dict.fromkeys(row.family for row in registry.METHODS.values()))
    named = {name: row for name, row in registry.METHODS.items() if not wish.names or name in wish.names}
    facts = {name: facts_of(name) for name, row in named.items() if wish.family in (None, row.family)}
    return {name: found for name, found in facts.items() if wish.fits(registry.METHODS[name], found)}


def list_object(wish: Wish) -> dict[str, Json]:
    """Every method that fits, with its facts and its keys by preset."""

    def told(name: str, facts: Facts) -> dict[str, Json]:
        row = registry.METHODS[name]
        presets = {preset: registry.defaults(name, preset) for preset in registry.PRESETS}
        return {"title": row.title, "family": row.family, "summary": row.summary} | facts.as_object() | presets

    return {name: told(name, facts) for name, facts in chosen(wish).items()}


COLUMNS: tuple[tuple[str, int, Callable[[str, Facts], str]], ...] = (
    ("method", 17, lambda name, facts: name),
    ("what it is", 22, lambda name, facts: registry.METHODS[name].summary),
    ("state", 9, lambda name, facts: facts.state.words()),
    ("sends", 9, lambda name, facts: facts.sends.words()),
    ("server\nrows", 6, lambda name, facts: "needs" if facts.needs_server_data else ""),
    ("wire", 4, lambda name, facts: "yes" if facts.wire else "no"),
    ("own\nmodel", 5, lambda name, facts: "yes" if facts.personal else ""),
)


def list_table(wish: Wish) -> list[Part]:
    """A table a family, 80 columns."""
    found = chosen(wish)
    if not found:
        return ["no method has all of this"]
    parts: list[Part] = []
    for family in dict.fromkeys(registry.METHODS[name].family for name in found):
        table = Table(title=family, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 0), pad_edge=False)
        for heading, width, _ in COLUMNS:
            table.add_column(heading, width=width)
        for name, facts in found.items():
            if registry.METHODS[name].family == family:
                table.add_row(*(say(name, facts) for _, _, say in COLUMNS))
        parts.append(table)
    return [*parts, *map(folded, LEGEND), "fedtier methods NAME: its keys with their values"]


def keys_table(wish: Wish) -> list[Part]:
    """What runs where a configuration names the method alone; the paper's value beside it where that is another. 80 columns."""
    table = Table(title='what runs by default, preset = "recommended"', title_justify="left", show_lines=True)
    for heading, width in (("method", 17), ("keys with their values", 56)):
        table.add_column(heading, width=width)
    for name in chosen(wish):
        paper, ours = (registry.defaults(name, preset) for preset in ("paper", "recommended"))
        paper = {key: MethodTable.model_fields[key].default for key in ours if key in MethodTable.model_fields} | paper
        words = (f"{key} = {value}{_of_paper(key, value, paper)}" for key, value in ours.items())
        table.add_row(name, f"{registry.METHODS[name].summary}\n{', '.join(words)}")
    return [table, 'method.preset = "paper" takes the values in brackets; others are the same']


def _of_paper(key: str, value: object, paper: Mapping[str, object]) -> str:
    return f" (paper: {paper[key]})" if key in paper and paper[key] != value else ""


LEGEND = (
    "state: kept for each client between rounds; sends: by a client in a round, with the recommended keys; a part of a model "
    f"is that of a net of {trees.size(NARROW):,} numbers",
    "server rows: whether the server needs some; own model: whether the method's paper gives clients models of their own; by "
    "the others they fine-tune the global one",
)
