"""The command line. stdout is data, stderr is progress and words; errors say what to do and exit with 2."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from .errors import FedtierError, FedtierWarning

Config = Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="FILE.toml")]
Settings = Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(name="set", metavar="TABLE.KEY=VALUE")]
Track = Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="tensorboard|mlflow")]
Format = Literal["table", "markdown", "latex", "csv"]


def run(
    file: Config = None,
    settings: Settings = (),
    seeds: int | None = None,
    out: Path | None = None,
    track: Track = (),
    profile: bool = False,
    hosts: str | None = None,
    rank: int | None = None,
    of: int | None = None,
    json: bool = False,
) -> None:
    """Run one configuration.

    Args:
        file: The configuration; everything has a default.
        settings: Change one key, for example --set data.alpha=1. May be repeated.
        seeds: How many seeds to run at once, from run.seed on.
        out: Folder of the results, a new one; default: runs/DATE-METHOD-DATA.
        track: Send every row to a tracker as well: tensorboard or mlflow. May be repeated.
        profile: Say where the time went, and write trace.json into the folder: Perfetto opens it.
        hosts: HOST:PORT of process 0, when several processes, on one machine or many, run this as one.
        rank: Which of them this is, from 0; only process 0 writes and prints.
        of: How many there are.
        json: One JSON object on stdout instead of a table.
    """
    from .lab import config as configuration
    from .lab.profile import Profile
    from .lab.report import final_object, profile_table, run_table
    from .lab.run import run as play

    watch = Profile()
    watch.started()
    first = _join(hosts, rank, of)

    config = configuration.read(file, [*settings, *([f"run.seeds={seeds}"] if seeds is not None else [])])
    _use_compilation_cache()
    if not first:
        with tempfile.TemporaryDirectory() as scratch:
            play(config, Path(scratch) / "run", progress=_progress(quiet=True))
        return
    folder = out or _new_folder(f"{config.method.name}-{config.data.name}")
    result = play(config, folder, progress=_progress(), track=track, profile=watch)
    if not profile:
        _print(final_object(result) if json else run_table(result))
        return
    watch.write(folder / "trace.json")
    print(f"trace: {folder / 'trace.json'}, for ui.perfetto.dev", file=sys.stderr)
    _print(final_object(result) | {"profile": watch.as_object()} if json else [*run_table(result), profile_table(watch)])


def demo(out: Path | None = None) -> None:
    """Compare ZO-HFL with FedAvg, SCAFFOLD, server-only and local-only on embedded data.

    Args:
        out: Folder of the results, a new one; default: runs/DATE-demo.
    """
    from .lab.demo import demo as play

    _use_compilation_cache()
    _print(play(out or _new_folder("demo"), _progress()))


def resume(folder: tyro.conf.Positional[Path], track: Track = (), json: bool = False) -> None:
    """Go on with a run that was stopped, from its last checkpoint.

    Args:
        folder: The run's folder.
        track: Send the rows from there on to a tracker as well: tensorboard or mlflow. May be repeated.
        json: One JSON object on stdout instead of a table.
    """
    from .lab.report import final_object, run_table
    from .lab.run import resume as play

    _use_compilation_cache()
    result = play(folder, progress=_progress(), track=track)
    _print(final_object(result) if json else run_table(result))


def compare(
    file: Config = None,
    settings: Settings = (),
    methods: tuple[str, ...] = (),
    seeds: int | None = None,
    baseline: str | None = None,
    store: Path = Path("runs/cells"),
    format: Format | None = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Compare methods: each cell runs once and is found again in the store.

    Args:
        file: The comparison: [[methods]], [[settings]], [compare] and the tables all cells share.
        settings: Change one key of every cell, for example --set data.alpha=1. May be repeated.
        methods: Methods by name, instead of a file.
        seeds: How many seeds each cell has, from run.seed on.
        baseline: The method that differences are taken to; default: the file's, or the first.
        store: Folder of the cells.
        format: Format of the table; default: by the ending of --out (.md, .tex, .csv), else a table for people.
        out: File that gets the table; stdout then shows it for people.
        json: One JSON object on stdout instead of a table.
    """
    from .files import write_whole
    from .lab import cells as files
    from .lab import compare as comparison
    from .lab import tables

    if (file is None) == (not methods):
        rule = "must be given, or --methods, but not both"
        raise FedtierError("FILE.toml", str(file) if file else None, rule, "fedtier compare --methods zo_hfl fedavg scaffold")
    changed = [*settings, *([f"run.seeds={seeds}"] if seeds is not None else [])]
    cells = files.read(file, store, changed, baseline) if file else files.from_names(methods, store, changed, baseline)
    _use_compilation_cache()
    outcome = comparison.play(cells, _progress())
    chosen: str = format or tables.SUFFIXES.get(out.suffix if out else "", "table")
    text = tables.FORMATS[chosen](outcome) if chosen != "table" else _plain(tables.rich_table(outcome))
    if out is not None:
        write_whole(out, text.encode())
        print(f"table: {out}", file=sys.stderr)
    if json:
        _print(tables.as_object(outcome))
    elif out is not None or chosen == "table":
        _print(tables.rich_table(outcome))
    else:
        _print(text.removesuffix("\n"))


