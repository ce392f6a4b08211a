"""Differential privacy: what is done to what leaves a client, what that guarantees, and an attempt to refute it.

mechanism    clipping and Gaussian noise around any method whose rounds depend on sums (`Method.sums`)
accountant   epsilon from noise, rounds and how cohorts are drawn; noise from epsilon; by dp-accounting
statement    who sees what, and what holds against whom
audit        a canary client in and out, thousands of times: a lower bound on epsilon
audit_rows   a canary row, likewise
"""

from .accountant import Cohorts, epsilon_of, noise_for, rounds_within
from .audit import Audit, audit
from .audit_rows import audit_rows
from .mechanism import Adaptive, Mechanism, private
from .statement import Statement, Viewer, statement_of

__all__ = [
    "Adaptive", "Audit", "Cohorts", "Mechanism", "Statement", "Viewer", "audit", "audit_rows", "epsilon_of", "noise_for",
    "private", "rounds_within", "statement_of",
]  # fmt: skip
