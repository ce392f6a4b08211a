"""Where a run's numbers come from beside its configuration: the rows, the code, the packages and the machine."""

from __future__ import annotations

import functools
import hashlib
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import jax

from ..own_code import by_path
from ..storage.json_value import Json
from .tables import Config

PACKAGE = Path(__file__).parents[1]
NUMERIC = (
    "trees",
    "keys",
    "schedules",
    "compilation",
    "problem",
    "datasets",
    "federation",
    "methods",
    "engines",
    "privacy",
    "own_code",
    "experiments",
)


class Origin(NamedTuple):
    """What else than its configuration determines a run's numbers."""

    data: str  # digest of the rows
    code: str  # digest of the package's source


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return None


def package_versions() -> dict[str, str | None]:
    """Of fedtier and of the packages that determine its numbers."""
    packages = ("fedtier", "jax", "jaxlib", "optax", "equinox", "numpy", "safetensors")
    return {name: _version(name) for name in packages}


def environment() -> dict[str, Json]:
    device = jax.devices()[0]
    return {
        "versions": package_versions(),
        "code": code_digest(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": f"{device.platform}: {device.device_kind}",
        "devices": jax.device_count(),
        "commit": _commit(),
    }


@functools.cache
def code_digest() -> str:
    """Twelve letters for the package's own source: results of another version are not taken for those of this one."""
    content = hashlib.sha256()
    for room in NUMERIC:
        for file in sorted(PACKAGE.glob(f"{room}/**/*.py" if (PACKAGE / room).is_dir() else f"{room}.py")):
            content.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0" + file.read_bytes())
    return content.hexdigest()[:12]


def code_of(config: Config) -> str:
    """`code_digest`, and the content of the user's own files where the configuration names some."""
    own = by_path.digest([config.method.name, config.method.problem or "", config.model.name, config.data.name])
    return f"{code_digest()}-{own}" if own else code_digest()


def _commit() -> str | None:
    """The commit of this package's own repository; none where the package merely lies inside another one."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(PACKAGE), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        ours = git("ls-files", "--error-unmatch", "__init__.py")  # tracked there, not merely lying there
        return git("rev-parse", "HEAD") or None if ours else None
    except OSError:
        return None
