"""How many a share of something is: one rounding for cohorts and for rows."""

from __future__ import annotations

from typing import Any

import numpy as np

DECIMALS = 1e-9  # 0.145 of 100 is 14.499999999999998 in binary; whoever wrote 0.145 means 14.5


def count_of(share: float, total: Any) -> Any:
    """share x total rounded to the nearest whole number, halves up: half of 3, 5, 7 is 2, 3, 4.

    `total` is a whole number or an array of them; so is the answer. Python's round() takes halves to the even neighbour,
    which makes half of 5 clients 2 and half of 7 clients 4.
    """
    counts = np.floor(np.asarray(total) * share + (0.5 + DECIMALS)).astype(int)
    return int(counts) if counts.ndim == 0 else counts
