"""Packages that look their names up late."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["protocol.process", "deploy.flare.join", "deploy.flare.joining", "deploy.flare.names", "deploy.site_table"]
)
def test_what_only_carries_bytes_or_checks_words_loads_no_jax(module: str) -> None:
    program = f"import sys, fedtier.{module}; print({{'jax', 'numpy', 'nvflare'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_a_sub_module_does_not_hide_the_function_of_its_name() -> None:
    program = (
        "import fedtier.engines.compiled, fedtier.protocol.loopback\n"
        "from fedtier.engines import compiled\n"
        "from fedtier.protocol import loopback\n"
        "print(compiled.__module__, loopback.__module__)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said == "fedtier.engines.compiled fedtier.protocol.loopback\n"


def test_every_name_that_a_package_promises_is_there() -> None:
    program = (
        "import fedtier.engines, fedtier.protocol\n"
        "print([name for p in (fedtier.engines, fedtier.protocol) for name in p.__all__ if not hasattr(p, name)])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_run_loads_nothing_that_only_some_runs_need() -> None:
    """scipy.stats alone takes two seconds, at every start of a command, a solver and a site."""
    program = (
        "import sys, fedtier.experiments.run; print({'scipy.stats', 'sklearn', 'matplotlib', 'pandas'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_importing_any_module_starts_no_device() -> None:
    """Processes that compute as one must join before JAX counts its devices."""
    program = (
        "import importlib, pkgutil, fedtier\n"
        "from jax._src import xla_bridge\n"
        "outside = ('__main__', 'flare', 'flower')\n"
        "for found in pkgutil.walk_packages(fedtier.__path__, 'fedtier.'):\n"
        "    if not any(part in outside for part in found.name.split('.')):\n"
        "        importlib.import_module(found.name)\n"
        "        assert not xla_bridge.backends_are_initialized(), found.name"
    )
    subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    import fedtier.engines

    with pytest.raises(AttributeError, match=r"module 'fedtier.engines' has no attribute 'compiles'"):
        _ = fedtier.engines.compiles  # pyright: ignore[reportAttributeAccessIssue]
