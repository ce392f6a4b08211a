"""A kit and a folder for what FLARE writes: the kit is only read, so it may lie on a read-only disk and be replaced."""

from __future__ import annotations

import datetime
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import NOTHING, FedtierError, require
from ...protocol.signatures import read_identity
from ...storage.files import make_private
from . import tokens

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

HINT = "`fedtier provision sites.toml` makes kits"


SIGNING = "signing.json"  # in a kit: the party's signing key


class Kit(NamedTuple):
    folder: Path
    party: str  # "server", "admin" or the site's name
    kind: str  # "server", "admin" or "site"
    sites: tuple[str, ...]  # in the order of their client numbers; a site's own kit names that site alone
    server: str
    port: int
    user: str  # the name that admin commands run under


def read_kit(folder: Path, *kinds: str) -> Kit:
    """The kit in `folder`; refuses what is none, is not of `kinds`, or whose certificate has run out."""
    try:
        card: dict[str, Any] = json.loads((folder / "kit.json").read_text(encoding="utf-8"))
        kit = Kit(
            folder.resolve(), card["party"], card["kind"], tuple(card["sites"]), card["server"], card["port"], card["user"]
        )
    except FileNotFoundError:
        raise FedtierError("KIT", str(folder), "holds no kit", HINT) from None
    except (OSError, ValueError, KeyError) as error:
        raise FedtierError("KIT", str(folder), f"cannot be read: {error!r}", HINT) from None
    require(kit.kind in kinds, "KIT", str(folder), f"is the kit of {_article(kit)}, must be of kind {' or '.join(kinds)}")
    ends = certificate_ends(kit.folder, kit.kind)
    now = datetime.datetime.now(datetime.UTC)
    hint = f"fedtier provision sites.toml --renew {kit.party}"
    require(ends > now, "KIT", str(folder), f"its certificate ran out on {ends:%Y-%m-%d}", hint)
    if kit.kind != "admin":
        require((folder / SIGNING).exists(), "KIT", str(folder), "has no signing key: an earlier version made it", hint)
        owner = read_identity(kit.folder / SIGNING).party
        require(owner == kit.party, "KIT", str(folder), f"has the signing key of {owner}", hint)
    return kit


def certificate_ends(folder: Path, kind: str) -> datetime.datetime:
    """When the certificate of the kit in `folder` runs out; its signing key does at the same time."""
    return certificate_of(folder / "startup" / ("server.crt" if kind == "server" else "client.crt")).not_valid_after_utc


def certificate_of(path: Path) -> Certificate:
    """The certificate in a file."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise FedtierError(str(path), NOTHING, f"is no certificate: {error}", HINT) from None


def open_workspace(kit: Kit, folder: Path) -> Path:
    """The folder that FLARE runs in: the kit's identity and its rules, copied with the folder's own paths."""
    root = folder.resolve()
    make_private(root)  # it holds a private key
    for part in ("local", "transfer"):
        (root / part).mkdir(exist_ok=True)
    shutil.rmtree(root / "startup", ignore_errors=True)
    shutil.copytree(kit.folder / "startup", root / "startup")  # FLARE does not look through links
    if kit.kind == "server":
        tokens.remember(root / "startup" / "server.crt", root)
    for source in (kit.folder / "local").iterdir():
        text = source.read_text(encoding="utf-8").replace("{workspace}", json.dumps(str(root))[1:-1])
        (root / "local" / source.name).write_text(text, encoding="utf-8")
    return root


def open_admin(kit: Kit, folder: Path) -> Path:
    """The same for admin commands: the admin's kit itself, or the one inside the server's."""
    inner = kit if kit.kind == "admin" else kit._replace(folder=kit.folder / "admin", kind="admin")
    return open_workspace(inner, folder)


def _article(kit: Kit) -> str:
    return f"site {kit.party}" if kit.kind == "site" else f"the {kit.kind}"
