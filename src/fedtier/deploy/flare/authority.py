"""`fedtier provision sites.toml`: a certificate authority of its own, and a kit for the server and for each site.

    name = "hospitals"                   [a-z0-9_]
    server = "fl.example.org"            the host that sites dial, and the name in the server's certificate
    port = 8002                          the one port that must be open, at the server
    sites = ["north", "south", "west"]   client 0, 1, 2 of the configuration; new sites go to the end
    valid_days = 1825                    of the authority; the parties' certificates hold 360 days and are renewed

Run again with the same folder it keeps what is there, and writes the kits that are missing: that is how a site is added. The
authority's folder holds the authority's own keys and no party's; a kit holds its party's, unless that has made them itself
(`requests`).
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import NOTHING, FedtierError, nearest, require, whole
from ...protocol.signatures import identity_text, new_key, public_key, vouch
from ...storage.files import close_to_others, make_private, private_files, write_whole
from .certificates import Subjects, build
from .lockdown import lock
from .requests import KEYS as REQUESTED
from .requests import VOUCHED, Request, read_request
from .revocation import REVOKED, Revocations, read_revoked, write_revoked
from .workspace import SIGNING, certificate_ends

ISSUED = "issued.json"  # in the authority's folder: which signing keys each party was given
KEYS = ("name", "server", "port", "sites", "valid_days")
HOST = r"([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
NAME, NAME_RULE = r"[A-Za-z0-9_-]{1,32}", "1 to 32 of A-Z, a-z, 0-9, _ and -"
RESERVED = ("server", "admin", "authority")


class Sites(NamedTuple):
    name: str
    server: str
    port: int
    sites: tuple[str, ...]
    valid_days: int


class Kits(NamedTuple):
    folder: Path
    written: list[str]
    kept: list[str]


def check_sites(table: dict[str, Any]) -> Sites:
    """The checked content of sites.toml."""
    for key, value in table.items():
        if key not in KEYS:
            raise FedtierError(key, value, "is no key of sites.toml", nearest(key, KEYS))
    for key in ("name", "server", "sites"):
        require(key in table, key, NOTHING, "must be given in sites.toml", 'name = "hospitals"')
    name, server, sites = table["name"], table["server"], table["sites"]
    require(_fits(r"[a-z0-9_]{1,32}", name), "name", name, "must be 1 to 32 of a-z, 0-9 and _")
    require(_fits(HOST, server) and len(server) <= 64, "server", server, "must be a host name or an IPv4 address")
    listed = isinstance(sites, list) and len(sites) > 0
    require(listed, "sites", sites, "must be a list of names", 'sites = ["north", "south"]')
    for site in sites:
        rule = f"must be {NAME_RULE}, and none of {', '.join(RESERVED)}"
        require(_fits(NAME, site) and site.lower() not in RESERVED, "sites", site, rule)
    require(len({site.lower() for site in sites}) == len(sites), "sites", sites, "must not name a site twice")
    port, days = table.get("port", 8002), table.get("valid_days", 1825)
    whole("port", port)
    require(port < 65536, "port", port, "must be below 65536")
    whole("valid_days", days)
    return Sites(name, server, port, tuple(sites), days)


def check_party(name: str) -> None:
    """Refuses what can be no party's name."""
    require(_fits(NAME, name) and name != "authority", "NAME", name, f"must be server, admin or a site: {NAME_RULE}")


def provision(sites: Sites, folder: Path, renew: tuple[str, ...] = ()) -> Kits:
    """Writes the missing kits into `folder`, with keys that are made here; those named in `renew` are made anew."""
    parties = _parties(sites)
    for name in renew:
        require(name in parties, "--renew", name, "is no party of sites.toml", nearest(name, parties))
    written = [name for name in parties if name in renew or not (folder / name).exists()]
    _make(sites, folder, {name: None for name in written})
    return Kits(folder, written, [name for name in parties if name not in written])


def answer(sites: Sites, folder: Path, files: Sequence[Path]) -> tuple[Kits, dict[str, str]]:
    """Writes a kit without private keys for each signing request, and the requests' fingerprints by party."""
    parties, asked, prints = _parties(sites), {}, {}
    for file in files:
        request, print_ = read_request(file)
        name = request.party
        require(name in parties, "--sign", name, f"asks {file}, but is no party of sites.toml", nearest(name, parties))
        require(name not in asked, "--sign", name, "asks twice")
        asked[name], prints[name] = request, print_
    _make(sites, folder, asked)
    return Kits(folder, list(asked), [name for name in parties if (folder / name).exists() and name not in asked]), prints


def revoke(folder: Path, parties: Sequence[str]) -> Revocations:
    """Takes back all that these parties have been given; the list that says so goes into the server's kit if it is here."""
    authority = folder / "authority"
    require(
        (authority / "sites.json").exists(), "--kits", str(folder), "holds no authority", "the folder of `fedtier provision`"
    )
    sites = Sites(**json.loads((authority / "sites.json").read_text(encoding="utf-8")))
    known = [name for name in _parties(sites) if name != "server"]
    for name in parties:
        rule = "cannot be revoked: the sites would not hear of it" if name == "server" else "is no party of this authority"
        hint = "make a new authority: another --out, new kits" if name == "server" else nearest(name, known)
        require(name in known, "PARTY", name, rule, hint)
    secret = _signing_key(authority)
    found = read_revoked(authority / REVOKED, public_key(secret))
    for name in parties:
        found = found.with_party(name, _subjects(sites, name), _issued(authority).get(name, []) + _keys_in(folder / name))
    with private_files():
        for place in (authority, folder / "server"):
            if place.exists():
                write_revoked(place / REVOKED, found, secret)
    return found


