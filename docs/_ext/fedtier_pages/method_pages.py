"""The table of methods and the page with everything about each, from the registry and the docstrings of the methods."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import Any, NamedTuple

from fedtier.methods import registry

from . import equations
from .known_answers import known_answers
from .markdown import code, table
from .method_keys import METHOD_KEYS

BIBTEX = re.compile(r"(\w+)\s*=\s*\{(.*?)\}\s*(?:,\s*\n|\n\})", re.S)


class Method(NamedTuple):
    """What the pages say about one method."""

    name: str
    title: str
    family: str
    summary: str
    docstring: str
    bibtex: str
    link: str

    @property
    def reference(self) -> str:
        """Authors and year, with the link to the paper; a dash for a yardstick of our own."""
        if not self.bibtex:
            return "–"
        fields = dict(BIBTEX.findall(self.bibtex))
        authors = [name.split(",")[0].strip() for name in re.split(r"\s+and\s+", fields["author"])]
        short = authors[0] if len(authors) == 1 else " and ".join(authors) if len(authors) == 2 else f"{authors[0]} et al."
        return f"[{short} {fields['year']}]({self.link})" if self.link else f"{short} {fields['year']}"


def methods() -> list[Method]:
    """The registered methods, in the order of the registry."""
    found = []
    for name, entry in registry.METHODS.items():
        docstring = inspect.cleandoc(inspect.getmodule(entry.factory).__doc__ or "")
        title = getattr(entry, "title", "") or re.split(r"[:.]", docstring.splitlines()[0])[0]
        link = re.search(r"https?://[^\s}]+", entry.reference) or re.search(r"https?://[^\s;]+", docstring)
        found.append(
            Method(
                name, title, getattr(entry, "family", ""), entry.summary, docstring, entry.reference, link[0] if link else ""
            )
        )
    return found


@cache
def method_table() -> str:
    """One row a method: what it is, its equation, its known-answer test, its reference."""
    answers = known_answers()
    rows = [
        "```{list-table}",
        ":header-rows: 1",
        ":widths: 22 44 22 12",
        ":class: methods",
        "",
        "* - Method",
        "  - One round",
        "  - Known answer",
        "  - Paper",
    ]
    for method in methods():
        tests = answers.get(method.name, [])
        sentences = "; ".join(f"[{test.sentence}](#answer-{method.name}-{test.name})" for test in tests[:1]) or "none"
        lines = [f"${formula}$" for line in equations.lines(method.docstring) for formula in _formulas(line)]
        rows += [
            f"* - [{method.title}](#method-{method.name})", "", f"    {method.summary}",
            "  - " + "\n\n    ".join(lines), f"  - {sentences}", f"  - {method.reference}",
        ]  # fmt: skip
    return "\n".join([*rows, "```"])


def method_pages() -> str:
    """A section for each method: the docstring with its equations set, the keys, the known answers with their code."""
    answers = known_answers()
    return "\n\n".join(_section(method, answers.get(method.name, [])) for method in methods())


def _section(method: Method, tests: list[Any]) -> str:
    before, formulas, after = _split(method.docstring)
    parts = [f"(method-{method.name})=\n## {method.title}", f'`method.name = "{method.name}"`: {method.summary}.']
    parts += [before] if before else []
    parts += ["\n".join(["$$", r"\begin{aligned}", *formulas, r"\end{aligned}", "$$"])] if formulas else []
    parts += [after, "### Keys of " + method.title, key_table(method.name)]
    if tests:
        parts.append("### Known answers of " + method.title)
    for test in tests:
        heading = f"(answer-{method.name}-{test.name})=\n**{test.sentence[0].upper()}{test.sentence[1:]}** (`{test.file}`)"
        parts += [heading, f"```python\n{test.source}\n```"]
    if method.bibtex:
        parts.append(f"```bibtex\n{method.bibtex}\n```")
    return "\n\n".join(part for part in parts if part)


def _split(docstring: str) -> tuple[str, list[str], str]:
    """(prose before the equations, the equations as rows of an `aligned`, prose after them); the first line is a heading."""
    lines = docstring.splitlines()[1:]
    marked = [bool(line.startswith("    ") and line.strip()) for line in lines]
    if not any(marked):
        return prose("\n".join(lines)), [], ""
    first = marked.index(True)
    last = first
    while last < len(lines) and (marked[last] or not lines[last].strip()):
        last += 1
    rows = [_row(line) for line in lines[first:last] if line.strip()]
    return prose("\n".join(lines[:first])), rows, prose("\n".join(lines[last:]))


def _formulas(line: str) -> list[str]:
    """The formulas of a line, without its remarks."""
    first, *rest = equations.latex(line)
    return [first, *(formula for formula in rest if r"\leftarrow" in formula)]


def _row(line: str) -> str:
    formula, *remarks = equations.latex(line)
    aligned = re.sub(r"(\\leftarrow|(?<![<>])=)", r"&\1", formula, count=1)
    aligned = aligned if "&" in aligned else f"& {aligned}"
    return " ".join([aligned, *(rf"\qquad {remark}" for remark in remarks)]) + r" \\"


def prose(text: str) -> str:
    """A docstring's prose as Markdown: bare links become links, characters of Markdown stay characters."""
    text = re.sub(r"(?<![`<(])(https?://[^\s,)]+)", r"<\1>", text.strip())
    pieces = re.split(r"(`[^`]*`|<https?://[^>]+>)", text)
    return "".join(piece if k % 2 else re.sub(r"([*_$|])", r"\\\1", piece) for k, piece in enumerate(pieces))


def key_table(name: str) -> str:
    """The keys of a method: what they are in the paper, what is recommended, unit, example, meaning."""
    paper, recommended = (registry.defaults(name, preset) for preset in ("paper", "recommended"))
    rows = []
    for key in registry.options(name):
        meaning, unit, example = METHOD_KEYS[key]
        rows.append([f"`{key}`", code(recommended[key]), code(paper[key]), unit, code(example), meaning])
    return table(["key", "recommended", "paper", "unit", "example", "meaning"], rows)
