"""The command line. stdout is data, stderr is progress and words; errors say what to do and exit with 2."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import tyro

from .errors import FedtierError, FedtierWarning

Config = Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="FILE.toml")]
Settings = Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(name="set", metavar="TABLE.KEY=VALUE")]


def run(
    file: Config = None,
    settings: Settings = (),
    seeds: int | None = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Run one configuration.

    Args:
        file: The configuration; everything has a default.
        settings: Change one key, for example --set data.alpha=1. May be repeated.
        seeds: How many seeds to run at once, from run.seed on.
        out: Folder of the results, a new one; default: runs/DATE-METHOD-DATA.
        json: One JSON object on stdout instead of a table.
    """
    from .lab import config as configuration
    from .lab.report import final_object, run_table
    from .lab.run import run as play

    config = configuration.read(file, [*settings, *([f"run.seeds={seeds}"] if seeds is not None else [])])
    _use_compilation_cache()
    result = play(config, out or _new_folder(f"{config.method.name}-{config.data.name}"), progress=_progress())
    _print(final_object(result) if json else run_table(result))


def demo(out: Path | None = None) -> None:
    """Compare ZO-HFL with FedAvg, SCAFFOLD, server-only and local-only on embedded data.

    Args:
        out: Folder of the results, a new one; default: runs/DATE-demo.
    """
    from .lab.demo import demo as play

    _use_compilation_cache()
    _print(play(out or _new_folder("demo"), _progress()))


def resume(folder: tyro.conf.Positional[Path], json: bool = False) -> None:
    """Go on with a run that was stopped, from its last checkpoint.

    Args:
        folder: The run's folder.
        json: One JSON object on stdout instead of a table.
    """
    from .lab.report import final_object, run_table
    from .lab.run import resume as play

    _use_compilation_cache()
    result = play(folder, progress=_progress())
    _print(final_object(result) if json else run_table(result))


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


COMMANDS: dict[str, Any] = {"demo": demo, "run": run, "resume": resume, "methods": methods, "check": check, "cite": cite}


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
        if type(error).__name__ == "Stopped":
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
    else:
        from rich.console import Console

        console = Console(width=None if sys.stdout.isatty() else 120)
        for part in what:
            console.print(part, highlight=False, soft_wrap=isinstance(part, str))


def _progress() -> Any:
    from .lab.progress import Progress

    return Progress()


def _new_folder(name: str) -> Path:
    import datetime

    base = Path("runs") / f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{name}"
    return next(f for f in [base, *(base.with_name(f"{base.name}-{k}") for k in range(2, 1000))] if not f.exists())


def _use_compilation_cache() -> None:
    """Compiled programs are kept between runs; FEDTIER_CACHE moves the folder, an empty value turns it off."""
    import os

    import jax
    import pooch

    folder = os.environ.get("FEDTIER_CACHE", str(Path(pooch.os_cache("fedtier")) / "xla"))
    if folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