def _parties(sites: Sites) -> dict[str, str]:
    return {"server": "server", "admin": "admin"} | dict.fromkeys(sites.sites, "site")


def _make(sites: Sites, folder: Path, asked: Mapping[str, Request | None]) -> None:
    """A kit for each party in `asked`, for the keys of its request or with new ones."""
    authority = folder / "authority"
    _check_same(sites, authority)
    with private_files():
        make_private(authority)
        secret = _signing_key(authority)
        revoked = read_revoked(authority / REVOKED, public_key(secret))
        keys = {}
        for name, request in asked.items():
            for subject, key in zip(_subjects(sites, name), REQUESTED.get(name, ("client",)), strict=True):
                keys[subject] = None if request is None else request.keys[key]
        made = build(_who(sites), authority, keys, revoked.since) if keys else None
        issued = _issued(authority)
        for name, request in asked.items():
            assert made is not None
            signing = _place(made, folder / name, sites, name, secret, request)
            issued[name] = [*issued.get(name, []), *signing]
        if made is not None:
            shutil.rmtree(made)
        if (folder / "server").exists() and revoked.number:
            write_revoked(folder / "server" / REVOKED, revoked, secret)
        write_whole(authority / ISSUED, json.dumps(issued, indent=1).encode())
        (authority / "sites.json").write_text(json.dumps(sites._asdict()), encoding="utf-8")
        for place in (authority, *(folder / name for name in _parties(sites))):
            if place.exists():
                close_to_others(place)


def _issued(authority: Path) -> dict[str, list[str]]:
    """The public signing keys that each party was given, which a revocation takes back."""
    path = authority / ISSUED
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _keys_in(kit: Path) -> list[str]:
    """The signing key of a kit of before there was a list of them."""
    path = kit / SIGNING
    return [public_key(json.loads(path.read_text(encoding="utf-8"))["key"])] if path.exists() else []


def _signing_key(authority: Path) -> str:
    """The key that signs the parties' keys for letters; made when it is first needed."""
    path = authority / SIGNING
    if not path.exists():
        write_whole(path, json.dumps({"key": new_key()}).encode())
    return json.loads(path.read_text(encoding="utf-8"))["key"]


def _who(sites: Sites) -> Subjects:
    users = tuple(_user(sites, who) for who in ("admin", "serve"))
    return Subjects(sites.name, sites.server, sites.port, users, sites.sites, sites.valid_days)


def _check_same(sites: Sites, authority: Path) -> None:
    """An authority signs for one name, host and port; sites keep their places, because a client's number is its place."""
    path = authority / "sites.json"
    if not path.exists():
        return
    before = Sites(**json.loads(path.read_text(encoding="utf-8")))
    hint = "give another --out for a new federation"
    for key in ("name", "server", "port", "valid_days"):
        old, new = getattr(before, key), getattr(sites, key)
        require(old == new, key, new, f"the kits here were made with {old!r}", hint)
    same = tuple(before.sites) == sites.sites[: len(before.sites)]
    require(same, "sites", list(sites.sites), f"must begin with {list(before.sites)}, whose numbers are given", hint)


def _place(made: Path, kit: Path, sites: Sites, name: str, signing: str, request: Request | None) -> list[str]:
    """Made beside its place, then moved there: a kit is whole or absent. The public signing keys in it."""
    own, *more = _subjects(sites, name)
    kind = _parties(sites)[name]
    given: list[str] = []
    with tempfile.TemporaryDirectory(dir=kit.parent, prefix=".kit-") as space:
        fresh = Path(space) / "kit"
        _copy(made / own, fresh)
        for user in more:  # the server submits its jobs under a name of its own
            _copy(made / user, fresh / "admin")
        if kind != "admin":
            lock(fresh, kind)
            until = int(certificate_ends(fresh, kind).timestamp())
            secret = new_key() if request is None else None
            given.append(request.signing if secret is None and request is not None else public_key(secret or ""))
            vouched = vouch(signing, name, given[0], until)
            file, text = (SIGNING, identity_text(secret, vouched)) if secret else (VOUCHED, json.dumps(vouched, indent=1))
            write_whole(fresh / file, text.encode())
        card = sites._asdict() | {"party": name, "kind": kind, "user": _user(sites, "admin" if kind == "admin" else "serve")}
        if kind == "site":
            card["sites"] = [name]  # it need not know who else takes part
        (fresh / "kit.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
        fresh.chmod(0o700)
        if kit.exists():
            shutil.rmtree(kit)
        fresh.replace(kit)
    return given


def _copy(made: Path, kit: Path) -> None:
    """Identity and configuration; not FLARE's start scripts, samples and defaults that ours take the place of."""
    unused = ("*.sh", "*.ipynb", "*.txt", "*.sample", "transfer", "authorization.json.default")
    shutil.copytree(made, kit, ignore=shutil.ignore_patterns(*unused))


def _user(sites: Sites, who: str) -> str:
    return f"{who}@{sites.name.replace('_', '-')}.fedtier"


def _subjects(sites: Sites, party: str) -> tuple[str, ...]:
    """The names in a kit's certificates."""
    known = {"server": (sites.server, _user(sites, "serve")), "admin": (_user(sites, "admin"),)}
    return known.get(party, (party,))


def _fits(pattern: str, text: Any) -> bool:
    return isinstance(text, str) and re.fullmatch(pattern, text) is not None
