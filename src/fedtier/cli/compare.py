"""Commands that set runs side by side: compare, reproduce, search, report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ..errors import FedtierError
from .shared import Config, Number, Place, Settings, Text, plain, prepare_jax, progress, show

Format = Literal["table", "markdown", "latex", "csv"]
Only = Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="WORDS")]


def compare(
    file: Config = None,
    settings: Settings = (),
    methods: tuple[str, ...] = (),
    seeds: Number = None,
    baseline: Text = None,
    store: Path = Path("runs/cells"),
    format: Annotated[Format | None, tyro.conf.arg(metavar="table|markdown|latex|csv", help_behavior_hint="")] = None,
    out: Place = None,
    tune: bool = False,
    search_by: Annotated[Text, tyro.conf.arg(metavar="global|personal")] = None,
    jobs: int = 1,
    only: Only = (),
    any_version: bool = False,
    json: bool = False,
) -> None:
    """Compare methods: each cell runs once and is found again in the store.

    Args:
        file: The comparison: [[methods]], [[settings]], [compare] and the tables all cells share.
        settings: Change one key of every cell, for example --set data.alpha=1. May be repeated.
        methods: Methods by name, instead of a file; fedavg, server_only and local_only stand beside them in any case.
        seeds: How many seeds each cell has, from run.seed on.
        baseline: The method that differences are taken to; default: the file's, or the first.
        store: Folder of the cells.
        format: Format of the table; default: by the ending of --out (.md, .tex, .csv), else a table for people.
        out: File that gets the table; stdout then shows it for people.
        tune: Search the settings of every method first, the same number of points for each, on validation rows.
        search_by: With --tune: the models to choose by, global or personal; default: the file's, or global.
        jobs: Processes that run cells at the same time. More than one helps on a GPU, which a small model leaves idle.
        only: The cells whose labels hold these words, for example "mnist 0.1 scaffold". May be repeated.
        any_version: Take cells that another version of fedtier made; without it they are run again.
        json: One JSON object on stdout instead of a table.
    """
    from ..experiments.comparison import chosen_by, comparison_of, load_comparison
    from ..experiments.comparison import only as chosen_cells
    from ..experiments.jobs import run_in_processes
    from ..experiments.outcomes import run_cells
    from ..experiments.tuning import tune_cells
    from ..reports import tables
    from ..storage.files import write_whole

    names = _names(file, methods)
    changed = [*settings, *([f"run.seeds={seeds}"] if seeds is not None else [])]
    wanted = load_comparison(file, store, changed, baseline) if file else comparison_of(names, store, changed, baseline)
    wanted = chosen_cells(chosen_by(wanted, "--search-by", search_by), only)
    prepare_jax()
    shown = progress()
    if not tune and isinstance(wanted.search_rounds, tuple):
        shown.say("compare.search_rounds is for --tune: without it every method runs the rounds of its configuration")
    if not tune and wanted.search_by != "global":
        shown.say("search_by is for --tune: without it nothing is searched")
    if jobs != 1:
        run_in_processes(wanted, jobs, shown, tune=tune, any_version=any_version)
    outcome = run_cells(tune_cells(wanted, shown) if tune else wanted, shown, any_version=any_version)
    chosen: str = format or tables.SUFFIXES.get(out.suffix if out else "", "table")
    text = tables.FORMATS[chosen](outcome) if chosen != "table" else plain(tables.rich_table(outcome))
    if out is not None:
        write_whole(out, text.encode())
        print(f"table: {out}", file=sys.stderr)
    if json:
        show(tables.as_object(outcome))
    elif out is not None or chosen == "table":
        show([*tables.rich_table(outcome), f"next: fedtier report {store} --out report.html"])
    else:
        show(text.removesuffix("\n"))


def _names(file: Path | None, methods: tuple[str, ...]) -> list[str]:
    """The methods that are named beside no file; a comma separates them as well as a space."""
    if file is not None and methods:
        raise FedtierError("--methods", " ".join(methods), "cannot be given beside a file", "name them in the file")
    return [name for word in methods for name in word.split(",") if name]


def reproduce(
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")],
    settings: Settings = (),
    quick: bool = False,
    jobs: int = 1,
    only: Only = (),
    store: Path = Path("runs/cells"),
    out: Place = None,
    stored: bool = False,
    any_version: bool = False,
    json: bool = False,
) -> None:
    """Reproduce a study: the paper's table and figures, ours, tables of others. FEDTIER_DATA names the folder of the data.

    Args:
        name: What to reproduce: table1, figure1, figure2, figure3, methods, methods-hospitals, robustness, privacy,
            privacy-hospitals, asynchrony, own-models, fed-heart-disease, niid-bench, pfllib, decomfl.
        settings: Change one key of every cell, for example --set run.rounds=50. May be repeated.
        quick: A smaller version, minutes on two cores.
        jobs: Processes that run cells at the same time. More than one helps on a GPU, which a small model leaves idle.
        only: The cells whose labels hold these words, for example "mnist 0.1 scaffold". May be repeated.
        store: Folder of the cells; what is there is not run again.
        out: Folder for the table in every format, or for the figure as SVG, PDF and PNG (default: figures).
        stored: Show what the store has and run nothing; for figure2, niid-bench, pfllib and decomfl.
        any_version: Take cells that another version of fedtier made; without it they are run again.
        json: One JSON object on stdout instead of tables and sentences.
    """
    from ..studies.catalogue import make_result
    from ..studies.study import Order

    prepare_jax()
    product = make_result(Order(name, quick, only, store, out, settings, any_version, jobs, stored), progress())
    show(product.content if json else product.parts)


def search(
    file: Config = None,
    settings: Settings = (),
    over: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="KEY=A,B,C")] = (),
    by: Annotated[Text, tyro.conf.arg(metavar="global|personal")] = None,
    out: Place = None,
    json: bool = False,
) -> None:
    """Try a grid of values of any keys, judged on validation rows; the test rows are not looked at.

    Args:
        file: A configuration, with a table [search] of lists, for example penalty = [1, 10], or with --over.
        settings: Change one key, for example --set method.estimator=guided. May be repeated.
        over: A key to search over and its values, for example --over model.hidden=32,64. May be repeated. Penalties and step
            sizes run all at once, each value of any other key is a program of its own.
        by: The models to choose by, global or personal; default: the file's, or global.
        out: File for the best configuration, a new one; default: best.toml in runs/DATE-search-METHOD.
        json: One JSON object on stdout instead of a table and the configuration.
    """
    from ..experiments.label_counts import labels_of_experiment
    from ..experiments.run_folder import new_folder
    from ..experiments.search import order_search
    from ..experiments.search import search as run
    from ..own_code.naming import short
    from ..reports.terminal import search_object, search_table, search_toml
    from ..storage.files import write_whole

    if out is not None and out.exists():
        raise FedtierError("--out", str(out), "is there already", "choose a new file")
    order = order_search(file, settings, over, by)
    prepare_jax()
    found = run(order, lambda experiment: progress().say(*labels_of_experiment(experiment).said))
    place = out or new_folder(f"search-{short(order.config.method.name)}") / "best.toml"
    write_whole(place, search_toml(found).encode())
    print(f"best configuration: {place}", file=sys.stderr)
    show(search_object(found) | {"saved": str(place)} if json else [*search_table(found), search_toml(found)])


def report(
    folders: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="DIR")],
    out: Path = Path("report.html"),
    figures: Place = None,
    baseline: Text = None,
    json: bool = False,
) -> None:
    """Write one page with the curves, clients, tables and configurations of runs.

    Args:
        folders: Folders of runs, or folders with runs in them, such as runs/cells.
        out: The page; it needs no other file and no network.
        figures: Folder for the same figures as SVG and PDF.
        baseline: The method that the table's differences are taken to; default: the comparison's, else the first.
        json: One JSON object on stdout, naming what was written.
    """
    from ..reports.page import write_report

    if not folders:
        raise FedtierError("DIR", None, "must be given", "fedtier report runs/cells")
    written = write_report(folders, out, figures, baseline)
    show(written if json else "\n".join([written["report"], *written["figures"]]))
