"""Who takes part: data in windows, partitions, and the plan of cohorts and local steps."""

from . import partition
from .plan import Plan, growing_steps, make_plan
from .shards import Federation, View, Window, build, mean_over_rows, sample, with_seat

__all__ = [
    "Federation", "Plan", "View", "Window", "build", "growing_steps", "make_plan", "mean_over_rows", "partition",
    "sample", "with_seat",
]  # fmt: skip
