"""One site's part of a round. Everything it does follows from its secret and the letter, so that a letter that comes again,
also after a restart, gets the same answer. What it must remember is what it has masked and revealed (`protocol.site`).

    context   hash of run, round, threshold and the roster's keys: another roster, other secrets
    group     hash of the context and of who has dealt with which mask key: another group, other masks
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8, UInt32

from ...errors import NOTHING, require
from ..signatures import PASSPORT, Identity, check_vouched, vouched
from . import derive, shares
from .derive import derived, hashed
from .discrete_noise import discrete_gaussian
from .fixed_point import as_words
from .messages import SIGNATURE, Boxes, Card, Dealt, Keys, Revealed, Roster, Signed, Unmask, Words, as_row, blank
from .settings import Masking


class Member(NamedTuple):
    """A site in a run whose sums are masked."""

    settings: Masking
    run: bytes
    client: int
    secret: bytes  # never leaves the site, nor does anything else that is derived from it but shares and public keys
    identity: Identity | None = None  # that signs its keys; None: letters have no seals here

    def _own(self, purpose: bytes, *context: bytes) -> bytes:
        return derived(self.secret, purpose, self.run, _number(self.client), *context)

    @property
    def channel(self) -> bytes:
        """The private key of its boxes in this run."""
        return self._own(b"channel")

    def mask_key(self, context: bytes) -> bytes:
        return self._own(b"mask key", context)

    def self_seed(self, context: bytes) -> bytes:
        return self._own(b"self mask", context)

    def noise_seed(self, *question: bytes) -> bytes:
        """Of the noise in its answer to a question: another question, other noise."""
        return self._own(b"noise", *question)

    def card(self) -> Card:
        key = derive.public_of(self.channel)
        return Card(as_row(key), *_signed(self.identity, _card_words(self.run, self.client, key)))

    def deal(self, number: int, roster: Roster) -> Dealt:
        """Its mask key for this roster, and shares of its two secrets for every other site on it."""
        self._check_roster(roster)
        keys = Keys(roster.key, roster.present, roster.present, roster.key)
        context, secret = context_of(self.settings, self.run, number, keys), self._shares(number, keys)
        boxes = blank(Boxes, len(roster.present)).boxes
        for v in np.flatnonzero(roster.present).tolist():
            if v != self.client:
                key = self._box_key(roster.key[v], context, self.client, v)
                boxes[v] = as_row(derive.closed(key, b"".join(part[v] for part in secret), context))
        mine = derive.public_of(self.mask_key(context))
        _, signature = _signed(self.identity, _mask_words(context, self.client, mine))
        return Dealt(as_row(mine), signature, as_row(commitment_of(self.self_seed(context))), boxes)

    def masked(self, number: int, words: UInt32[np.ndarray, "n"], keys: Keys, signed: Signed) -> tuple[Words, bytes]:
        """The words behind the masks of the group, and the group."""
        context, group = context_of(self.settings, self.run, number, keys), group_of(self.settings, self.run, number, keys)
        self._check_group(keys, signed, context)
        secret, total = self.mask_key(context), words + derive.mask(self_mask(self.self_seed(context), group), len(words))
        for v in np.flatnonzero(keys.dealt).tolist():
            if v != self.client:
                term = derive.mask(pair_mask(secret, keys.key[v].tobytes(), group), len(words))
                total = total + term if self.client < v else total - term
        return Words(total), group

    def reveal(self, number: int, asked: Unmask, boxes: UInt8[np.ndarray, "m 82"]) -> Revealed:
        """A share of one secret of every site of the group: never of both, for who is alive is one list."""
        keys, alive, enough = asked.keys, asked.alive, self.settings.threshold
        require(not (alive & ~keys.dealt).any(), "unmask", NOTHING, "names a site that is not of the round")
        require(alive[self.client], "unmask", self.client, "is told to be lost, and so reveals nothing")
        rule = f"would be the sum of fewer sites than the threshold of {enough}"
        require(int(alive.sum()) >= enough, "unmask", int(alive.sum()), rule)
        context, mine = context_of(self.settings, self.run, number, keys), self._shares(number, keys)
        found = blank(Revealed, len(alive))
        for v in np.flatnonzero(keys.dealt).tolist():
            pair = tuple(part[v] for part in mine)
            if v != self.client:
                key = self._box_key(keys.roster[v], context, v, self.client)
                content = derive.opened(key, boxes[v].tobytes(), context)
                pair = content[: shares.SHARE], content[shares.SHARE :]
            found.shares[v] = as_row(pair[1] if alive[v] else pair[0])
        return found

    def words(self, values: Float[np.ndarray, "n"], noisy: int, seed: bytes) -> UInt32[np.ndarray, "n"]:
        """The values on the grid; where sites add noise, the first `noisy` of them are clipped as a whole and get it."""
        how, values = self.settings, np.array(values, np.float64)
        if not how.noise:
            return as_words(how.grid.whole_numbers(values))
        length = float(np.linalg.norm(values[:noisy]))
        values[:noisy] *= min(1.0, how.clip / length) if length > 0 else 1.0
        found = how.grid.whole_numbers(values)
        found[:noisy] += discrete_gaussian(how.variance(noisy), noisy, seed)
        return as_words(found)

    def _shares(self, number: int, keys: Keys) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """By seat: of its mask key, and of the seed of its self mask."""
        context, seats = context_of(self.settings, self.run, number, keys), np.flatnonzero(keys.listed).tolist()
        secrets = (self.mask_key(context), b"share of mask key"), (self.self_seed(context), b"share of self mask")
        first, second = (
            shares.shares_of(secret, self.settings.threshold, seats, self._own(purpose, context)) for secret, purpose in secrets
        )
        return first, second

    def _box_key(self, other: UInt8[np.ndarray, "32"], context: bytes, sender: int, reader: int) -> bytes:
        common = derive.agreed(self.channel, other.tobytes())
        return derived(common, b"box", context, _number(sender), _number(reader))

    def _check_roster(self, roster: Roster) -> None:
        """Only sites of this federation get a share: the authority vouches for each, and the server is none of them."""
        own = derive.public_of(self.channel)
        mine = roster.present[self.client] and roster.key[self.client].tobytes() == own
        require(mine, "roster", self.client, "does not have this site's own key")
        _check_count(self.settings, "roster", int(roster.present.sum()), most=True)
        for v in np.flatnonzero(roster.present).tolist():
            words = _card_words(self.run, v, roster.key[v].tobytes())
            self._check_signed(v, roster.passport[v], roster.signature[v], words)

    def _check_group(self, keys: Keys, signed: Signed, context: bytes) -> None:
        own = derive.public_of(self.mask_key(context))
        mine = keys.dealt[self.client] and keys.key[self.client].tobytes() == own
        require(mine, "group", self.client, "does not have this site's own mask key")
        require(not (keys.dealt & ~keys.listed).any(), "group", NOTHING, "has sites that are not on the roster")
        _check_count(self.settings, "group", int(keys.dealt.sum()))
        for v in np.flatnonzero(keys.dealt).tolist():
            words = _mask_words(context, v, keys.key[v].tobytes())
            self._check_signed(v, signed.passport[v], signed.signature[v], words)

    def _check_signed(self, v: int, passport: np.ndarray, signature: np.ndarray, words: bytes) -> None:
        if self.identity is not None:
            check_vouched(self.identity.authority, self.settings.sites[v], passport.tobytes(), signature.tobytes(), words)


def context_of(how: Masking, run: bytes, number: int, keys: Keys) -> bytes:
    """See the module."""
    return hashed(b"context", run, _number(number), _number(how.threshold), keys.listed.tobytes(), keys.roster.tobytes())


def group_of(how: Masking, run: bytes, number: int, keys: Keys) -> bytes:
    """See the module."""
    return hashed(b"group", context_of(how, run, number, keys), keys.dealt.tobytes(), keys.key.tobytes())


def split_of(group: bytes, alive: np.ndarray) -> str:
    """What a site remembers of having revealed: for whom, as which list of the living."""
    return hashed(b"split", group, alive.tobytes()).hex()


def commitment_of(seed: bytes) -> bytes:
    """By which the server knows the seed of a self mask when it sees it, and nothing before."""
    return hashed(b"commitment", seed)


def self_mask(seed: bytes, group: bytes) -> bytes:
    return derived(seed, b"self", group)


def pair_mask(secret: bytes, other: bytes, group: bytes) -> bytes:
    """The seed that two sites have in common, from the private key of one and the public key of the other."""
    return derived(derive.agreed(secret, other), b"pair", group)


def _check_count(how: Masking, what: str, count: int, *, most: bool = False) -> None:
    rule = f"must have at least the threshold of {how.threshold} sites"
    require(count >= how.threshold, what, count, rule)
    require(not most or count < 2 * how.threshold, what, count, f"must have fewer than twice the threshold of {how.threshold}")


def _number(value: int) -> bytes:
    return int(value).to_bytes(8, "little", signed=True)


def _card_words(run: bytes, client: int, key: bytes) -> bytes:
    return hashed(b"card", run, _number(client), key)


def _mask_words(context: bytes, client: int, key: bytes) -> bytes:
    return hashed(b"mask key", context, _number(client), key)


def _signed(identity: Identity | None, words: bytes) -> tuple[np.ndarray, np.ndarray]:
    if identity is None:
        return np.zeros(PASSPORT.size, np.uint8), np.zeros(SIGNATURE, np.uint8)
    passport, signature = vouched(identity, words)
    return as_row(passport), as_row(signature)
