"""A token that a site has from the server's last certificate counts after a renewal; one that nobody signed does not."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from fedtier.deploy.flare.tokens import EARLIER, MOST, install, remember

pytestmark = pytest.mark.flare


def pair(folder: Path) -> tuple[Any, Path]:
    """A key, and a file with its certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import NameOID

    key = rsa.generate_private_key(65537, 2048)
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]), datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
    path = folder / "server.crt"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return key, path


def test_the_tokens_of_earlier_certificates_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nvflare.private.fed.server import fed_server
    from nvflare.private.fed.utils.identity_utils import load_cert_file, sign_content

    monkeypatch.setattr(fed_server, "TokenVerifier", fed_server.TokenVerifier)
    old, path = pair(tmp_path)
    remember(path, tmp_path)
    new, path = pair(tmp_path)
    remember(path, tmp_path)
    stranger, _ = pair(tmp_path / "..")
    (tmp_path / EARLIER / "broken.crt").write_bytes(b"no certificate")
    install(tmp_path)
    verifier = fed_server.TokenVerifier(load_cert_file(str(path)))
    assert verifier.verify("north", "token", sign_content("northtoken", old, return_str=True))
    assert verifier.verify("north", "token", sign_content("northtoken", new, return_str=True))
    assert not verifier.verify("north", "token", sign_content("northtoken", stranger, return_str=True))
    assert not verifier.verify("south", "token", sign_content("northtoken", old, return_str=True))


def test_few_are_kept_and_none_twice(tmp_path: Path) -> None:
    path = tmp_path / "server.crt"
    for number in [0, 0, *range(MOST + 3)]:
        path.write_text(f"certificate {number}")
        remember(path, tmp_path)
    kept = {file.read_text() for file in (tmp_path / EARLIER).iterdir()}
    assert kept == {f"certificate {number}" for number in range(3, MOST + 3)}
