"""A round of masked sums without letters: members and the server's functions, with sites that vanish between the stages."""

from __future__ import annotations

import numpy as np

from fedtier.protocol.secure.masking import Member
from fedtier.protocol.secure.messages import Unmask
from fedtier.protocol.secure.settings import Masking
from fedtier.protocol.secure.unmasking import alive_of, boxes_for, group_keys, roster_of, unmasked

RUN = b"r" * 16


def settings(clients: int = 5, threshold: int = 3, **more) -> Masking:
    names = tuple(f"site-{i}" for i in range(clients))
    return Masking(names, clients, threshold, **{"bound": 16.0} | more).check()


def members(how: Masking, identities=None) -> list[Member]:
    return [
        Member(how, RUN, i, bytes([i + 1]) * 32, None if identities is None else identities[i]) for i in range(len(how.sites))
    ]


def play(parties, values, *, number=0, lost=(), seeds=None):
    """(the sum's words, who is in it); `lost` is a set of clients for each stage: before keys, after keys, after shares, after
    the masked words, in which they still count."""
    how, m = parties[0].settings, len(parties)
    lost = [*map(set, lost), *[set()] * (4 - len(lost))]
    there = set(range(m)) - lost[0]
    roster = roster_of(m, {i: parties[i].card() for i in sorted(there)})
    there -= lost[1]
    dealt = {i: parties[i].deal(number, roster) for i in sorted(there)}
    keys, signed = group_keys(roster, dealt)
    there -= lost[2]
    seeds = seeds or [bytes([i]) * 32 for i in range(m)]
    words = {i: parties[i].words(np.asarray(values[i]), len(values[i]), seeds[i]) for i in sorted(there)}
    masked = {i: parties[i].masked(number, words[i], keys, signed)[0] for i in sorted(there)}
    asked = Unmask(keys, alive_of(m, masked))
    there -= lost[3]
    told = {i: parties[i].reveal(number, asked, boxes_for(i, dealt)) for i in sorted(there)}
    return unmasked(how, RUN, number, keys, dealt, masked, told), sorted(masked)
