"""What the README shows works as it stands there, and is the text of the examples and of the notebooks."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from fedtier.experiments import config

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)
QUICK = {"rounds=60": "rounds=2", "rounds=50": "rounds=2", "seeds=10": "seeds=2", "seeds=5": "seeds=2", "seeds=3": "seeds=2"}
SHOWN = {"ten_lines": "docs/index.md", "hospitals": "docs/gallery/own-data.md"}


def run(code: str, monkeypatch) -> dict:
    """The code as it is written, but for how long it runs."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    for long, short in QUICK.items():
        code = code.replace(long, short)
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    return names


@pytest.mark.parametrize(("place", "name"), list(enumerate(SHOWN)))
def test_the_readme_the_example_and_the_notebook_have_one_text(place, name):
    text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    assert text.split('"""', 2)[2].strip() == BLOCKS[place].strip()
    assert f"examples/{name}.py" in (ROOT / SHOWN[name]).read_text(encoding="utf-8")  # loaded, not copied


@pytest.mark.slow
def test_ten_lines_end_in_personal_models(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 10
    names = run(BLOCKS[0], monkeypatch)
    assert [*names["result"].personal] == [str(k) for k in range(10)] and names["mine"] is not None
    assert "worst client" in capsys.readouterr().out and not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_the_example_of_the_hospitals_runs(monkeypatch, capsys):
    names = run(BLOCKS[1], monkeypatch)
    assert set(names["result"].personal) == {"basel", "geneva", "lugano", "zurich"} == set(names["data"].clients)
    assert "\\toprule" in capsys.readouterr().out and [row["method"] for row in names["table"].rows] == ["ours", "FedAvg"]


@pytest.mark.slow
def test_the_problem_of_one_s_own_runs(monkeypatch, capsys):
    run(BLOCKS[2], monkeypatch)
    assert "zo_hfl" in capsys.readouterr().out and len(BLOCKS) == 3


def test_the_configuration_is_accepted():
    (text,) = re.findall(r"```toml\n(.*?)```", README, re.S)
    shown = config.validate(tomllib.loads(text))
    assert shown == config.validate({}), "every value that the README shows is the default"
