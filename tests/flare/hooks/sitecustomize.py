"""What a site's owner may do on his own machine: put another executor into FLARE's job, or take a check out of ours.

HOSTILE_EXECUTOR    the file that is loaded as fedtier.deploy.flare.executor
OPEN_EXECUTOR       the executor as it is, but without its look at the sender: the signature alone must hold
SLOW_EXECUTOR       the executor as it is, but each task takes so many seconds longer
DYING_SOLVER        the executor as it is, but its solver is killed before it answers the first letter of each of these kinds
DYING_SITE          KIND ROUND FILE: every process of the site is killed when this letter comes, once: FILE says that it was
"""

import importlib.abc
import importlib.util
import os
import signal
import sys
import time

NAME = "fedtier.deploy.flare.executor"


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != NAME:
            return None
        if "HOSTILE_EXECUTOR" in os.environ:
            return importlib.util.spec_from_file_location(NAME, os.environ["HOSTILE_EXECUTOR"])
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(NAME)
        load = spec.loader.exec_module

        def load_and_open(module):
            load(module)
            if "OPEN_EXECUTOR" in os.environ:
                module.from_server = lambda origin: True
            if "SLOW_EXECUTOR" in os.environ:
                module.SolverProcess = slowed(module.SolverProcess, float(os.environ["SLOW_EXECUTOR"]))
            if "DYING_SOLVER" in os.environ:
                module.SolverProcess = dying(module.SolverProcess, os.environ["DYING_SOLVER"].split())
            if "DYING_SITE" in os.environ:
                module.SolverProcess = doomed(module.SolverProcess, *os.environ["DYING_SITE"].split())

        spec.loader.exec_module = load_and_open
        return spec


def slowed(solver, seconds):
    from fedtier.protocol import letters
    from fedtier.protocol.signatures import opened

    class Slow(solver):
        def answer(self, letter, limit=None):
            reply = super().answer(letter, limit)
            if letters.about(opened(letter))["kind"] == "ROUND":
                time.sleep(seconds)
            return reply

    return Slow


def dying(solver, kinds):
    from fedtier.protocol import letters
    from fedtier.protocol.signatures import opened

    class Dying(solver):
        def answer(self, letter, limit=None):
            kind = letters.about(opened(letter))["kind"]
            if kind in kinds and self.pid is not None:
                kinds.remove(kind)
                os.kill(self.pid, signal.SIGKILL)
            return super().answer(letter, limit)

    return Dying


def doomed(solver, kind, number, file):
    import psutil

    from fedtier.deploy.flare.supervise import MARK
    from fedtier.protocol import letters
    from fedtier.protocol.signatures import opened

    class Doomed(solver):
        def answer(self, letter, limit=None):
            about = letters.about(opened(letter))
            if about["kind"] == kind and about["round"] == int(number) and not os.path.exists(file):
                open(file, "w").close()
                for process in psutil.process_iter():
                    try:
                        if process.pid != os.getpid() and process.environ().get(MARK) == os.environ[MARK]:
                            process.kill()
                    except psutil.Error:
                        continue
                os.kill(os.getpid(), signal.SIGKILL)
            return super().answer(letter, limit)

    return Doomed


HOOKS = {"HOSTILE_EXECUTOR", "OPEN_EXECUTOR", "SLOW_EXECUTOR", "DYING_SOLVER", "DYING_SITE"}
if HOOKS & os.environ.keys():
    sys.meta_path.insert(0, Finder())
