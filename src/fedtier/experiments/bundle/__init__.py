"""A model to take away: what a run has trained, with everything that a prediction needs and no row of the training data.

bundle.py       load, save, predict           rows.py       rows of any source as a model's inputs
keep.py         what a run writes             stored.py     personal models, read from the file one at a time
predictions.py  what a model says of rows     adapt.py      a model for a client that was not in training
parts.py        a method's parts, in a file   layers.py     a built-in model as layers
to_numpy.py, standalone.py, to_onnx.py        the model elsewhere

A bundle is a folder: bundle.json (the model's recipe, the preparation of each seed, labels, clients, versions),
global.safetensors with leaves [seeds, ...] and personal.safetensors with leaves [seeds, clients, ...].
"""

from .bundle import Bundle
from .predictions import Predictions

__all__ = ["Bundle", "Predictions"]
