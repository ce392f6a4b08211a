"""Rows of metrics that print themselves and become a frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from types import ModuleType
from typing import Any, overload

from ..errors import NOTHING, FedtierError


class Records(Sequence[dict[str, object]]):
    """Rows with named columns: a list of dicts that prints as a table, and `to_pandas`."""

    def __init__(self, rows: Sequence[Mapping[str, object]]) -> None:
        self._rows = [_flat(row) for row in rows]

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> dict[str, object]: ...

    @overload
    def __getitem__(self, place: slice) -> list[dict[str, object]]: ...

    def __getitem__(self, place: int | slice) -> dict[str, object] | list[dict[str, object]]:
        return self._rows[place]

    def __iter__(self) -> Iterator[dict[str, object]]:
        return iter(self._rows)

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return list(dict.fromkeys(key for row in self._rows for key in row))

    def to_pandas(self) -> Any:
        """A pandas DataFrame, a column for each number."""
        return pandas().DataFrame(self._rows, columns=self.columns)

    def __repr__(self) -> str:
        cells = [self.columns, *([_shown(row.get(key)) for key in self.columns] for row in self._rows)]
        wide = [max(len(row[k]) for row in cells) for k in range(len(self.columns))]
        return "\n".join("  ".join(word.rjust(wide[k]) for k, word in enumerate(row)) for row in cells)

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{escape(key)}</th>" for key in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(_shown(row.get(key)))}</td>' for key in self.columns)}</tr>" for row in self._rows
        )
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def pandas() -> ModuleType:
    """The package, or a refusal that says how to get it."""
    try:
        import pandas  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise FedtierError("pandas", NOTHING, "is not installed", "pip install 'fedtier[pandas]'") from error
    return pandas


def _flat(row: Mapping[str, object], before: str = "") -> dict[str, object]:
    out: dict[str, object] = {}
    for key, value in row.items():
        if key == "by_client":  # lists for those who watch; `result.clients` has the clients
            continue
        out |= _flat(value, f"{before}{key}_") if isinstance(value, dict) else {f"{before}{key}": value}
    return out


def _shown(value: object) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
