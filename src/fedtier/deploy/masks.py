"""[wire] masked and [privacy] between sites: what is refused before any work, and what all parties are told of masks.

What the server can still check of a masked reply is its shape, and that its site has signed it; what it cannot, rules that look
at single replies and bounds on their length, is refused.
"""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from ..errors import FedtierError, called, require
from ..experiments.privacy_rules import mechanism_of
from ..experiments.run_folder import RunFolder
from ..experiments.tables import Config
from ..federation.plan import cohort_size
from ..methods import registry
from ..methods.method import Method
from ..methods.summed import sums_of
from ..privacy.mechanism import private
from ..protocol import Masking
from ..protocol.secure.settings import default_threshold

if TYPE_CHECKING:
    from .settings import WireTable

SECRET = "noise.key"  # in the run's folder
FINEST = 64  # the least variance of a site's noise in steps of the grid: there a sum of discrete Gaussians is one, to 1e-270
NAMES = {"threshold": "wire.threshold", "range": "wire.range"}


def fit_privacy(config: Config, wire: WireTable) -> Config:
    """The configuration as it is played between sites; refuses what would promise too much there."""
    _check_masks(config, wire)
    privacy = config.privacy
    if privacy.kind == "none":
        return config
    order, rule = config.run.order, "has no worth between sites: cohorts are drawn from run.seed, which others may guess"
    require(order != "poisson", "run.order", order, rule, "leave it out")
    if privacy.kind == "rows":
        return config
    if privacy.place == "central":
        whole = cohort_size(config.run.participation, config.data.clients) == config.data.clients
        rule = "between sites the server's noise counts without secret cohorts: ask every site in every round"
        require(whole, "run.participation", config.run.participation, rule, "1.0")
    if privacy.place != "distributed":
        return config
    rule = 'needs masks: without them the server sees each reply with its part of the noise alone; or privacy.place = "local"'
    require(wire.masked, "privacy.place", "distributed", rule, "wire.masked = true")
    require(privacy.adaptive is None, "privacy.adaptive", privacy.adaptive, "is not there under masks", "leave it out")
    rule = "has no bound for sums of discrete Gaussians, which is what sites add"
    require(privacy.accountant != "pld", "privacy.accountant", "pld", rule, "rdp")
    rule = "is said by wire.threshold between sites: as many add the whole noise"
    require(privacy.quorum == 1.0, "privacy.quorum", privacy.quorum, rule, "leave it out")
    cohort, threshold = _counts(config, wire)
    enough = 1.0 if threshold == cohort else (threshold + 0.5) / cohort
    changes = {"accountant": "rdp", "quorum": enough}
    return config.model_copy(update={"privacy": privacy.model_copy(update=changes)})


def _counts(config: Config, wire: WireTable) -> tuple[int, int]:
    """(sites of a round, how many of them are enough)."""
    cohort = cohort_size(config.run.participation, len(wire.sites))
    return cohort, default_threshold(cohort) if wire.threshold is None else wire.threshold


def _check_masks(config: Config, wire: WireTable) -> None:
    fields = type(wire).model_fields
    for key in ("threshold", "range"):
        given = getattr(wire, key) != fields[key].default
        rule = "is not read without wire.masked = true"
        require(wire.masked or not given, f"wire.{key}", getattr(wire, key), rule, "leave it out")
    if not wire.masked:
        return
    method = registry.sketch(config.method.entry, config.method.options)
    with called({"masked": "wire.masked"}):
        sums_of(method, "masked", True, "fedavg, fedprox, fedadam, decomfl, zo_hfl with shared_directions; or no masks")
    require(method.buffer == 0, "wire.masked", True, f"{method.name} has no rounds whose replies could be summed", "false")
    given = wire.magnitude != fields["magnitude"].default
    rule = "looks at the length of single replies, which masks hide"
    require(not given, "wire.magnitude", wire.magnitude, rule, "leave it out: wire.range bounds each number at its site")
    order, rule = config.run.order, "draws cohorts that may be below the threshold"
    require(order != "poisson", "run.order", order, rule, "leave it out")
    with called(NAMES):
        cohort, threshold = _counts(config, wire)
        Masking(tuple(wire.sites), cohort, threshold, wire.range).check()


def masking_of(config: Config, wire: WireTable, numbers: int) -> Masking | None:
    """What all parties are told of the masks of a run whose budget is settled; `numbers` of a reply get noise. None: none."""
    if not wire.masked:
        return None
    cohort, threshold = _counts(config, wire)
    plain, privacy = Masking(tuple(wire.sites), cohort, threshold, wire.range), config.privacy
    if privacy.kind == "none" or privacy.place != "distributed":
        return plain.check()
    assert privacy.noise is not None
    found = plain._replace(bound=max(1.0, privacy.clip), clip=privacy.clip, noise=privacy.noise).check()
    fine = FINEST <= found.variance(numbers) < 2**53
    rule = f"is {math.sqrt(found.variance(numbers)):.3g} steps of 2^-{found.grid.exponent} at a site, too little or too much"
    require(fine, "privacy.noise", privacy.noise, rule, "another clip, or fewer sites")
    return found


def count_of(shapes: PyTree) -> int:
    """How many numbers a tree of shapes has."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))


def secret_key(files: RunFolder) -> Key[Array, ""]:
    """The root of all that the server draws under [privacy], for run.seed may be guessed. Made once for a run, and kept in its
    folder, which is for its owner alone."""
    path = files.folder / SECRET
    if not path.exists():
        files.write(SECRET, secrets.token_hex(8).encode())
    words = np.frombuffer(bytes.fromhex(path.read_text(encoding="utf-8")), np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")


def masking_table(found: Masking) -> dict[str, Any]:
    """For the brief."""
    return found._asdict() | {"sites": list(found.sites)}


def read_masking(table: Any) -> Masking:
    """What a brief says of masks, checked as anything that comes from outside."""
    try:
        cohort, threshold = int(table["cohort"]), int(table["threshold"])
        bound, clip, noise = (float(table[key]) for key in ("bound", "clip", "noise"))
        return Masking(tuple(map(str, table["sites"])), cohort, threshold, bound, clip, noise).check()
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, FedtierError):
            raise
        raise FedtierError("brief", "masking", f"cannot be understood: {error!r}") from None


def guarded(method: Method, config: Config, clients: int, *, masked: bool) -> Method:
    """The method as a site plays it under [privacy]: clipped, and with its noise where that is not added to masked words."""
    if config.privacy.kind != "clients":
        return method
    mechanism = mechanism_of(config, clients)
    return private(method, mechanism._replace(masked=masked and mechanism.place == "distributed"))