def reproduce(
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="table1|figure1|figure2|figure3")],
    settings: Settings = (),
    quick: bool = False,
    only: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="WORDS")] = (),
    store: Path = Path("runs/cells"),
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Reproduce the paper's table or one of its figures; FEDTIER_DATA names the folder of the data sets.

    Args:
        name: What to reproduce.
        settings: Change one key of every cell, for example --set run.rounds=50. May be repeated.
        quick: A smaller version, minutes on two cores.
        only: The cells whose labels hold these words, for example "mnist 0.1 scaffold". May be repeated.
        store: Folder of the cells; what is there is not run again.
        out: Folder for the table in every format, or for the figure as SVG, PDF and PNG (default: figures).
        json: One JSON object on stdout instead of tables and sentences.
    """
    from .lab.paper.reproduce import Order
    from .lab.paper.reproduce import reproduce as play

    _use_compilation_cache()
    product = play(Order(name, quick, only, store, out, settings), _progress())
    _print(product.content if json else product.parts)


def search(file: tyro.conf.Positional[Path], settings: Settings = (), json: bool = False) -> None:
    """Try a grid of penalties and step sizes at once, judged on validation rows; the test rows are not looked at.

    Args:
        file: A configuration with a table [search] of lists, for example penalty = [1, 10].
        settings: Change one key, for example --set method.estimator=guided. May be repeated.
        json: One JSON object on stdout instead of a table.
    """
    from .lab import search as searching
    from .lab.report import search_object, search_table

    config, grid = searching.read(file, settings)
    _use_compilation_cache()
    found = searching.search(config, grid)
    _print(search_object(found) if json else search_table(found))


def partition(
    file: Config = None, settings: Settings = (), out: Path | None = None, export: Path | None = None, json: bool = False
) -> None:
    """Show who has how many rows of which class.

    Args:
        file: The configuration; everything has a default.
        settings: Change one key, for example --set data.alpha=1. May be repeated.
        out: Picture, .svg, .pdf or .png by its ending.
        export: New folder for the rows of each party as files, with run.toml: a rehearsal between sites.
        json: One JSON object on stdout instead of a table.
    """
    from .lab import census, plots
    from .lab import config as configuration
    from .lab.report import census_table

    if out is not None:
        plots.check_ending(out)
    config = configuration.read(file, settings)
    counts = census.draw(config)
    if export is not None:
        from .lab.wire import export as write

        write(config, export)
        print(f"federation: {export}", file=sys.stderr)
    if out is not None:
        plots.save(plots.partition_figure(counts), out)
        print(f"picture: {out}", file=sys.stderr)
    _print(counts.as_object() if json else census_table(counts))


def report(
    folders: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="DIR")],
    out: Path = Path("report.html"),
    figures: Path | None = None,
    baseline: str | None = None,
    json: bool = False,
) -> None:
    """Write one page with the curves, clients, tables and configurations of runs.

    Args:
        folders: Folders of runs, or folders with runs in them, such as runs/cells.
        out: The page; it needs no other file and no network.
        figures: Folder for the same figures as SVG and PDF.
        baseline: The method that the table's differences are taken to; default: the first.
        json: One JSON object on stdout, naming what was written.
    """
    from .lab.page import report as write

    if not folders:
        raise FedtierError("DIR", None, "must be given", "fedtier report runs/cells")
    written = write(folders, out, figures, baseline)
    _print(written if json else "\n".join([written["report"], *written["figures"]]))


def methods(json: bool = False) -> None:
    """List the methods and their options.

    Args:
        json: One JSON object on stdout instead of a table.
    """
    from .lab.report import methods_object, methods_table

    _print(methods_object() if json else methods_table())


def check(file: tyro.conf.Positional[Path], json: bool = False) -> None:
    """Run the battery on your own method or problem.

    Args:
        file: A Python file that defines `method(problem)` or `problem()`; see CONTRIBUTING.
        json: One JSON object on stdout instead of a table.
    """
    from .lab.check import check_file
    from .lab.report import check_table

    outcome = check_file(file)
    _print(outcome if json else check_table(outcome))
    if not all(claim["holds"] for claim in outcome["claims"]):
        raise SystemExit(1)


def cite(file: Config = None, settings: Settings = ()) -> None:
    """Print the BibTeX of what a configuration uses.

    Args:
        file: The configuration; everything has a default.
        settings: Change one key, for example --set method.name=scaffold. May be repeated.
    """
    from .lab import config as configuration
    from .lab.citations import bibliography

    _print(bibliography(configuration.read(file, settings)))


def theory(
    file: Config = None,
    settings: Settings = (),
    *,
    epsilon: float = 0.1,
    verify: bool = False,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Say what the theorems promise for a configuration, or try to refute them.

    Args:
        file: The configuration; without one, the paper's method with everything at its default.
        settings: Change one key, for example --set method.radius=1. May be repeated.
        epsilon: The wanted mean of |grad F|^2, for the predicted rounds.
        verify: Run the experiments that could refute each statement (one to two minutes); needs no configuration.
        out: Folder for the pictures of --verify; none are drawn without it.
        json: One JSON object on stdout instead of tables.
    """
    from .lab.theory import words

    if verify:
        from .lab.theory.verify import verify as attempt

        _use_compilation_cache()
        rows = attempt(out, say=lambda text: print(text, file=sys.stderr, flush=True))
        _print(words.rows_object(rows) if json else words.rows_parts(rows))
        if not all(row.holds for row in rows):
            raise SystemExit(1)
        return
    from .errors import positive
    from .lab import config as configuration
    from .lab.assemble import assemble
    from .lab.theory.page import page

    positive("--epsilon", epsilon)
    named = file is not None or any(setting.startswith("method.name") for setting in settings)
    letter = () if named else ("method.estimator=sphere",)  # the theorems are about the paper's method
    found = page(assemble(configuration.read(file, (*letter, *settings))), epsilon)
    _print(words.page_object(found) if json else words.page_parts(found))


