"""Pictures of accuracy against epsilon, drawn when the site is built from the numbers that `fedtier reproduce` has written."""

from __future__ import annotations

import json
from pathlib import Path

from fedtier.studies.privacy.picture import inline

FOLDER = Path(__file__).parents[2] / "figures" / "privacy"


def epsilon_picture(name: str) -> str:
    """The picture of figures/privacy/NAME.json."""
    lines = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    about = f"Accuracy against epsilon with 95 % intervals: {', '.join(lines)}; the numbers are in the table above"
    return f"```{{raw}} html\n{inline(lines, about)}\n```"
