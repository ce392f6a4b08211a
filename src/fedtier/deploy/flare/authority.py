# pyright: reportMissingImports=false
"""`fedtier provision sites.toml`: a certificate authority of its own, and a kit for the server and for each site.

    name = "hospitals"                   [a-z0-9_]
    server = "fl.example.org"            the host that sites dial, and the name in the server's certificate
    port = 8002                          the one port that must be open, at the server
    sites = ["north", "south", "west"]   client 0, 1, 2 of the configuration; new sites go to the end
    valid_days = 1825                    of the authority; the parties' certificates hold 360 days and are renewed

Run again with the same folder it keeps what is there, and writes the kits that are missing: that is how a site is added.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import NOTHING, FedtierError, nearest, require, whole
from ...protocol.signatures import issue, new_key
from ...storage.files import close_to_others, make_private, private_files, write_whole
from .lockdown import lock
from .workspace import SIGNING, certificate_ends

ORG = "fedtier"
ROLE = "project_admin"
KEYS = ("name", "server", "port", "sites", "valid_days")
HOST = r"([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
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
        rule = f"must be 1 to 32 of A-Z, a-z, 0-9, _ and -, and none of {', '.join(RESERVED)}"
        require(_fits(r"[A-Za-z0-9_-]{1,32}", site) and site.lower() not in RESERVED, "sites", site, rule)
    require(len({site.lower() for site in sites}) == len(sites), "sites", sites, "must not name a site twice")
    port, days = table.get("port", 8002), table.get("valid_days", 1825)
    whole("port", port)
    require(port < 65536, "port", port, "must be below 65536")
    whole("valid_days", days)
    return Sites(name, server, port, tuple(sites), days)


def provision(sites: Sites, folder: Path, renew: tuple[str, ...] = ()) -> Kits:
    """Writes the missing kits into `folder`; those named in `renew` get a new key and certificate."""
    parties = {"server": "server", "admin": "admin"} | dict.fromkeys(sites.sites, "site")
    for name in renew:
        require(name in parties, "--renew", name, "is no party of sites.toml", nearest(name, parties))
    authority = folder / "authority"
    _check_same(sites, authority)
    with private_files():
        make_private(authority)
        _forget(sites, authority, renew)
        made = _signed(sites, authority)
        written, kept = [], []
        for name, kind in parties.items():
            if (folder / name).exists() and name not in renew:
                kept.append(name)
            else:
                _place(made, folder / name, sites, name, kind, _signing_key(authority))
                written.append(name)
        shutil.rmtree(made)
        (authority / "sites.json").write_text(json.dumps(sites._asdict()), encoding="utf-8")
        for place in (authority, *(folder / name for name in parties)):
            close_to_others(place)
    return Kits(folder, written, kept)


def _signing_key(authority: Path) -> str:
    """The key that signs the parties' keys for letters; made when it is first needed."""
    path = authority / SIGNING
    if not path.exists():
        write_whole(path, json.dumps({"key": new_key()}).encode())
    return json.loads(path.read_text(encoding="utf-8"))["key"]


def _signed(sites: Sites, authority: Path) -> Path:
    """FLARE's own builders sign keys and certificates and write the kits; they print, so their words are kept for an error."""
    from nvflare.lighter.constants import CtxKey
    from nvflare.lighter.entity import Project, participant_from_dict
    from nvflare.lighter.impl.cert import CertBuilder
    from nvflare.lighter.impl.signature import SignatureBuilder
    from nvflare.lighter.impl.static_file import StaticFileBuilder
    from nvflare.lighter.impl.workspace import WorkspaceBuilder
    from nvflare.lighter.provisioner import Provisioner

    project = Project(name=sites.name, description="", props={"api_version": 3})
    server = {"name": sites.server, "type": "server", "org": ORG, "fed_learn_port": sites.port}
    admins = ({"name": _user(sites, who), "type": "admin", "org": ORG, "role": ROLE} for who in ("admin", "serve"))
    for party in (server, *admins, *({"name": site, "type": "client", "org": ORG} for site in sites.sites)):
        project.add_participant(participant_from_dict(party))
    builders = [
        WorkspaceBuilder(),
        StaticFileBuilder(config_folder="config", scheme="tcp"),
        CertBuilder(root_valid_days=sites.valid_days),
        SignatureBuilder(),
    ]
    words = io.StringIO()
    with contextlib.redirect_stdout(words), contextlib.redirect_stderr(words):
        context = Provisioner(str(authority.resolve()), builders).provision(project)
    if context.get(CtxKey.BUILD_ERROR):
        raise FedtierError("provision", sites.name, f"FLARE could not make the kits:\n{words.getvalue()}")
    return Path(context[CtxKey.CURRENT_PROD_DIR])


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


def _forget(sites: Sites, authority: Path, renew: tuple[str, ...]) -> None:
    """FLARE signs again whom its record of certificates does not hold."""
    record = authority / sites.name / "state" / "cert.json"
    if not renew or not record.exists():
        return
    known = json.loads(record.read_text(encoding="utf-8"))
    for name in renew:
        for subject in _subjects(sites, name):
            known.pop(subject, None)
    record.write_text(json.dumps(known), encoding="utf-8")


def _place(made: Path, kit: Path, sites: Sites, name: str, kind: str, signing: str) -> None:
    """Made beside its place, then moved there: a kit is whole or absent."""
    own, *more = _subjects(sites, name)
    with tempfile.TemporaryDirectory(dir=kit.parent, prefix=".kit-") as space:
        fresh = Path(space) / "kit"
        _copy(made / own, fresh)
        for user in more:  # the server submits its jobs under a name of its own
            _copy(made / user, fresh / "admin")
        if kind != "admin":
            lock(fresh, kind)
            until = int(certificate_ends(fresh, kind).timestamp())
            write_whole(fresh / SIGNING, issue(signing, name, until).encode())
        card = sites._asdict() | {"party": name, "kind": kind, "user": _user(sites, "admin" if kind == "admin" else "serve")}
        if kind == "site":
            card["sites"] = [name]  # it need not know who else takes part
        (fresh / "kit.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
        fresh.chmod(0o700)
        if kit.exists():
            shutil.rmtree(kit)
        fresh.replace(kit)


def _copy(made: Path, kit: Path) -> None:
    """Identity and configuration; not FLARE's start scripts, samples and defaults that ours take the place of."""
    unused = ("*.sh", "*.ipynb", "*.txt", "*.sample", "transfer", "authorization.json.default")
    shutil.copytree(made, kit, ignore=shutil.ignore_patterns(*unused))


def _user(sites: Sites, who: str) -> str:
    return f"{who}@{sites.name.replace('_', '-')}.fedtier"


def _subjects(sites: Sites, party: str) -> tuple[str, ...]:
    """The names in a kit's certificates."""
    return {"server": (sites.server, _user(sites, "serve")), "admin": (_user(sites, "admin"),)}.get(party, (party,))


def _fits(pattern: str, text: Any) -> bool:
    return isinstance(text, str) and re.fullmatch(pattern, text) is not None