def provision(
    file: tyro.conf.Positional[Path],
    out: Path = Path("kits"),
    renew: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PARTY")] = (),
    json: bool = False,
) -> None:
    """Make kits for a federation over NVIDIA FLARE: one for the server, one for each site, one for an administrator.

    Args:
        file: sites.toml: name, server (the host sites dial), port, sites.
        out: Folder of the kits and of the authority that signs them; kits that are there stay as they are.
        renew: Parties that get a new key and certificate.
        json: One JSON object on stdout instead of words.
    """
    from .lab.flare import make_kits

    kits = make_kits(file, out, renew)
    if json:
        _print({"kits": str(kits.folder), "written": kits.written, "kept": kits.kept})
        return
    lines = [f"written: {kits.folder / name}" for name in kits.written]
    _print("\n".join([*lines, f"keep {kits.folder / 'authority'} to yourself: whoever has it can make kits"]))


def serve(kit: tyro.conf.Positional[Path], run: Path, out: Path | None = None, json: bool = False) -> None:
    """Serve a run to the sites over NVIDIA FLARE; restarts what dies, and goes on with a run that was stopped.

    Args:
        kit: The server's kit, from `fedtier provision`.
        run: run.toml, a configuration with a table [wire].
        out: Folder of the results; the same folder goes on with its run. Default: runs/wire/ and a name by the
            configuration, as `compare --store runs/wire` finds it.
        json: One JSON object on stdout instead of a table.
    """
    from .lab.flare import serve as play
    from .lab.report import final_object, run_table

    result = play(kit, run, out)
    _print(final_object(result) if json else run_table(result))


def join(kit: tyro.conf.Positional[Path], state: Path, data: Path | None = None, site: Path | None = None) -> None:
    """Join a federation as a site: answers the server's rounds until stopped; restarts what dies.

    Args:
        kit: This site's kit, from whoever ran `fedtier provision`.
        state: Folder for what the site remembers between rounds and restarts.
        data: This site's rows: .npz, .csv, .parquet or a folder of images. They never leave this machine.
        site: site.toml, this site's own limits: max_steps, seconds, participation, radius, proximity, ...
    """
    from .lab.flare import join as take_part

    take_part(kit, data, state, site)


