"""ft.compare: methods side by side on the same rows, by the fair rule."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..compilation import use_all_cores
from ..errors import NOTHING, require
from ..experiments.comparison import chosen_by, make_comparison
from ..experiments.outcomes import Outcome, run_cells
from ..experiments.progress import Progress
from ..experiments.stopping import Stopped
from ..experiments.tuning import tune_cells
from ..own_code.naming import short
from ..reports import findings, layout, tables
from ..reports.layout import plain
from ..reports.progress import fitting
from .choices import MethodChoice, as_method, as_model
from .data import Federated, federate
from .metrics import Records
from .scratch import Scratch
from .train import run_table
from .words import as_arguments


class Table:
    """A comparison: means, 95 % intervals and differences to the baseline, paired by seed. Prints itself."""

    def __init__(self, outcome: Outcome, kept: Scratch | None = None) -> None:
        self.outcome, self._kept = outcome, kept  # a folder that goes when the table does

    @property
    def finding(self) -> str:
        """One sentence: what was found, and how sure that is."""
        return findings.sentence(self.outcome)

    @property
    def rows(self) -> Records:
        """One row for each method: mean and half-width of each metric, and of its difference to the baseline."""
        rows = []
        for line in tables.lines(self.outcome):
            row: dict[str, Any] = {"method": line.method, "seeds": line.seeds}
            for metric, score in line.scores.items():
                row |= {metric: score.mean, f"{metric}_half_width": score.half}
                if metric in line.differences:
                    apart = line.differences[metric]
                    row |= {f"{metric}_difference": apart.mean, f"{metric}_difference_half_width": apart.half}
            rows.append(row)
        return Records(rows)

    def to_pandas(self) -> Any:
        """`rows` as a pandas DataFrame."""
        return self.rows.to_pandas()

    def to_latex(self) -> str:
        """A tabular for booktabs."""
        return tables.latex(self.outcome)

    def to_markdown(self) -> str:
        """A table in Markdown."""
        return tables.markdown(self.outcome)

    def to_csv(self) -> str:
        """Numbers in full precision, separated by commas."""
        return tables.comma_separated(self.outcome)

    def plot(self) -> Any:
        """The curves of all methods, as a figure of matplotlib."""
        from ..reports.load_runs import load_runs
        from ..reports.plots import curves_figure

        return curves_figure(load_runs([cell.folder for cell in self.outcome.comparison.cells]))

    def report(self, file: str | Path = "report.html") -> Path:
        """Writes the page that `fedtier report` writes; the file."""
        from ..reports.page import write_report

        folders = tuple(cell.folder for cell in self.outcome.comparison.cells)
        return Path(write_report(folders, Path(file), None, self.outcome.comparison.baseline)["report"])

    def __repr__(self) -> str:
        return plain(tables.rich_table(self.outcome)).rstrip()

    def _repr_html_(self) -> str:
        return layout.html(tables.grid(self.outcome), [self.finding, tables.note(self.outcome)])


def compare(
    methods: Mapping[str, Any] | Sequence[Any],
    data: Any,
    *,
    model: Any = None,
    baseline: str | None = None,
    seeds: int = 5,
    metrics: Sequence[str] | None = None,
    tune: bool = False,
    search_by: str | None = None,
    store: str | Path | None = None,
    progress: bool | Progress | None = None,
    **run: Any,
) -> Table:
    """Runs every method on the same rows and sets their results side by side.

    methods    {"ours": ft.zo_hfl(), "FedAvg": ft.fedavg()}, or a list of them or of names
    baseline   the label that differences are taken to; the first by default
    seeds      how many; each draws its own splits, and differences are paired by seed
    tune       search the settings of every method first, the same number of points for each, on validation rows
    search_by  "personal": the search of `tune` chooses by the personal models, not by the global one
    store      folder of the runs, where `fedtier compare --store` and `fedtier report` find them; without it they go
               with the table
    run        keys of [run], as for `ft.train`: rounds, participation, tau, ...

    The fair rule (`fedtier.experiments.comparison`): every method sees the same rows, the server's included, takes the same
    number of local gradients a round, and has its personal models tuned by one rule.
    """
    use_all_cores()
    federated = data if isinstance(data, Federated) else federate(data)
    wanted = dict(methods) if isinstance(methods, Mapping) else _labelled(methods)
    require(tune or search_by is None, "search_by", search_by, "is for tune = True: without it nothing is searched")
    require(bool(wanted), "methods", NOTHING, "must name at least one", '{"ours": ft.zo_hfl(), "FedAvg": ft.fedavg()}')
    entries = [{"label": label} | as_method(method).table for label, method in wanted.items()]
    content: dict[str, Any] = {
        "data": federated.table, "model": as_model(model).table, "run": run_table(federated, run | {"seeds": seeds}),
        "methods": entries, "compare": {} if metrics is None else {"metrics": list(metrics)},
    }  # fmt: skip
    kept = Scratch() if store is None else None
    place = kept.folder if kept else Path(str(store))
    shown = fitting(progress)
    try:
        with as_arguments():
            comparison = chosen_by(make_comparison(content, place, (), baseline), "search_by", search_by)
            return Table(run_cells(tune_cells(comparison, shown) if tune else comparison, shown), kept)
    except Stopped:
        if store is not None:
            raise
        raise KeyboardInterrupt from None  # there is no folder to go on from


def _labelled(methods: Sequence[Any]) -> dict[str, MethodChoice]:
    """Methods by their names; the second of a name is NAME 2."""
    labelled: dict[str, MethodChoice] = {}
    for choice in map(as_method, methods):
        name = short(choice.name)
        numbered = (name if k == 1 else f"{name} {k}" for k in itertools.count(1))
        labelled[next(label for label in numbered if label not in labelled)] = choice
    return labelled
