"""Models: what predicts, as pure functions of parameters."""

from .convolutional import Convolutional, cnn
from .dense import Linear, linear, logistic, mlp, softmax
from .frozen import frozen
from .model import Apply, Features, Inputs, Model, from_equinox, halved, scaled
from .published import lenet, pfl_cnn, zo_cnn, zo_cnn_wide
from .residual import residual
from .stages import second_slopes

__all__ = [
    "Apply", "Convolutional", "Features", "Inputs", "Linear", "Model", "cnn", "from_equinox", "frozen", "halved", "lenet",
    "linear", "logistic", "mlp", "pfl_cnn", "residual", "scaled", "second_slopes", "softmax", "zo_cnn", "zo_cnn_wide",
]  # fmt: skip
