"""One run, from its configuration or from where it was stopped: assembled, written into a folder, played to its end."""

from __future__ import annotations

from pathlib import Path

from ..errors import FedtierError, require
from ..own_code.naming import short
from .assemble import Experiment, assemble
from .config import load_config
from .privacy_page import ended_early, refuse_overspending
from .profile import Profile
from .progress import Progress
from .run_folder import RunFolder, new_folder
from .session import Listen, Listener, Result, Session, nobody
from .tables import Config


def run_experiment(
    config: Config,
    folder: Path | None = None,
    *,
    progress: Progress,
    experiment: Experiment | None = None,
    listen: Listen = nobody,
    profile: Profile | None = None,
) -> Result:
    """Runs `config` into `folder`, a new one; by default runs/DATE-METHOD-DATA. `listen` opens a listener once the folder
    exists, `profile` gets the times."""
    profile = profile or Profile()
    if experiment is None:
        with profile.span("data"):
            experiment = assemble(config)
    if experiment.config.run.rounds < config.run.rounds:
        progress.say(ended_early(config, experiment.config))
    with RunFolder(folder or new_folder(f"{short(config.method.name)}-{short(config.data.name)}")).held() as files:
        return begin(experiment, files, progress=progress, listen=listen, profile=profile)


def resume_experiment(folder: Path, *, progress: Progress, listen: Listen = nobody, rounds: int | None = None) -> Result:
    """Goes on from the last checkpoint, bit for bit as if nothing had happened (on the same device); a listener hears
    the rows from there on. With `rounds` the run is extended to so many: it is then the run that had them from the start."""
    require(folder.is_dir(), "DIR", str(folder), "is not there", "give the folder that `fedtier run` named")
    if not (folder / "config.toml").exists():
        raise FedtierError("DIR", str(folder), "holds no run", "give the folder that `fedtier run` named")
    if (folder / "wire.json").exists():
        raise FedtierError("DIR", str(folder), "holds a run between sites", "start its server again, with the same folder")
    with RunFolder(folder).held() as files:
        config = load_config(folder / "config.toml")
        if rounds is not None:
            config = _extended(config, files, rounds)
        return go_on(assemble(config), files, progress=progress, listen=listen)


def _extended(config: Config, files: RunFolder, rounds: int) -> Config:
    """The configuration with more rounds, written down; what belonged to the old end alone goes. One that was extended to so
    many already and has not got there, because it was stopped, is as it should be."""
    last = config.run.rounds
    if rounds == last and not (files.folder / "clients.json").exists():
        return config
    require(rounds > last, "--rounds", rounds, f"must be more than the {last} that the run has", "a run is never shortened")
    longer = config.model_copy(update={"run": config.run.model_copy(update={"rounds": rounds})})
    refuse_overspending(longer)
    files.write("config.toml", longer.toml().encode())
    for name in ("plan.safetensors", "clients.json"):
        (files.folder / name).unlink(missing_ok=True)
    files.log(f"extended from {last} to {rounds} rounds")
    return longer


def begin(
    experiment: Experiment, files: RunFolder, *, progress: Progress, listen: Listen = nobody, profile: Profile | None = None
) -> Result:
    """The run from its start, in a folder that this process holds."""
    files.refuse_second_run()
    listener = listen(experiment.config, files.folder)  # one that cannot start leaves the folder free for the next attempt
    files.begin(experiment.config, experiment.dataset.digest())
    return _heard(Session(experiment, files, progress, profile or Profile()), listener)


def go_on(experiment: Experiment, files: RunFolder, *, progress: Progress, listen: Listen = nobody) -> Result:
    """The run from its last checkpoint, in a folder that this process holds."""
    session = Session(experiment, files, progress, Profile())
    session.restore()
    return _heard(session, listen(experiment.config, files.folder))


def _heard(session: Session, listener: Listener) -> Result:
    finished = False
    try:
        result = session.play(listener)
        finished = True
    finally:
        listener.close(finished)
    return result
