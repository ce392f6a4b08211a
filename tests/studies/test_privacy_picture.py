"""The picture of accuracy against epsilon: what stands where, and that the site's numbers are those of its table."""

import json
from pathlib import Path

import pytest

from fedtier.studies.privacy import picture

DOCS = Path(__file__).parents[2] / "docs"
LINES = {"ours": {"none": [80.0, 1.0], "8": [70.0, 2.0], "0.5": [60.0, 4.0]}, "theirs": {"8": [65.0], "none": [75.0]}}


def test_budgets_stand_on_a_logarithmic_axis_with_their_intervals_and_none_beyond_them():
    (axes,) = picture.draw(LINES).axes
    assert axes.get_xscale() == "log" and [tick.get_text() for tick in axes.get_xticklabels()] == ["0.5", "8", "none"]
    ours, theirs = axes.containers
    assert [*ours.lines[0].get_ydata()] == [60.0, 70.0, 80.0] and ours.lines[0].get_linestyle() == "-"
    assert theirs.lines[0].get_linestyle() == "--" and [*theirs.lines[0].get_ydata()] == [65.0, 75.0]
    heights = [segment[:, 1].tolist() for segment in ours.lines[2][0].get_segments()]
    assert heights == [[56.0, 64.0], [68.0, 72.0], [79.0, 81.0]]


@pytest.mark.parametrize("name", [path.stem for path in sorted((DOCS / "figures" / "privacy").glob("*.json"))])
def test_the_site_draws_the_numbers_of_its_table(name, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    from fedtier_pages.privacy_pictures import epsilon_picture  # pyright: ignore[reportMissingImports]

    page, lines = (DOCS / "privacy.md").read_text(), json.loads((DOCS / "figures" / "privacy" / f"{name}.json").read_text())
    assert f"% generated: epsilon-picture {name}" in page
    drawn = epsilon_picture(name)
    for method, points in lines.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| {method} |"))
        shown = [" ± ".join(f"{value:.1f}" for value in values) for values in points.values()]
        assert all(f"| {one} |" in row for one in shown), (row, shown)  # a mean and its half-width, or a mean
        assert method in drawn
