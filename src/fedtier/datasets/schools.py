"""Pupils of schools (mlmRev, served by Rdatasets): natural clients by the hundred, and one set whose label is a number.

chem97        A-level chemistry in 1997: 31,022 pupils, points from 0 to 10; owners are 131 education authorities, or
              2,410 schools (Fielding, Yang, Goldstein, 2003)
exam-scores   4,059 pupils of 65 schools in London; the label is a normalised score (Goldstein et al., 1993)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import choice
from .dataset import Dataset
from .own import from_file
from .published import Published
from .sources import locate

RDATASETS = (
    "https://raw.githubusercontent.com/vincentarelbundock/Rdatasets/1dcc2bf5f955cc1224a3e1307256e1fe86b68dae/csv/mlmRev/",
)
CHEM97 = Published("chem97", {"Chem97.csv": "3a8379992f43dab30bbb1631f63a7fc406f7356d4cb2f35c73c850704b484dcc"}, RDATASETS)
EXAM = Published("exam-scores", {"Exam.csv": "9c87dc2a85401f0589bdb1c1e95049bd86648f80ab00c73b388f6b7079e711ac"}, RDATASETS)


def chem97(folder: str | Path | None = None, owner: str = "lea") -> Dataset:
    """The points of 31,022 pupils by gender, age and earlier grades; `owner` is "lea" or "school"."""
    choice("owner", owner, ("lea", "school"))
    return _pupils(CHEM97, folder, label="score", owner=owner, keep=("gender", "age", "gcsescore"), task="classification")


def exam_scores(folder: str | Path | None = None) -> Dataset:
    """A regression: the score of 4,059 pupils by an earlier test, sex and kind of school."""
    about = ("schgend", "schavg", "vr", "intake", "standLRT", "sex", "type")
    return _pupils(EXAM, folder, label="normexam", owner="school", keep=about, task="regression")


def _pupils(
    published: Published, folder: str | Path | None, label: str, owner: str, keep: Sequence[str] = (), task: str = "auto"
) -> Dataset:
    path = next(iter(locate(published, folder).values()))
    return from_file(path, label=label, owner=owner, keep=keep, task=task)._replace(name=published.name)