def status(kit: tyro.conf.Positional[Path], json: bool = False) -> None:
    """Say who is connected to a federation's server, and how far its run is.

    Args:
        kit: The server's or the administrator's kit.
        json: One JSON object on stdout instead of a table.
    """
    from .lab.flare import status as ask
    from .lab.report import status_table

    found = ask(kit)
    _print(found if json else status_table(found))


def flower(folder: tyro.conf.Positional[Path], run: Path, out: Path | None = None, json: bool = False) -> None:
    """Write the app folder with which `flwr run` plays a run between sites over Flower.

    Args:
        folder: The app's folder, a new one.
        run: run.toml, a configuration with a table [wire].
        out: Folder of the results, on the server; the same folder goes on with its run. Default: runs/wire/ and a name
            by the configuration.
        json: One JSON object on stdout instead of words.
    """
    from .lab.flower.folder import write_app

    written = write_app(folder, run, out)
    _print({"app": str(written)} if json else f"written: {written}")


COMMANDS: dict[str, Any] = {
    "demo": demo, "run": run, "resume": resume, "compare": compare, "reproduce": reproduce, "search": search, "report": report,
    "partition": partition, "theory": theory, "methods": methods, "check": check, "cite": cite,
    "provision": provision, "serve": serve, "join": join, "status": status, "flower": flower,
}  # fmt: skip


def main() -> None:
    """Entry point of the `fedtier` command."""
    warnings.showwarning = _show_warning
    try:
        tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog="fedtier", description="Federated learning on two levels.", config=(tyro.conf.FlagCreatePairsOff,)
        )
    except FedtierError as error:
        raise SystemExit(_fail(f"error: {error}", 2)) from None
    except KeyboardInterrupt:
        raise SystemExit(_fail("stopped", 130)) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(0) from None
    except Exception as error:
        if any(kind.__name__ == "Stopped" for kind in type(error).__mro__):
            raise SystemExit(_fail(str(error), 130)) from None
        raise


def _fail(words: str, status: int) -> int:
    print(words, file=sys.stderr, flush=True)
    return status


def _show_warning(message: Any, category: Any, *rest: Any) -> None:
    if issubclass(category, FedtierWarning):
        print(f"warning: {message}", file=sys.stderr, flush=True)


def _print(what: Any) -> None:
    if isinstance(what, dict):
        print(json.dumps(what))
    elif isinstance(what, str):
        print(what)
    elif sys.stdout.isatty():
        from rich.console import Console

        for part in what:
            Console().print(part, highlight=False, soft_wrap=isinstance(part, str))
    else:
        print(_plain(what), end="")


def _plain(parts: Any) -> str:
    """Tables as text without colour, as wide as they need to be."""
    import io

    from rich.console import Console

    widest = max((Console(width=10_000).measure(part).maximum for part in parts if not isinstance(part, str)), default=0)
    console = Console(width=max(120, widest), file=io.StringIO(), color_system=None)
    for part in parts:
        console.print(part, highlight=False, soft_wrap=isinstance(part, str))
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def _progress(quiet: bool = False) -> Any:
    from .lab.progress import Progress

    return Progress(quiet=quiet)


def _join(hosts: str | None, rank: int | None, of: int | None) -> bool:
    """Joins the other processes, if there are any. Is this the one that speaks?"""
    given = {"--hosts": hosts, "--rank": rank, "--of": of}
    missing = [name for name, value in given.items() if value is None]
    if len(missing) == len(given):
        return True
    if missing:
        raise FedtierError(missing[0], None, "must be given too", "--hosts 10.0.0.1:4040 --rank 0 --of 2")
    from .engines.devices import join_hosts

    sys.stdout = os.fdopen(os.dup(1), "w")  # the library that connects them prints on descriptor 1 ...
    os.dup2(2, 1)  # ... which is for data: send it to stderr
    join_hosts(str(hosts), int(rank or 0), int(of or 0))
    return rank == 0


def _new_folder(name: str) -> Path:
    import datetime

    base = Path("runs") / f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{name}"
    return next(f for f in [base, *(base.with_name(f"{base.name}-{k}") for k in range(2, 1000))] if not f.exists())


def _use_compilation_cache() -> None:
    from .lab.cache import use_compilation_cache

    use_compilation_cache()
