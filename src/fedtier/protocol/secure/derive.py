"""Keys from secrets. `cryptography` is imported when the first one is needed: who masks nothing does not load it.

Everything that a site keeps to itself is derived from one secret of 32 bytes in its state folder and from what it is for, so
that a site which is started again gives the same answers, and nothing secret need be written in between.
"""

from __future__ import annotations

import hashlib

import numpy as np
from jaxtyping import UInt32

from ...errors import NOTHING, FedtierError

SECRET = 32  # bytes of a secret, a seed, a public key


def hashed(*parts: bytes) -> bytes:
    """SHA-256 of the parts, each after its length: no two lists of parts give the same bytes."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little") + part)
    return whole.digest()


def derived(secret: bytes, purpose: bytes, *context: bytes, size: int = SECRET) -> bytes:
    """HKDF-SHA256 of a secret, for one purpose in one context."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(hashes.SHA256(), size, None, b"fedtier secure 1 " + purpose + hashed(*context)).derive(secret)


def public_of(secret: bytes) -> bytes:
    """The public X25519 key of a private one."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def agreed(secret: bytes, public: bytes) -> bytes:
    """What the owners of two keys have in common; refuses a public key that has nothing in common with any."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    try:
        return X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise FedtierError("mask key", NOTHING, "is no key of X25519") from None


def closed(key: bytes, content: bytes, about: bytes) -> bytes:
    """`content` that only who has `key` reads or makes. A key closes one content only, so the nonce may be 0."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).encrypt(bytes(12), content, about)


def opened(key: bytes, box: bytes, about: bytes) -> bytes:
    """The content of what was closed with the same key and the same words about it."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), box, about)
    except InvalidTag:
        raise FedtierError("secret share", NOTHING, "was not made for this site and this round, or was changed") from None


def stream(seed: bytes, size: int) -> bytes:
    """`size` pseudo-random bytes of a seed: ChaCha20."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    return Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor().update(bytes(size))


def mask(seed: bytes, count: int) -> UInt32[np.ndarray, "count"]:
    """`count` words that only who has the seed can tell from chance."""
    return np.frombuffer(stream(seed, 4 * count), "<u4").astype(np.uint32)
