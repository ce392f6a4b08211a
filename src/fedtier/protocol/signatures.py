"""Who wrote a letter: every letter and every reply carries a seal, an Ed25519 signature and whose key it is.

    passport   key (32) | valid until (8) | the authority's signature of both and of the party's name (64)
    seal       "FTS1" | bytes of the own part (4) | passport (104) | signature (64); the letter follows

A federation has one authority. It signs each party's key once; every party knows the authority's public key, so no list of
keys is handed around when a site joins or a key is renewed. What is signed, as SHA-256:

    letter     "letter" | the site it is for | own part, whose head holds kind, run, round and client | hash of the shared part
    reply      "reply"  | the site it is from | the hash that the letter's signature signed | the reply

So a letter is of use at one site only, and a reply answers one letter only. The seal has a fixed size and is all that is
read before the signature holds. `cryptography` is imported when a key is first used: engines in one process have no seals.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from ..errors import NOTHING, FedtierError, require
from ..storage.json_value import Json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

    from .letters import Letters  # which loads JAX; a supervisor that looks at a kit must not

MAGIC = b"FTS1"
PASSPORT = struct.Struct("<32sQ64s")
SEAL = struct.Struct(f"<4sI{PASSPORT.size}s64s")
SERVER = "server"  # the name in the server's passport; no site may have it
NOT_SIGNED = "is not signed as it must be"
HINT = "whoever keeps the authority issues a new one; docs/wire.md says how"


class Identity(NamedTuple):
    """A party's own key, the authority's word for it, and the authority's public key."""

    party: str
    key: Ed25519PrivateKey
    passport: bytes
    authority: Ed25519PublicKey

    @property
    def until(self) -> int:
        """When the passport ends, in seconds since the epoch."""
        return PASSPORT.unpack(self.passport)[1]


def new_key() -> str:
    """A private key, as text."""
    return secrets.token_hex(32)


def public_key(secret: str) -> str:
    """The public key of a private one, as text."""
    return _private(secret).public_key().public_bytes_raw().hex()


def vouch(authority: str, party: str, key: str, until: int) -> dict[str, str]:
    """What the authority says of a party's public key: whoever made the private one keeps it to himself."""
    signed = _private(authority).sign(_passport_words(party, bytes.fromhex(key), until))
    passport = PASSPORT.pack(bytes.fromhex(key), until, signed)
    return {"party": party, "passport": passport.hex(), "authority": public_key(authority)}


def identity_text(secret: str, vouched: Mapping[str, str]) -> str:
    """The text of a party's file: its private key, its passport, the authority's public key."""
    return json.dumps({"key": secret} | dict(vouched), indent=1) + "\n"


def issue(authority: str, party: str, until: int) -> str:
    """A new identity for `party`, as the text of its file; its private key is made here."""
    secret = new_key()
    return identity_text(secret, vouch(authority, party, public_key(secret), until))


def signed_words(secret: str, words: str) -> str:
    """The signature of `words` under a private key, as text."""
    return _private(secret).sign(_hash(b"fedtier words 1", words.encode())).hex()


def check_words(key: str, words: str, signature: str, what: str) -> None:
    """FedtierError unless the owner of the public key has signed `words`."""
    try:
        _verify(_public(bytes.fromhex(key)), bytes.fromhex(signature), _hash(b"fedtier words 1", words.encode()), what)
    except (ValueError, TypeError) as error:
        if isinstance(error, FedtierError):
            raise
        raise FedtierError(what, NOTHING, NOT_SIGNED) from None


def read_identity(path: Path) -> Identity:
    """The identity in the file that `issue` wrote; refuses one that is damaged, forged or has run out."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        passport = bytes.fromhex(content["passport"])
        identity = Identity(content["party"], _private(content["key"]), passport, _public(bytes.fromhex(content["authority"])))
        known = _vouched(passport, identity.party, identity.authority)
    except FileNotFoundError:
        raise FedtierError(str(path), NOTHING, "is not there: without it no letter can be signed", HINT) from None
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        if isinstance(error, FedtierError):
            raise FedtierError(str(path), NOTHING, error.rule, HINT) from None
        raise FedtierError(str(path), NOTHING, f"cannot be read: {error!r}", HINT) from None
    same = known.public_bytes_raw() == identity.key.public_key().public_bytes_raw()
    require(same, str(path), NOTHING, "holds a key that is not the one in its passport", HINT)
    return identity


@runtime_checkable
class Withdrawn(Protocol):
    """Keys that the authority has taken back, as they stand now (`deploy.flare.revocation`)."""

    def withdrawn_keys(self) -> frozenset[str]: ...

    def news(self) -> list[dict[str, Json]]:
        """What has been taken back since the last question."""
        ...


class ServerSeal:
    """The server's side: signs letters, and opens the replies to them; those signed with a key that was taken back are
    refused."""

    def __init__(self, identity: Identity, withdrawn: Withdrawn | None = None) -> None:
        require(identity.party == SERVER, "signing key", identity.party, "is not the server's")
        self.identity, self.withdrawn = identity, withdrawn

    def seal(self, letters: Letters) -> tuple[Letters, Mapping[str, bytes]]:
        """The letters with a seal before each own part, and the hash by which each site's reply must name its letter."""
        shared = hashlib.sha256(letters.shared).digest()
        hashes = {site: _letter_hash(site, own, shared) for site, own in letters.own.items()}
        sealed = {site: _seal(self.identity, len(own), hashes[site]) + own for site, own in letters.own.items()}
        return letters._replace(own=sealed), hashes

    def open(self, reply: bytes, site: str, asked: bytes) -> bytes:
        """The reply inside its seal; FedtierError unless `site` signed it as the answer to the letter with hash `asked`."""
        content, own, key, signature = _split(reply, site, self.identity.authority)
        require(own == len(content), "reply", f"{len(reply)} bytes", NOT_SIGNED)
        revoked = self.withdrawn is not None and key.public_bytes_raw().hex() in self.withdrawn.withdrawn_keys()
        require(not revoked, "site", site, "signs with a key that was revoked", "give it a new certificate and key")
        _verify(key, signature, _reply_hash(site, asked, content), "reply")
        return content


