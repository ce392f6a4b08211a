"""What every study takes and gives: an order from the command line, a product for people and for machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ..experiments import comparison
from ..experiments.progress import Progress
from ..reports.terminal import Part


class Order(NamedTuple):
    """What the command line asks for."""

    name: str
    quick: bool = False
    only: tuple[str, ...] = ()
    store: Path = Path("runs/cells")
    out: Path | None = None
    settings: tuple[str, ...] = ()
    any_version: bool = False  # of the cells in the store
    jobs: int = 1  # processes that run cells at the same time
    stored: bool = False  # only what the store has is shown

    @property
    def changed(self) -> bool:
        """Whether cells have another set-up than the study's own."""
        return self.quick or bool(self.settings)


class Product(NamedTuple):
    """The result of a study."""

    parts: list[Part]  # for people
    content: dict[str, Any]  # for machines


@runtime_checkable
class Maker(Protocol):
    """Runs what is missing in the store, and shows the result."""

    def __call__(self, order: Order, progress: Progress, /) -> Product: ...


def comparison_for(order: Order, tables: dict[str, Any]) -> comparison.Comparison:
    """The cells that an order asks for, of a comparison's tables with a table [quick]: only = [...], set = [...]."""
    quick: dict[str, Any] = tables.get("quick", {}) if order.quick else {}
    asked = {key: value for key, value in tables.items() if key not in ("quick", "paper", "figure")}
    plan = comparison.make_comparison(asked, order.store, (*quick.get("set", ()), *order.settings))
    return comparison.only(comparison.only(plan, quick.get("only", ())), order.only)
