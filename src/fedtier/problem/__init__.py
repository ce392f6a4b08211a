"""What is solved: the two-level problem, couplings, constraint sets, models and closed forms."""

from .augmentation import BORDER, Augment, crop_and_flip
from .bilevel import Bilevel, Loss, Rows, Spec, cross_entropy, huber_error, residuals, squared_error, supervised
from .couplings import huber, on_part, quadratic
from .models import (
    Model,
    cnn,
    from_equinox,
    frozen,
    halved,
    lenet,
    linear,
    logistic,
    mlp,
    pfl_cnn,
    residual,
    scaled,
    second_slopes,
    softmax,
    zo_cnn,
    zo_cnn_wide,
)  # fmt: skip
from .remapped import remapped
from .sets import ConstraintSet, ball, box, everywhere, half_space, l1_ball, orthant, product, simplex
from .shared_lower import SharedLower, weight_decay
from .sparse import correlated, smooth_l1

__all__ = [
    "BORDER", "Augment", "Bilevel", "ConstraintSet", "Loss", "Model", "Rows", "SharedLower", "Spec", "ball", "box", "cnn",
    "correlated", "crop_and_flip", "cross_entropy", "everywhere", "from_equinox", "frozen", "half_space", "halved", "huber",
    "huber_error", "l1_ball", "lenet", "linear", "logistic", "mlp", "on_part", "orthant", "pfl_cnn", "product", "quadratic",
    "remapped", "residual", "residuals", "scaled", "second_slopes", "simplex", "smooth_l1", "softmax", "squared_error",
    "supervised", "weight_decay", "zo_cnn", "zo_cnn_wide",
]  # fmt: skip
