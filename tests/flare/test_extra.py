"""The extra stays an extra: nothing imports FLARE before it is needed, and its absence is told in words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fedtier.deploy.flare.extra import need_flare
from fedtier.errors import FedtierError

PROGRAM = """
import sys
from fedtier.cli import main
sys.argv = ["fedtier", "{word}", "--help"]
try:
    main()
except SystemExit:
    pass
print("loaded:", *sorted({{name.partition(".")[0] for name in sys.modules}} & {{"nvflare", "jax"}}))
"""


@pytest.mark.parametrize("word", ["serve", "join", "status", "provision"])
def test_help_loads_neither_flare_nor_jax(word: str) -> None:
    said = subprocess.run([sys.executable, "-c", PROGRAM.format(word=word)], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "loaded:"


def test_without_the_extra_the_line_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FedtierError) as refusal:
        need_flare()
    assert 'pip install "fedtier[flare]"' in str(refusal.value)


def test_only_the_adapter_imports_flare() -> None:
    source = Path(sys.modules["fedtier.errors"].__file__ or "").parent
    users = {
        path.relative_to(source).parts[:2]
        for path in source.rglob("*.py")
        if "import nvflare" in (t := path.read_text()) or "from nvflare" in t
    }
    assert users == {("deploy", "flare")}
