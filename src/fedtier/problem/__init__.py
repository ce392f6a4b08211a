"""What is solved: the two-level problem, couplings, constraint sets, models and closed forms."""

from .bilevel import Bilevel, Rows, Spec, cross_entropy, supervised
from .couplings import huber, on_part, quadratic
from .models import Model, cnn, from_equinox, mlp, scaled, softmax
from .sets import ConstraintSet, ball, box, everywhere, half_space, l1_ball, orthant, product, simplex

__all__ = [
    "Bilevel", "ConstraintSet", "Model", "Rows", "Spec", "ball", "box", "cnn", "cross_entropy", "everywhere",
    "from_equinox", "half_space", "huber", "l1_ball", "mlp", "on_part", "orthant", "product", "quadratic", "scaled", "simplex",
    "softmax", "supervised",
]  # fmt: skip
