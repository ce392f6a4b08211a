"""The command line. stdout is data, stderr is progress and words; errors say what to do and exit with 2."""

from __future__ import annotations

import gc
import sys
import warnings
from typing import Any

import tyro

from .. import __version__
from ..errors import FedtierError, FedtierWarning
from .compare import compare, report, reproduce, search
from .guidance import refuse_unknown_words
from .looks import check, cite, methods, partition, theory
from .models import adapt, export_model, predict
from .privacy import privacy
from .runs import demo, resume, run
from .sites import flower, join, provision, record, request, revoke, serve
from .watching import status, watch

COMMANDS: dict[str, Any] = {
    "demo": demo, "run": run, "resume": resume, "compare": compare, "reproduce": reproduce, "search": search, "report": report,
    "watch": watch, "predict": predict, "adapt": adapt, "export-model": export_model,
    "partition": partition, "theory": theory, "methods": methods, "check": check, "cite": cite, "privacy": privacy,
    "provision": provision, "request": request, "revoke": revoke, "serve": serve, "join": join, "status": status,
    "record": record, "flower": flower,
}  # fmt: skip


def main() -> None:
    """Entry point of the `fedtier` command."""
    warnings.showwarning = _show_warning
    gc.set_threshold(50_000, 20, 20)  # tracing makes objects by the hundred thousand, most of which stay
    if sys.argv[1:] == ["--version"]:
        print(f"fedtier {__version__}")
        return
    try:
        refuse_unknown_words(sys.argv[1:], COMMANDS)
        tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            prog="fedtier",
            description="Federated learning on two levels. `fedtier --version` says which version this is.",
            config=(tyro.conf.FlagCreatePairsOff,),
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
        own = sys.modules.get("fedtier.own_code.by_path")
        words = None if own is None else own.blamed(error)
        if words is None:
            raise
        raise SystemExit(_fail(f"error: your own code fails: {words}", 2)) from None


def _fail(words: str, status: int) -> int:
    print(words, file=sys.stderr, flush=True)
    return status


def _show_warning(message: Any, category: Any, *rest: Any) -> None:
    if issubclass(category, FedtierWarning):
        print(f"warning: {message}", file=sys.stderr, flush=True)
