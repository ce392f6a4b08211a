"""Kits: whose certificates they hold, and how little they allow."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from fedtier.deploy.flare.authority import Sites, check_sites, provision
from fedtier.deploy.flare.workspace import SIGNING, open_workspace, read_kit
from fedtier.errors import FedtierError
from fedtier.protocol import Letters, ServerSeal, SiteSeal, read_identity

pytestmark = pytest.mark.flare

TABLE = {"name": "trial", "server": "localhost", "port": 18002, "sites": ["north", "south"], "valid_days": 730}


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return provision(check_sites(TABLE), tmp_path_factory.mktemp("made") / "kits").folder


def certificate(path: Path) -> Any:
    return x509.load_pem_x509_certificate(path.read_bytes())


def common_name(path: Path) -> str:
    return certificate(path).subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"name": "Große Klinik"}, "name"),
        ({"server": "two words"}, "server"),
        ({"port": 70000}, "port"),
        ({"sites": []}, "sites"),
        ({"sites": ["north", "North"]}, "sites"),
        ({"sites": ["admin"]}, "sites"),
        ({"sites": ["../north"]}, "sites"),
        ({"valid_days": 0}, "valid_days"),
        ({"ports": 1}, "ports"),
    ],
)
def test_a_bad_sites_toml_is_refused_by_the_name_of_its_key(change: dict[str, Any], name: str) -> None:
    with pytest.raises(FedtierError) as refusal:
        check_sites(TABLE | change)
    assert refusal.value.name == name


def test_the_authority_signs_every_party_and_no_one_else(kits: Path) -> None:
    root = certificate(kits / "north/startup/rootCA.pem")
    names = {}
    for party, file in {"server": "server.crt", "north": "client.crt", "south": "client.crt", "admin": "client.crt"}.items():
        certificate(kits / party / "startup" / file).verify_directly_issued_by(root)
        names[party] = common_name(kits / party / "startup" / file)
    assert names == {"server": "localhost", "north": "north", "south": "south", "admin": "admin@trial.fedtier"}
    assert (root.not_valid_after_utc - root.not_valid_before_utc).days == 730


def test_kits_and_the_authority_are_for_their_owner_alone_and_the_authority_s_keys_are_in_no_kit(kits: Path) -> None:
    for place in ("authority", "server", "north", "south", "admin"):
        for path in (kits / place, *(kits / place).rglob("*")):
            assert path.stat().st_mode & 0o077 == 0, path
    record = json.loads((kits / "authority/trial/state/cert.json").read_text())
    secrets = record["root_pri_key"].strip(), json.loads((kits / "authority/signing.json").read_text())["key"]
    for path in kits.glob("[!a]*/**/*"):
        assert path.is_dir() or not any(secret in path.read_text() for secret in secrets)


def test_rights_that_an_earlier_version_gave_to_others_are_taken_back(tmp_path: Path) -> None:
    provision(check_sites(TABLE), tmp_path / "kits")
    record = tmp_path / "kits/authority/trial/state/cert.json"
    record.chmod(0o644)
    provision(check_sites(TABLE), tmp_path / "kits")
    assert record.stat().st_mode & 0o077 == 0


def test_letters_sealed_with_the_server_s_kit_open_at_a_site_also_at_one_that_came_later(tmp_path: Path) -> None:
    folder = provision(check_sites(TABLE), tmp_path / "kits").folder
    provision(check_sites(TABLE | {"sites": ["north", "south", "west"]}), folder, renew=("north",))
    server = ServerSeal(read_identity(folder / "server" / SIGNING))
    for site in ("north", "south", "west"):
        seal = SiteSeal(read_identity(folder / site / SIGNING))
        sent, hashes = server.seal(Letters(b"x", {site: b"own"}))
        content, asked = seal.open(sent.whole(site))
        assert content == b"ownx" and server.open(seal.seal(b"reply", asked), site, hashes[site]) == b"reply"
        ends = certificate(folder / site / "startup/client.crt").not_valid_after_utc
        assert seal.identity.until == int(ends.timestamp())


def test_a_kit_without_a_signing_key_or_with_another_s_is_refused_with_the_line_that_renews_it(tmp_path: Path) -> None:
    folder = provision(check_sites(TABLE), tmp_path / "kits").folder
    (folder / "north" / SIGNING).write_bytes((folder / "south" / SIGNING).read_bytes())
    with pytest.raises(FedtierError, match="has the signing key of south") as refusal:
        read_kit(folder / "north", "site")
    assert refusal.value.hint == "fedtier provision sites.toml --renew north"
    (folder / "north" / SIGNING).unlink()
    with pytest.raises(FedtierError, match="has no signing key"):
        read_kit(folder / "north", "site")


@pytest.mark.parametrize("party", ["server", "north", "south"])
def test_a_kit_allows_our_classes_alone_and_no_code_no_shell_no_logs(kits: Path, party: str) -> None:
    resources = json.loads((kits / party / "local/resources.json").read_text())
    assert resources["class_allow_list"] == ["fedtier.deploy.flare."]
    assert resources["class_list_enforcement_mode"] == "enforce"
    assert not any("log" in part["id"] for part in resources["components"])
    assert party == "server" or resources["allow_log_streaming"] is False
    roles = json.loads((kits / party / "local/authorization.json").read_text())["permissions"]
    assert list(roles) == ["project_admin"]
    for right in ("byoc", "shell_commands", "download_job", "clone_job"):
        assert roles["project_admin"][right] == "none"


@pytest.mark.parametrize(("party", "file"), [("server", "fed_server.json"), ("north", "fed_client.json")])
def test_a_kit_speaks_tcp_with_certificates_on_both_sides(kits: Path, party: str, file: str) -> None:
    content = json.loads((kits / party / "startup" / file).read_text())
    assert content["servers"][0]["service"] == {"target": "localhost:18002", "scheme": "tcp"}
    end = content["servers"][0] if party == "server" else content["client"]
    assert end["connection_security"] == "mtls"


def test_nothing_is_stored_outside_the_workspace(kits: Path, tmp_path: Path) -> None:
    space = open_workspace(read_kit(kits / "server", "server"), tmp_path / "space")
    text = (space / "local/resources.json").read_text()
    assert "/tmp/nvflare" not in text and "{workspace}" not in text
    assert f'"{space}/jobs"' in text


def test_a_new_site_gets_a_kit_of_the_same_authority_and_the_others_stay(tmp_path: Path) -> None:
    folder = tmp_path / "kits"
    provision(check_sites(TABLE), folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "authority" not in path.parts}
    made = provision(check_sites(TABLE | {"sites": ["north", "south", "west"]}), folder)
    assert (made.written, made.kept) == (["west"], ["server", "admin", "north", "south"])
    assert {path: path.read_bytes() for path in before} == before
    root = certificate(folder / "north/startup/rootCA.pem")
    certificate(folder / "west/startup/client.crt").verify_directly_issued_by(root)
    assert read_kit(folder / "west", "site").sites == ("west",)  # who else takes part is none of its business


def test_sites_keep_their_numbers(tmp_path: Path) -> None:
    provision(check_sites(TABLE), tmp_path / "kits")
    with pytest.raises(FedtierError, match="must begin with"):
        provision(check_sites(TABLE | {"sites": ["south", "north"]}), tmp_path / "kits")
    with pytest.raises(FedtierError, match="were made with 'localhost'"):
        provision(check_sites(TABLE | {"server": "elsewhere"}), tmp_path / "kits")


def test_a_renewed_kit_has_a_new_key_under_the_same_authority(tmp_path: Path) -> None:
    folder = tmp_path / "kits"
    provision(check_sites(TABLE), folder)
    keys = {party: (folder / party / "startup/client.key").read_bytes() for party in ("north", "south")}
    root = (folder / "north/startup/rootCA.pem").read_bytes()
    made = provision(check_sites(TABLE), folder, renew=("north",))
    assert made.written == ["north"]
    assert (folder / "north/startup/client.key").read_bytes() != keys["north"]
    assert (folder / "south/startup/client.key").read_bytes() == keys["south"]
    assert (folder / "north/startup/rootCA.pem").read_bytes() == root
    with pytest.raises(FedtierError, match="did you mean 'north'"):
        provision(check_sites(TABLE), folder, renew=("nort",))


def test_a_kit_of_the_wrong_kind_or_past_its_end_is_refused(kits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FedtierError, match="is the kit of site north, must be of kind server"):
        read_kit(kits / "north", "server")
    with pytest.raises(FedtierError, match="holds no kit"):
        read_kit(kits / "authority", "server")

    today = datetime.datetime

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Later:
            return cls.fromtimestamp(today.now(tz).timestamp() + 361 * 86400, tz)

    monkeypatch.setattr("fedtier.deploy.flare.workspace.datetime.datetime", Later)
    with pytest.raises(FedtierError, match="ran out on") as refusal:
        read_kit(kits / "north", "site")
    assert refusal.value.hint == "fedtier provision sites.toml --renew north"


def test_a_kit_survives_a_failed_provision(tmp_path: Path) -> None:
    sites = check_sites(TABLE)
    provision(sites, tmp_path / "kits")
    key = (tmp_path / "kits/north/startup/client.key").read_bytes()
    with pytest.raises(FedtierError):
        provision(Sites(*sites._replace(valid_days=10)), tmp_path / "kits", renew=("north",))
    assert (tmp_path / "kits/north/startup/client.key").read_bytes() == key