class SiteSeal:
    """A site's side: opens the server's letters, and signs its replies. With `file` a key that is renewed there is used from
    the next letter on; what cannot be read changes nothing."""

    def __init__(self, identity: Identity, file: Path | None = None) -> None:
        self.identity, self.file = identity, file
        self._seen = _stamp(file)

    def _renew(self) -> None:
        stamp = _stamp(self.file)
        if self.file is None or stamp in (None, self._seen):
            return
        self._seen = stamp
        with suppress(FedtierError):  # half of a kit that is being replaced; the old key holds until its end
            fresh = read_identity(self.file)
            if fresh.party == self.identity.party:
                self.identity = fresh

    def open(self, letter: bytes) -> tuple[bytes, bytes]:
        """(the letter inside its seal, its hash); FedtierError unless the server signed it for this site."""
        self._renew()
        content, own, key, signature = _split(letter, SERVER, self.identity.authority)
        require(own <= len(content), "letter", f"{len(letter)} bytes", NOT_SIGNED)
        shared = hashlib.sha256(content[own:]).digest()
        found = _letter_hash(self.identity.party, content[:own], shared)
        _verify(key, signature, found, "letter")
        return bytes(content), found

    def seal(self, reply: bytes, asked: bytes) -> bytes:
        """The reply with its seal, bound to the letter whose hash is `asked`."""
        return _seal(self.identity, len(reply), _reply_hash(self.identity.party, asked, reply)) + reply


def vouched(identity: Identity, words: bytes) -> tuple[bytes, bytes]:
    """(passport, signature of `words`): what a party says to others than the server."""
    return identity.passport, identity.key.sign(_hash(b"fedtier vouched 1", identity.party.encode(), words))


def check_vouched(authority: Ed25519PublicKey, party: str, passport: bytes, signature: bytes, words: bytes) -> None:
    """FedtierError unless `party`, of this authority, has signed `words`."""
    signed = _hash(b"fedtier vouched 1", party.encode(), words)
    _verify(_vouched(passport, party, authority), signature, signed, f"the word of {party}")


def _stamp(file: Path | None) -> tuple[int, int] | None:
    """Changes when the file is replaced."""
    try:
        return None if file is None else (file.stat().st_ino, file.stat().st_mtime_ns)
    except OSError:
        return None


def opened(own: bytes) -> bytes:
    """The own part without a seal that may stand before it; nothing is verified: for progress lines alone."""
    return own[SEAL.size :] if own[:4] == MAGIC else own


def _split(data: bytes, party: str, authority: Ed25519PublicKey) -> tuple[bytes, int, Ed25519PublicKey, bytes]:
    """(content, bytes of its own part, the key of `party`, signature) of sealed data whose passport holds."""
    require(len(data) > SEAL.size, "letter", f"{len(data)} bytes", NOT_SIGNED)
    magic, own, passport, signature = SEAL.unpack_from(data)
    require(magic == MAGIC, "letter", magic, NOT_SIGNED)
    return data[SEAL.size :], own, _vouched(passport, party, authority), signature


def _vouched(passport: bytes, party: str, authority: Ed25519PublicKey) -> Ed25519PublicKey:
    """The public key of `party`, once the authority's signature holds and the passport has not run out."""
    key, until, signature = PASSPORT.unpack(passport)
    _verify(authority, signature, _passport_words(party, key, until), "passport")
    require(time.time() < until, "passport", party, f"ran out on {time.strftime('%Y-%m-%d', time.gmtime(until))}")
    return _public(key)


def _verify(key: Ed25519PublicKey, signature: bytes, signed: bytes, what: str) -> None:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, signed)
    except InvalidSignature:
        raise FedtierError(what, NOTHING, NOT_SIGNED) from None


def _seal(identity: Identity, own: int, signed: bytes) -> bytes:
    return SEAL.pack(MAGIC, own, identity.passport, identity.key.sign(signed))


def _letter_hash(site: str, own: bytes, shared: bytes) -> bytes:
    return _hash(b"fedtier letter 1", site.encode(), hashlib.sha256(own).digest(), shared)


def _reply_hash(site: str, asked: bytes, reply: bytes) -> bytes:
    return _hash(b"fedtier reply 1", site.encode(), asked, hashlib.sha256(reply).digest())


def _passport_words(party: str, key: bytes, until: int) -> bytes:
    return _hash(b"fedtier passport 1", party.encode(), key, until.to_bytes(8, "little"))


def _hash(*parts: bytes) -> bytes:
    """SHA-256 of the parts, each after its length: no two lists of parts give the same bytes."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little") + part)
    return whole.digest()


def _private(secret: str) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))


def _public(key: bytes) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(key)
