"""Keys that are made where they are used: a request, an answer without secrets, a whole kit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fedtier.deploy.flare.authority import Sites, answer, check_sites, provision
from fedtier.deploy.flare.requests import authority_fingerprint, make_request, read_request, take_answer
from fedtier.deploy.flare.workspace import SIGNING, certificate_of, read_kit
from fedtier.errors import FedtierError
from fedtier.protocol import Letters, ServerSeal, SiteSeal, read_identity

pytestmark = pytest.mark.flare

TABLE: dict[str, Any] = {"name": "trial", "server": "localhost", "port": 18003, "sites": ["north", "south"]}


class Asked(NamedTuple):
    """An authority, and three parties that have asked it and been answered."""

    root: Path
    sites: Sites
    kits: Path  # the authority's side

    def request(self, party: str, kit: str) -> Path:
        file = self.root / f"{kit}.request"
        make_request(party, self.root / kit, file)
        return file


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    root = tmp_path_factory.mktemp("asked")
    made = Asked(root, check_sites(TABLE), root / "kits")
    files = [made.request(party, party) for party in ("server", "admin", "north")]
    answer(made.sites, made.kits, files)
    for party in ("server", "admin", "north"):
        take_answer(party, root / party, made.kits / party)
    return made


def secrets_in(folder: Path) -> set[str]:
    """Files with a private key: a PEM one, or one for letters."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)) for path in files if "PRIVATE" in path.read_text() or '"key"' in path.read_text()}


def test_the_kits_and_the_authority_hold_no_private_key_but_the_authority_s(asked: Asked) -> None:
    assert secrets_in(asked.kits) == {"authority/signing.json", "authority/trial/state/cert.json"}
    record = json.loads((asked.kits / "authority/trial/state/cert.json").read_text())
    assert set(record) == {"root_cert", "root_pri_key"}


def test_kits_whose_keys_are_made_at_the_authority_leave_none_in_its_folder_either(tmp_path: Path) -> None:
    provision(check_sites(TABLE), tmp_path / "kits")
    assert secrets_in(tmp_path / "kits/authority") == {"signing.json", "trial/state/cert.json"}
    record = json.loads((tmp_path / "kits/authority/trial/state/cert.json").read_text())
    assert set(record) == {"root_cert", "root_pri_key"}


def test_an_answered_kit_is_whole_and_its_letters_open_at_the_other_end(asked: Asked) -> None:
    for party, kind in {"server": "server", "admin": "admin", "north": "site"}.items():
        assert read_kit(asked.root / party, kind).party == party
        assert (asked.root / party).stat().st_mode & 0o077 == 0 and not (asked.root / party / "asked").exists()
    root = certificate_of(asked.root / "north/startup/rootCA.pem")
    certificate_of(asked.root / "north/startup/client.crt").verify_directly_issued_by(root)
    server = ServerSeal(read_identity(asked.root / "server" / SIGNING))
    site = SiteSeal(read_identity(asked.root / "north" / SIGNING))
    sent, hashes = server.seal(Letters(b"x", {"north": b"own"}))
    content, letter = site.open(sent.whole("north"))
    assert content == b"ownx" and server.open(site.seal(b"reply", letter), "north", hashes["north"]) == b"reply"


def test_an_answer_to_another_request_is_refused_and_the_kit_stays(asked: Asked) -> None:
    asked.request("north", "stranger")
    with pytest.raises(FedtierError, match="is not for the key that was made here"):
        take_answer("north", asked.root / "stranger", asked.kits / "north")
    with pytest.raises(FedtierError, match="has not asked"):
        take_answer("north", asked.root / "north", asked.kits / "north")
    assert read_kit(asked.root / "north", "site").party == "north"


def test_a_second_request_renews_with_new_keys_and_one_of_another_authority_is_refused(asked: Asked, tmp_path: Path) -> None:
    kit, foreign = tmp_path / "north", tmp_path / "kits"
    shutil.copytree(asked.root / "north", kit)
    before = {name: (kit / name).read_bytes() for name in ("startup/client.key", "startup/client.crt", SIGNING)}
    make_request("north", kit, tmp_path / "north.request")
    answer(asked.sites, foreign, [tmp_path / "north.request"])
    with pytest.raises(FedtierError, match="is of another authority"):
        take_answer("north", kit, foreign / "north")
    answer(asked.sites, asked.kits, [tmp_path / "north.request"])
    take_answer("north", kit, asked.kits / "north")
    assert all((kit / name).read_bytes() != content for name, content in before.items())
    assert authority_fingerprint(kit) == authority_fingerprint(asked.root / "server")


def test_a_request_that_was_changed_or_is_for_nobody_is_refused(asked: Asked, tmp_path: Path) -> None:
    file = asked.request("south", "south")
    content = json.loads(file.read_text())
    changed = tmp_path / "changed.request"
    changed.write_text(json.dumps(content | {"signed": content["signed"].replace('"south"', '"north"')}))
    with pytest.raises(FedtierError, match="is not signed"):
        read_request(changed)
    changed.write_text("{}")
    with pytest.raises(FedtierError, match="is no signing request"):
        read_request(changed)
    with pytest.raises(FedtierError, match="is no party of sites"):
        answer(asked.sites, asked.kits, [asked.request("west", "west")])
    with pytest.raises(FedtierError, match="asks twice"):
        answer(asked.sites, asked.kits, [file, file])
