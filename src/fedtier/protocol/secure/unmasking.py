"""The server's part of a round: it passes cards, keys and boxes on, adds masked words up, and takes the masks off the sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import combinations, islice

import numpy as np
from jaxtyping import Bool, UInt8, UInt32

from ...errors import FedtierError, require
from . import derive, shares
from .masking import commitment_of, group_of, pair_mask, self_mask
from .messages import Boxes, Card, Dealt, Keys, Revealed, Roster, Signed, Words, blank
from .settings import Masking

TRIES = 1000  # of choices among shares, some of which are wrong


def roster_of(clients: int, cards: Mapping[int, Card]) -> Roster:
    """The cards of those that take part."""
    roster = blank(Roster, clients)
    for i, card in cards.items():
        roster.present[i] = True
        for field in Card._fields:
            getattr(roster, field)[i] = getattr(card, field)
    return roster


def group_keys(roster: Roster, dealt: Mapping[int, Dealt]) -> tuple[Keys, Signed]:
    """What everybody is told of those that have dealt."""
    clients = len(roster.present)
    keys, signed = blank(Keys, clients), blank(Signed, clients)
    keys = keys._replace(roster=roster.key, listed=roster.present)
    for i, one in dealt.items():
        keys.dealt[i], keys.key[i] = True, one.key
        signed.passport[i], signed.signature[i] = roster.passport[i], one.signature
    return keys, signed


def boxes_for(client: int, dealt: Mapping[int, Dealt]) -> UInt8[np.ndarray, "m 82"]:
    """What the others have closed for one site."""
    boxes = blank(Boxes, len(next(iter(dealt.values())).boxes)).boxes
    for i, one in dealt.items():
        boxes[i] = one.boxes[client]
    return boxes


def alive_of(clients: int, masked: Mapping[int, Words]) -> Bool[np.ndarray, "m"]:
    alive = np.zeros(clients, bool)
    alive[list(masked)] = True
    return alive


def unmasked(
    how: Masking, run: bytes, number: int, keys: Keys, dealt: Mapping[int, Dealt], masked: Mapping[int, Words],
    revealed: Mapping[int, Revealed],
) -> UInt32[np.ndarray, "n"]:  # fmt: skip
    """The sum over those that are alive, from the shares of at least the threshold of them; refused where there are fewer, or
    where no `threshold` of them give the secrets that the sites have dealt."""
    require(len(masked) >= how.threshold, "sum", len(masked), f"fewer than the threshold of {how.threshold}")
    require(len(revealed) >= how.threshold, "shares", len(revealed), f"fewer than the threshold of {how.threshold}")
    group = group_of(how, run, number, keys)
    total = sum((one.words for one in masked.values()), np.zeros_like(next(iter(masked.values())).words))
    for v in np.flatnonzero(keys.dealt).tolist():
        told, one = {u: each.shares[v].tobytes() for u, each in revealed.items()}, dealt[v]
        if v in masked:
            seed = _found(how, v, told, lambda seed: commitment_of(seed) == one.commitment.tobytes())  # noqa: B023
            total = total - derive.mask(self_mask(seed, group), len(total))
            continue
        secret = _found(how, v, told, lambda secret: derive.public_of(secret) == one.key.tobytes())  # noqa: B023
        for u in masked:  # what u has added for v
            term = derive.mask(pair_mask(secret, keys.key[u].tobytes(), group), len(total))
            total = total - term if u < v else total + term
    return total


def _found(how: Masking, v: int, told: Mapping[int, bytes], fits: Callable[[bytes], bool]) -> bytes:
    """The secret of site v: of the shares told, some may be wrong."""
    for some in islice(combinations(sorted(told), how.threshold), TRIES):
        with suppress(FedtierError):
            found = shares.secret_of({u: told[u] for u in some}, how.threshold)
            if fits(found):
                return found
    raise FedtierError(
        "shares", how.sites[v], "its secret does not follow from the shares told: sites have revealed wrong ones"
    )
