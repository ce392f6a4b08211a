"""Who takes part: data in windows, partitions, and the plan of cohorts and local steps."""

from . import partition
from .asynchrony import asynchronous_plan
from .blocks import Total, gradient_over_rows, in_turn, largest_divisor, mean_over_rows, rows_at_once, sharing_blocks
from .clock import Clock, make_clock
from .dealing import Spared, build, of_parts, with_seat
from .plan import Plan, cohort_size, growing_steps, make_plan
from .shards import Federation, Shown, View, Window, draw, rows_at, sample, shown_rows
from .shares import count_of

__all__ = [
    "Clock", "Federation", "Plan", "Shown", "Spared", "Total", "View", "Window", "asynchronous_plan", "build", "cohort_size",
    "count_of", "draw", "gradient_over_rows", "growing_steps", "in_turn", "largest_divisor", "make_clock", "make_plan",
    "mean_over_rows", "of_parts", "partition", "rows_at", "rows_at_once", "sample", "sharing_blocks", "shown_rows",
    "with_seat",
]  # fmt: skip
