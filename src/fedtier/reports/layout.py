"""A table of words in the formats that people paste: markdown, LaTeX, and rich for the terminal."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

WORDS = 24  # letters of a column of words; what is longer goes on in a second line
WIDTH = 80  # of a terminal that nobody has made wider


def folded(words: str) -> str:
    """A sentence in lines of at most 80 letters; a path stays whole."""
    return textwrap.fill(words, WIDTH, break_long_words=False, break_on_hyphens=False)


class Grid(NamedTuple):
    headings: list[str]
    rows: list[list[str]]
    left: int  # so many first columns are words, the others numbers
    title: str = ""
    groups: list[str] | None = None  # of each row; a rule stands where it changes

    def breaks(self) -> list[bool]:
        """Whether a rule stands before each row."""
        groups = self.groups or [""] * len(self.rows)
        return [k > 0 and group != groups[k - 1] for k, group in enumerate(groups)]


def narrow(grid: Grid) -> list[Grid]:
    """The table in as many as it takes to keep each within a terminal, the columns of words in all of them."""

    def wide(column: int) -> int:
        cells = [part for row in (grid.headings, *grid.rows) for part in row[column].splitlines()]
        longest = max(map(len, cells), default=0)
        return 3 + (min(longest, WORDS) if column < grid.left else longest)

    words = [*range(grid.left)]
    parts: list[list[int]] = [[]]
    for column in range(grid.left, len(grid.headings)):
        if parts[-1] and 1 + sum(map(wide, [*words, *parts[-1], column])) > WIDTH:
            parts.append([])
        parts[-1].append(column)

    def of(columns: list[int]) -> Grid:
        rows = [[row[column] for column in columns] for row in grid.rows]
        return grid._replace(headings=[grid.headings[column] for column in columns], rows=rows)

    return [of([*words, *part]) for part in parts]


def markdown(grid: Grid) -> str:
    rule = ["---" if k < grid.left else "---:" for k in range(len(grid.headings))]
    rows = [grid.headings, rule, *grid.rows]
    title = [f"**{grid.title}**", ""] if grid.title else []
    return "\n".join([*title, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)])


def html(grid: Grid, words: Sequence[str] = ()) -> str:
    """A plain table for a notebook, and sentences below it."""
    heads = "".join(f"<th>{escape(heading)}</th>" for heading in grid.headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in grid.rows)
    said = "".join(f"<p>{escape(line)}</p>" for line in words if line)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{said}"


def plain(parts: Sequence[Table | str]) -> str:
    """Tables and sentences as text without colour, as wide as they need to be."""
    widest = max((Console(width=10_000).measure(part).maximum for part in parts if not isinstance(part, str)), default=0)
    console = Console(width=max(120, widest), file=io.StringIO(), color_system=None)
    for part in parts:
        console.print(part, highlight=False, markup=not isinstance(part, str), soft_wrap=isinstance(part, str))
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def latex(grid: Grid) -> str:
    """A tabular for \\usepackage{booktabs}."""
    columns = "".join("l" if k < grid.left else "r" for k in range(len(grid.headings)))
    title = [f"% {grid.title}"] if grid.title else []
    out = [*title, f"\\begin{{tabular}}{{{columns}}}", "\\toprule", " & ".join(map(tex, grid.headings)) + " \\\\", "\\midrule"]
    for row, apart in zip(grid.rows, grid.breaks(), strict=True):
        words = [*map(tex, row[: grid.left]), *map(_maths, row[grid.left :])]
        out += [*(["\\midrule"] if apart else []), " & ".join(words) + " \\\\"]
    return "\n".join([*out, "\\bottomrule", "\\end{tabular}"])


def rich_table(grid: Grid) -> Table:
    table = Table(title=grid.title or None, title_justify="left")
    for k, heading in enumerate(grid.headings):
        if k < grid.left:
            table.add_column(heading, max_width=WORDS)
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    for row, apart in zip(grid.rows, grid.breaks(), strict=True):
        if apart:
            table.add_section()
        table.add_row(*row)
    return table


def tex(words: str) -> str:
    for plain, written in (
        ("\\", "\\textbackslash "), ("%", "\\%"), ("_", "\\_"), ("&", "\\&"), ("#", "\\#"), ("Δ", "$\\Delta$"),
    ):  # fmt: skip
        words = words.replace(plain, written)
    return words


def _maths(cell: str) -> str:
    """A number with a sign, a point or an interval between dollars; counts and words as they are."""
    if cell.isdigit() or not any(letter.isdigit() for letter in cell):
        return {"-": "--"}.get(cell, tex(cell))
    return f"${cell.replace('±', chr(92) + 'pm')}$"
