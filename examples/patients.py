"""A made-up table of patients, to try `fedtier` on a file of one's own.

    python examples/patients.py patients.csv

Four hospitals of unequal size. Age and sugar mean the same everywhere; high blood pressure is a bad sign in two of them and a
good one in the two that treat it at once, so that a model of one's own pays.
"""

import csv
import sys
from pathlib import Path

import numpy as np

HOSPITALS = {"basel": (400, 1.0), "geneva": (250, -1.0), "lugano": (60, -1.0), "zurich": (600, 1.0)}  # patients, sign


def rows(seed: int = 0) -> list[dict[str, str | float]]:
    """The patients of all hospitals, in no order."""
    rng = np.random.default_rng(seed)
    found = []
    for hospital, (count, sign) in HOSPITALS.items():
        age, sugar, pressure = rng.normal(60, 12, count), rng.normal(5.5, 1.2, count), rng.normal(130, 15, count)
        risk = 0.06 * (age - 60) + 0.9 * (sugar - 5.5) + 0.07 * sign * (pressure - 130) + 0.5 * rng.standard_normal(count)
        for k in range(count):
            found.append(
                {
                    "hospital": hospital,
                    "age": round(float(age[k]), 1),
                    "sugar": round(float(sugar[k]), 2),
                    "pressure": round(float(pressure[k]), 1),
                    "outcome": "ill" if risk[k] > 0 else "well",
                }
            )
    order = rng.permutation(len(found))
    return [found[k] for k in order]


def columns(seed: int = 0) -> dict[str, np.ndarray]:
    """The same table as columns: what `ft.federate` takes besides a DataFrame."""
    table = rows(seed)
    return {name: np.asarray([row[name] for row in table]) for name in table[0]}


def write(file: Path) -> None:
    """Writes the table."""
    table = rows()
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, fieldnames=list(table[0]))
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
