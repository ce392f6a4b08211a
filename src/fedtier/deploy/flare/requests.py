"""Keys that are made where they are used: a party asks with a signing request, and its private keys never leave it.

    fedtier request north                          at the site: makes keys in north/asked, writes north.request
    fedtier provision sites.toml --sign *.request  at the authority: writes kits/north, without any private key
    fedtier request north --answer kits/north      at the site: north becomes a whole kit, for `fedtier join north`

The same three lines renew a certificate, with new keys; the old kit works until the answer is taken. A request is JSON: a
PKCS #10 request for each certificate of the party, its public signing key, and a signature with that key over all of it, so
that nobody can ask under a key he does not have. Which name a request may carry is the authority's to judge.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...errors import NOTHING, FedtierError, require
from ...protocol.signatures import check_words, identity_text, new_key, public_key, read_identity, signed_words
from ...storage.files import make_private, private_files, told, write_whole
from .workspace import SIGNING, certificate_of, read_kit

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

ASKED = "asked"  # in a kit: keys whose certificates have been asked for
VOUCHED = "passport.json"  # in an answer: what the authority says of the party's signing key
SECRET = "signing.key"
KEYS = {"server": ("server", "serve"), "admin": ("client",)}  # the certificates of a party; a site's: client
PLACES = {"server": "startup/server", "client": "startup/client", "serve": "admin/startup/client"}


class Request(NamedTuple):
    party: str
    keys: dict[str, RSAPublicKey]  # by certificate, as in KEYS
    signing: str  # the public key for letters


def make_request(party: str, kit: Path, out: Path) -> str:
    """New keys in `kit`/asked and the request for them in `out`; the request's fingerprint. Keys that were asked for before and
    not yet answered are used again, so that an answer under way still fits."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import NameOID

    with private_files():
        make_private(kit)
        make_private(kit / ASKED)
        names = KEYS.get(party, ("client",))
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, party)])
        asked = {}
        for name in names:
            key = _private_key(kit / ASKED / f"{name}.key")
            signed = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
            asked[name] = signed.public_bytes(serialization.Encoding.PEM).decode()
        if not (kit / ASKED / SECRET).exists():
            write_whole(kit / ASKED / SECRET, new_key().encode())
        secret = (kit / ASKED / SECRET).read_text(encoding="utf-8")
    words = json.dumps({"party": party, "requests": asked, "signing": public_key(secret)}, sort_keys=True)
    content = {"signed": words, "signature": signed_words(secret, words)}
    write_whole(out, (json.dumps(content, indent=1) + "\n").encode())
    return fingerprint(words)


def read_request(path: Path) -> tuple[Request, str]:
    """The request in a file and its fingerprint; FedtierError unless its signatures hold."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    rule = "is no signing request"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        table = json.loads(content["signed"])
        check_words(table["signing"], content["signed"], content["signature"], str(path))
        keys = {}
        for name, text in table["requests"].items():
            signed = x509.load_pem_x509_csr(text.encode())
            key = signed.public_key()
            fits = signed.is_signature_valid and isinstance(key, RSAPublicKey) and key.key_size >= 2048
            require(fits, str(path), name, "must be signed with its own RSA key of 2,048 bits or more")
            keys[name] = key
        wanted = KEYS.get(table["party"], ("client",))
        require(set(keys) == set(wanted), str(path), sorted(keys), f"must ask for {' and '.join(wanted)}")
        return Request(str(table["party"]), keys, table["signing"]), fingerprint(content["signed"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, FedtierError):
            raise
        raise FedtierError(str(path), NOTHING, f"{rule}: {error!r}", "`fedtier request NAME` makes one") from None


def take_answer(party: str, kit: Path, answer: Path) -> None:
    """Makes `kit` whole: the answer's certificates with the keys that were made here. Refuses what does not fit them."""
    own = kit / ASKED
    require((own / SECRET).exists(), "DIR", str(kit), "has not asked for a certificate", f"fedtier request {party}")
    with private_files(), tempfile.TemporaryDirectory(dir=kit.resolve().parent, prefix=".kit-") as space:
        fresh = Path(space) / "kit"
        with told(fresh):
            try:
                shutil.copytree(answer, fresh, ignore=shutil.ignore_patterns("*.key", SIGNING, ASKED))
            except FileNotFoundError:
                raise FedtierError("--answer", str(answer), "is not there", "the folder that the authority sent") from None
        for name in KEYS.get(party, ("client",)):
            place = fresh / PLACES[name]
            _check_pair(answer, place.with_suffix(".crt"), own / f"{name}.key")
            shutil.copyfile(own / f"{name}.key", place.with_suffix(".key"))
        if party != "admin":
            _join_passport(fresh, own)
        kind = party if party in KEYS else "site"
        require(read_kit(fresh, kind).party == party, "--answer", str(answer), f"is not for {party}")
        _check_authority(kit, fresh)
        fresh.chmod(0o700)
        old = Path(space) / "old"
        kit.replace(old)
        fresh.replace(kit)


def authority_fingerprint(kit: Path) -> str:
    """By which people compare the authority that answered with the one they meant to ask."""
    from cryptography.hazmat.primitives import hashes

    return _grouped(certificate_of(kit / "startup" / "rootCA.pem").fingerprint(hashes.SHA256()).hex())


def fingerprint(words: str) -> str:
    return _grouped(hashlib.sha256(words.encode()).hexdigest())


def _grouped(text: str) -> str:
    return " ".join(text[k : k + 4] for k in range(0, 32, 4))


def _private_key(path: Path) -> RSAPrivateKey:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    if not path.exists():
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        write_whole(path, key.private_bytes(*form))
    found = serialization.load_pem_private_key(path.read_bytes(), None)
    assert isinstance(found, rsa.RSAPrivateKey)
    return found


def _check_pair(answer: Path, certificate: Path, key: Path) -> None:
    own = _private_key(key).public_key()
    hint = "the answer to another request? ask again: fedtier request, provision --sign, --answer"
    fits = certificate_of(certificate).public_key() == own
    require(fits, "--answer", str(answer), f"{certificate.name} is not for the key that was made here", hint)


def _join_passport(fresh: Path, own: Path) -> None:
    """signing.json from the secret and the authority's word for it; read_identity checks that they fit."""
    try:
        vouched = json.loads((fresh / VOUCHED).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FedtierError("--answer", str(fresh / VOUCHED), f"cannot be read: {error!r}", "ask for the answer again") from None
    write_whole(fresh / SIGNING, identity_text((own / SECRET).read_text(encoding="utf-8"), vouched).encode())
    read_identity(fresh / SIGNING)
    (fresh / VOUCHED).unlink()


def _check_authority(kit: Path, fresh: Path) -> None:
    """A renewal is of the authority that the party knows."""
    root = "startup/rootCA.pem"
    if (kit / root).exists():
        same = (kit / root).read_bytes() == (fresh / root).read_bytes()
        require(same, "--answer", NOTHING, "is of another authority than this kit", "for a new federation give another --out")
