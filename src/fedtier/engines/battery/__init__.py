"""The battery: what every method must do, and every problem must be. Public, so that you can test yours.

>>> check_method(my_factory)        # my_factory(problem) -> Method; raises with the list of what does not hold
>>> check_problem(my_problem, x, rows)
"""

from .claims import Claim
from .methods import check_method, method_claims
from .problems import check_problem, problem_claims

__all__ = ["Claim", "check_method", "check_problem", "method_claims", "problem_claims"]
