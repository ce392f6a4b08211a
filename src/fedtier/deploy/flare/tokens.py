# pyright: reportMissingImports=false
"""A renewed server knows the sites that it has let in before.

FLARE's server gives each site a token and signs it with the key of its certificate; the site shows it with every message. With
another key the server takes none of them, and FLARE's sites never ask for a new one: seen, a renewed server stood for as
long as nobody restarted the sites. So the certificates that the server has had are kept in its workspace, without their keys,
and a token that one of them has signed still counts. What lets a site in is its own certificate, at every connection.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from ...storage.files import write_whole

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

EARLIER = "certificates"  # in the workspace of a server
MOST = 4  # certificates that are kept, the newest ones


def remember(certificate: Path, workspace: Path) -> None:
    """Keeps the certificate that a server is about to start with."""
    content, folder = certificate.read_bytes(), workspace / EARLIER
    folder.mkdir(exist_ok=True)
    path = folder / f"{hashlib.sha256(content).hexdigest()[:16]}.crt"
    if not path.exists():
        write_whole(path, content)
    kept = sorted(folder.glob("*.crt"), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    for old in kept[MOST:]:
        old.unlink()


def earlier(workspace: Path) -> list[Certificate]:
    """What was kept; one that cannot be read is left out."""
    from cryptography import x509

    found: list[Certificate] = []
    for path in sorted((workspace / EARLIER).glob("*.crt")):
        try:
            found.append(x509.load_pem_x509_certificate(path.read_bytes()))
        except ValueError:
            continue
    return found


def install(workspace: Path) -> None:
    """In this process's FLARE."""
    from nvflare.private.fed.server import fed_server
    from nvflare.private.fed.utils.identity_utils import TokenVerifier, verify_content

    keys = [certificate.public_key() for certificate in earlier(workspace)]

    class Verifier(TokenVerifier):
        """FLARE's, which also says in the log what no certificate has signed."""

        def verify(self, client_name: str, token: str, signature: str) -> bool:
            return any(signed(client_name + token, signature, key) for key in keys) or super().verify(
                client_name, token, signature
            )

    def signed(content: str, signature: str, key: object) -> bool:
        try:
            verify_content(content=content, signature=signature, public_key=key)
        except Exception:  # of many kinds: what came is a stranger's
            return False
        return True

    fed_server.TokenVerifier = Verifier
