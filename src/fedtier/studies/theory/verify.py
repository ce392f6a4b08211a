"""`fedtier theory --verify`: every experiment in turn, pictures into a folder, rows for the table."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .experiments.descent import theorem_1, theorem_2
from .experiments.estimate import moments, smoothing
from .experiments.inexact import inexact
from .experiments.kinks import kinks, movement
from .experiments.local_error import local_error
from .experiments.terms import terms
from .row import Row

if TYPE_CHECKING:  # loaded where a picture is drawn
    from matplotlib.axes import Axes

EXPERIMENTS: dict[str, Callable[..., list[Row]]] = {
    "local-error": local_error,
    "second-moment": moments,
    "smoothing": smoothing,
    "inexact": inexact,
    "movement": movement,
    "kinks": kinks,
    "theorem-1": theorem_1,
    "theorem-1-terms": terms,
    "theorem-2": theorem_2,
}


def verify(out: Path | None = None, say: Callable[[str], None] = lambda text: None) -> list[Row]:
    """All rows; with `out`, one SVG per experiment in that folder."""
    rows: list[Row] = []
    for name, experiment in EXPERIMENTS.items():
        clock = time.perf_counter()
        with _Picture(out, name) as axes:
            rows += experiment(axes)
        say(f"{name}: {time.perf_counter() - clock:.1f} s")
    return rows


class _Picture:
    """Axes to draw on, saved at the end; None where no pictures are wanted."""

    def __init__(self, out: Path | None, name: str) -> None:
        self.out, self.name = out, name

    def __enter__(self) -> Axes | None:
        if self.out is None:
            return None
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        self.out.mkdir(parents=True, exist_ok=True)
        self.figure = Figure(figsize=(6, 4), layout="constrained")
        FigureCanvasSVG(self.figure)
        return self.figure.add_subplot()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self.out is not None and kind is None:
            import matplotlib

            with matplotlib.rc_context({"svg.hashsalt": "fedtier", "svg.fonttype": "none"}):  # the same bytes every time
                self.figure.savefig(self.out / f"{self.name}.svg", metadata={"Date": None})
