"""What the README shows works as it stands there."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_library_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_configuration_is_accepted():
    import tomllib

    from fedtier.experiments import config

    (text,) = re.findall(r"```toml\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert config.validate(tomllib.loads(text)).method.name == "zo_hfl"
