"""The rows and the flat keys of the asynchronous methods."""

from __future__ import annotations

from ...schedules import StepSize
from .. import bibtex
from ..entry import Entry
from ..flat import CLIENT, SIZES, TUNED, TUNING, Parts, Real, trained
from .fedasync import fedasync
from .fedbuff import fedbuff


def fedbuff_keys(
    *,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    buffer: int = 10,
    server_rate: Real = 1.0,
    weighting: str = "uniform",
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"buffer": buffer, "server_rate": server_rate, "weighting": weighting, "averaging": averaging}
    return more | trained(client_lr, batch, fine_tune)


def fedasync_keys(
    *,
    client_lr: StepSize = "inverse(0.1)",
    batch: int = 32,
    blending: Real = 0.6,
    anchor: Real = 0.005,
    blended: str = "model",
    discounting: str = "polynomial",
    exponent: Real = 0.5,
    hinge_slope: Real = 10.0,
    hinge_after: Real = 4.0,
    averaging: int = 0,
    fine_tune: StepSize = 0.0,
) -> Parts:
    more = {"blending": blending, "anchor": anchor, "blended": blended, "discounting": discounting, "exponent": exponent}
    more |= {"hinge_slope": hinge_slope, "hinge_after": hinge_after, "averaging": averaging}
    return more | trained(client_lr, batch, fine_tune)


ENTRIES = {
    "fedbuff": Entry(
        fedbuff, fedbuff_keys, "FedBuff", "asynchronous", "a server step after every few replies, however old", bibtex.FEDBUFF,
        recommended=CLIENT | TUNED | {"buffer": 2}, grid={"client_lr": SIZES, "fine_tune": TUNING},
    ),
    "fedasync": Entry(
        fedasync, fedasync_keys, "FedAsync", "asynchronous", "each reply mixed in as it comes", bibtex.FEDASYNC,
        recommended=CLIENT | TUNED,
        grid={"client_lr": [0.001, 0.01, 0.1, 0.5], "blending": [0.3, 0.9], "fine_tune": TUNING},
    ),
}  # fmt: skip
