"""Which test checks which method against a known answer: tests say so themselves, with @pytest.mark.known_answer("fedavg")."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[3] / "tests"


class Answer(NamedTuple):
    """A test with a known answer."""

    method: str
    name: str
    file: str  # from the root of the repository
    source: str

    @property
    def sentence(self) -> str:
        return self.name.removeprefix("test_").replace("_", " ")


@cache
def known_answers(folder: Path = TESTS) -> dict[str, list[Answer]]:
    """The marked tests of each method, in the order of the files."""
    found: dict[str, list[Answer]] = {}
    for file in sorted(folder.rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if "known_answer" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            for method in _methods(node):
                source = ast.get_source_segment(text, node) or ""
                answer = Answer(method, node.name, str(file.relative_to(folder.parent)), source)  # pyright: ignore
                found.setdefault(method, []).append(answer)
    return found


def _methods(node: ast.AST) -> list[str]:
    if not isinstance(node, ast.FunctionDef):
        return []
    marks = [mark for mark in node.decorator_list if isinstance(mark, ast.Call)]
    ours = [mark for mark in marks if ast.unparse(mark.func) == "pytest.mark.known_answer"]
    return [ast.literal_eval(argument) for mark in ours for argument in mark.args]
