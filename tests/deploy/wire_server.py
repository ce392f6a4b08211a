"""A whole federation from one command, for the tests to kill: python -m tests.deploy.wire_server FEDERATION FOLDER

The server is this process; every site is a child of it. Prints a line when the run is under way, and its children's numbers.
"""

import sys
from pathlib import Path

from fedtier.compilation import use_compilation_cache
from fedtier.deploy.server import serve_rounds
from fedtier.deploy.settings import load_run_file
from fedtier.deploy.site_table import site_command
from fedtier.experiments.progress import Progress
from fedtier.protocol import Letters, SolverProcess


def main(federation: Path, folder: Path) -> None:
    use_compilation_cache()
    run = load_run_file(federation / "run.toml")
    names = run.wire.sites
    solvers = {
        name: SolverProcess(site_command(federation / f"{name}.toml", folder.parent / f"{folder.name}-{name}"))
        for name in names
    }

    def ask(letters: Letters, seconds: float) -> dict[str, bytes]:
        replies = {name: solvers[name].answer(letters.whole(name), seconds) for name in letters.own}
        print("children", *(solvers[name].pid for name in names), flush=True)
        return {name: reply for name, reply in replies.items() if reply is not None}

    serve_rounds(federation / "run.toml", folder, ask, progress=Progress())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
