"""What the documentation makes from the code is complete. `make docs` builds the pages and runs their notebooks."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

from fedtier_pages import (  # noqa: E402
    api_reference,
    command_reference,
    config_reference,
    equations,
    known_answers,
    method_keys,
    method_pages,
)

from fedtier.cli import COMMANDS  # noqa: E402
from fedtier.datasets import SETS, references  # noqa: E402
from fedtier.experiments import config  # noqa: E402
from fedtier.methods import METHODS, registry  # noqa: E402

TABLES = config.TABLES | config_reference.BETWEEN_SITES
KEYS = [(table, key) for table, kind in TABLES.items() for key in kind.model_fields]


def test_nothing_public_is_undocumented():
    assert api_reference.undocumented() == []


def test_every_public_module_stands_on_exactly_one_page_of_the_library():
    shown = [name for page in DOCS.glob("api/*.md") for name in re.findall(r"^% generated: api (\S+)$", page.read_text(), re.M)]
    assert sorted(shown) == sorted(api_reference.MODULES)
    packages = {f"fedtier.{name}" for name in ("problem", "federation", "datasets", "methods", "engines", "protocol")}
    assert packages <= set(shown)


def test_a_docstring_that_nobody_wrote_does_not_count():
    from typing import NamedTuple

    class Silent(NamedTuple):
        x: int

    class Child(Exception): ...

    assert api_reference.own_docstring(Silent) == "" and api_reference.own_docstring(Child) == ""


def test_every_data_set_stands_on_its_page_and_every_published_one_has_something_to_cite():
    page = (DOCS / "data-sets.md").read_text()
    listed = re.findall(r"^\| `([\w-]+)` \|", page, re.M)
    assert sorted(listed) == sorted(name for name in SETS if name != "file")
    assert set(listed) - {"synthetic", "quadratic"} == set(references.CITATIONS)
    natural = listed[len(listed) - sum(one.natural for one in SETS.values()) :]
    assert {name for name, one in SETS.items() if one.natural} == set(natural)  # the lower rows, as the page says


PRIVATE = {"kind": "clients", "epsilon": 8.0}
OF_PRIVACY = {"quorum": {"place": "distributed"}, "by_rows": {"kind": "rows"}, "public_sizes": {"kind": "rows"}}
OWN, MADE, NATURAL = {"file": "rows.csv"}, {"name": "synthetic", "partition": "iid"}, {"file": "rows.csv", "owner": "who"}
NEEDED = {
    "server_seat": {"name": "fedavg"}, "classes_per_client": {"partition": "classes"},
    **dict.fromkeys(("rows", "features", "classes", "spread"), MADE),
    **dict.fromkeys(("min_rows", "small_clients"), NATURAL),
    "share": {"kind": "signs"}, "scale": {"kind": "large"},
    "step_seconds": {"speed_spread": 1.0}, "latency": {"speed_spread": 1.0}, "server_copy": {"name": "fed-heart-disease"},
    **dict.fromkeys(
        (
            "label", "owner", "weight", "drop", "keep", "categories", "missing", "missing_words", "decimal", "max_categories",
            "task", "header", "image_size",
        ),
        OWN,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("table", "key"), KEYS, ids=[f"{table}.{key}" for table, key in KEYS])
def test_every_key_has_a_meaning_and_an_example_that_is_accepted(table, key, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def problem(loss): ...")  # that the example of method.problem names
    field = TABLES[table].model_fields[key]
    assert field.description and field.description.endswith((".", "?"))
    (example,) = field.examples
    assert example is not None and example != field.default
    if table in config.TABLES:
        private = table == "privacy"
        needed = PRIVATE | OF_PRIVACY.get(key, {}) if private else NEEDED.get(key, {})
        method = {"privacy": "fedavg", "clients": "codistil", "model": "fedavg"}.get(table)
        beside = {"method": {"name": method}} if method else {}
        assert getattr(getattr(config.validate(beside | {table: needed | {key: example}}), table), key) == example
    else:
        others = {name: other.examples[0] for name, other in TABLES[table].model_fields.items() if other.is_required()}
        assert getattr(TABLES[table].model_validate(others | {key: example}), key) == example


def test_the_reference_of_keys_lists_every_key_with_its_default():
    text = config_reference.config_reference() + config_reference.wire_reference()
    for table, key in KEYS:
        assert (f"`{table}.{key}`" if table in config.TABLES else f"`{key}`") in text
    assert re.search(r"\| `run\.rounds` \| whole number, at least 0 \| `200` \| rounds \| `500` \|", text)


@pytest.mark.parametrize("name", METHODS)
def test_every_key_of_a_method_has_a_meaning_and_an_example_of_its_kind(name):
    for key in registry.options(name):
        meaning, _, example = method_keys.METHOD_KEYS[key]
        assert meaning.endswith(".") and example is not None
        registry.sketch(name, _beside(name, key) | {key: example})


def _beside(name, key):
    """What else must be given for this key to have a meaning."""
    guided = {"estimator": "guided"} if name == "zo_hfl" else {}
    several = {"uplink": "values"} if name == "codistil" else {}
    memory = {"remembered": 10}
    return {"guide": guided, "mix": guided, "directions": several, "spread": memory}.get(key, {})


def test_no_meaning_is_left_over_from_a_key_that_is_gone():
    assert set(method_keys.METHOD_KEYS) == {key for name in METHODS for key in registry.options(name)}


def test_the_reference_of_commands_lists_every_command_with_its_own_help():
    text = command_reference.command_reference()
    assert re.findall(r"^### fedtier (\S+)$", text, re.M) == list(COMMANDS)
    for name in COMMANDS:
        help_text = command_reference.help_text(name)
        assert help_text.startswith(f"usage: fedtier {name}") and help_text in text
    assert "--set TABLE.KEY=VALUE" in text and "\x1b" not in text


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_an_equation_and_a_known_answer_in_the_table(name):
    (method,) = [one for one in method_pages.methods() if one.name == name]
    formulas = [formula for line in equations.lines(method.docstring) for formula in equations.latex(line)]
    assert any(r"\leftarrow" in formula for formula in formulas)
    assert known_answers.known_answers()[name]
    row = method_pages.method_table().split(f"(#method-{name})")[1].split("* - ")[0]
    assert formulas[0] in row and "#answer-" in row
    assert bool(METHODS[name].reference) == ("http" in row)


@pytest.mark.parametrize(
    ("plain", "latex"),
    [
        ("y_i <- y_i - tilde_gamma_t grad f1(y_i)", [r"y_{i} \leftarrow y_{i} - \tilde\gamma_{t} \nabla f_1 ( y_{i} )"]),
        ("c_i+ <- c_i     unchanged when H_i = 0", [r"c_{i}^{+} \leftarrow c_{i}", r"\text{ unchanged when } H_{i} = 0"]),
        ("x_{r+1} = x_r ± eta v", [r"x_{r+1} = x_{r} \pm \eta v"]),
    ],
)  # fmt: skip
def test_plain_equations_become_latex(plain, latex):
    assert [re.sub(r" +", " ", formula) for formula in equations.latex(plain)] == latex


def test_known_answers_are_read_from_the_marks_of_tests(tmp_path):
    (tmp_path / "test_a.py").write_text(
        '@pytest.mark.known_answer("one", "two")\ndef test_it_is_so():\n    pass\n\ndef test_other(): pass'
    )
    found = known_answers.known_answers(tmp_path)
    assert {name: [answer.sentence for answer in answers] for name, answers in found.items()} == {
        "one": ["it is so"],
        "two": ["it is so"],
    }


def test_every_page_is_reached_from_the_first():
    def targets(page: Path) -> set[Path]:
        trees = re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
        names = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
        return {(page.parent / f"{name}.md").resolve() for name in names}

    reached, waiting = set(), {(DOCS / "index.md").resolve()}
    while waiting:
        page = waiting.pop()
        reached.add(page)
        waiting |= targets(page) - reached
    assert reached == {page.resolve() for page in DOCS.rglob("*.md") if "_ext" not in page.parts}


def test_the_toml_blocks_of_the_pages_are_toml():
    for page in DOCS.glob("*.md"):
        for block in re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
            tomllib.loads(block)


def test_bash_completes_commands_and_options(tmp_path):
    script = subprocess.run(
        [sys.executable, "-m", "fedtier", "--tyro-print-completion", "bash"], capture_output=True, text=True, check=True
    ).stdout
    (tmp_path / "completion").write_text(script)
    (function,) = re.findall(r"^complete -F (\S+) fedtier$", script, re.M)

    def completed(*words: str) -> set[str]:
        line = " ".join(words)
        program = f"""source {tmp_path / "completion"}
        COMP_WORDS=({" ".join(word or "''" for word in words)}); COMP_CWORD={len(words) - 1}
        COMP_LINE="{line}"; COMP_POINT={len(line)}
        {function} fedtier; printf '%s\\n' "${{COMPREPLY[@]}}" """
        out = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True).stdout
        return {word.strip() for word in out.splitlines()}

    assert completed("fedtier", "re") >= {"resume", "reproduce", "report"}
    assert "--seeds" in completed("fedtier", "run", "--se")
