"""Certificates and keys that are taken back: at the handshake, on a live connection, in replies; and how a party comes back."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from fedtier.deploy.flare import supervise
from fedtier.deploy.flare.authority import check_sites, provision, revoke
from fedtier.deploy.flare.peers import PARTIES, Peer, Peers
from fedtier.deploy.flare.revocation import REVOKED, Revocations, RevokedFile, write_revoked
from fedtier.deploy.flare.supervise import Party
from fedtier.deploy.flare.validity import Validity, read_certificates, revoked_file
from fedtier.deploy.flare.workspace import SIGNING, certificate_of, open_workspace, read_kit
from fedtier.errors import FedtierError
from fedtier.protocol import Letters, ServerSeal, SiteSeal, read_identity
from fedtier.protocol.exchange import Exchange
from fedtier.protocol.record import Record, read_record
from fedtier.protocol.signatures import new_key, public_key
from fedtier.reports.live.certificates import ends_soon
from fedtier.reports.live.sites import Heard, standing

from .federation import federation, rounds_done, until

pytestmark = pytest.mark.flare

TABLE: dict[str, Any] = {"name": "trial", "server": "localhost", "port": 18004, "sites": ["north", "south"]}
SECRET = new_key()


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return provision(check_sites(TABLE), tmp_path_factory.mktemp("made") / "kits").folder


def at(kit: Path) -> Peer:
    found = certificate_of(kit / "startup/client.crt")
    return Peer(kit.name, found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp())


def test_a_certificate_of_before_the_moment_is_refused_and_one_of_after_it_is_not() -> None:
    found = Revocations().with_party("north", ["north"], ["aa"])
    moment = found.since("north")
    assert 0 < moment - time.time() <= 1 and found.since("south") == 0
    assert found.of("north", moment - 1) and not found.of("north", moment) and not found.of("south", 0)


def test_a_list_counts_only_if_the_authority_has_signed_it_and_never_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / REVOKED
    first = Revocations().with_party("north", ["north"], ["aa"])
    second = first.with_party("south", ["south"], ["bb"])
    write_revoked(path, second, SECRET)
    file = RevokedFile(path, public_key(SECRET))
    assert file.withdrawn_keys() == {"aa", "bb"} and not file.look()
    for spoil, why in (
        (lambda: write_revoked(path, first, SECRET), "is older"),
        (lambda: write_revoked(path, second.with_party("x", ["x"], []), new_key()), "is not signed"),
        (lambda: path.write_text("half a fi"), "cannot be read"),
        (path.unlink, "is gone"),
    ):
        spoil()
        assert file.look() and why in file.trouble and file.found == second
    with pytest.raises(FedtierError, match="is not signed"):
        write_revoked(path, second, new_key())
        RevokedFile(path, public_key(SECRET))


def test_who_is_revoked_is_cut_off_alone_and_comes_back_with_a_new_certificate_only(kits: Path, tmp_path: Path) -> None:
    peers = Peers(revoked_file(kits / "server"), tmp_path / PARTIES)
    ends = {name: socket.socketpair() for name in ("north", "south", "again")}
    assert not peers.enter(ends["north"][0], at(kits / "north")) and not peers.enter(ends["south"][0], at(kits / "south"))
    assert peers.cut() == []
    revoke(kits, ["north"])
    (said,) = peers.cut()
    assert said.startswith("north: cut off: its certificate was revoked on")
    assert ends["north"][1].recv(1) == b""
    ends["south"][1].setblocking(False)
    with pytest.raises(BlockingIOError):
        ends["south"][1].recv(1)
    assert "revoked on" in peers.enter(ends["again"][0], at(kits / "north"))
    provision(check_sites(TABLE), kits, renew=("north",))
    assert not peers.enter(ends["again"][0], at(kits / "north"))
    assert set(json.loads((tmp_path / PARTIES).read_text())) == {"north", "south"}
    for pair in ends.values():
        for end in pair:
            end.close()


def test_a_reply_signed_with_a_revoked_key_is_refused_and_the_record_says_since_when(tmp_path: Path) -> None:
    kits = provision(check_sites(TABLE), tmp_path / "kits").folder
    server = ServerSeal(read_identity(kits / "server" / SIGNING), revoked_file(kits / "server"))
    site = SiteSeal(read_identity(kits / "north" / SIGNING), kits / "north" / SIGNING)

    def transport(sent: Letters, seconds: float) -> dict[str, bytes]:
        return {"north": site.seal(b"reply", site.open(sent.whole("north"))[1])}

    exchange = Exchange(transport, server, Record(tmp_path))
    letters = Letters(b"", {"north": b"own"})
    assert exchange.ask(letters, 1.0)["north"].open(1000) == b"reply"
    revoke(kits, ["north"])
    with pytest.raises(FedtierError, match="signs with a key that was revoked"):
        exchange.ask(letters, 1.0)["north"].open(1000)
    provision(check_sites(TABLE), kits, renew=("north",))  # the site's process goes on and finds the new key
    assert exchange.ask(letters, 1.0)["north"].open(1000) == b"reply"
    lines = [line.said for line in read_record(tmp_path) if line.said["way"] == "revoked"]
    assert [(line["who"], line["list"]) for line in lines] == [("north", 1)]


def test_only_parties_can_be_revoked_and_the_server_cannot(kits: Path, tmp_path: Path) -> None:
    with pytest.raises(FedtierError, match="did you mean 'north'"):
        revoke(kits, ["nort"])
    with pytest.raises(FedtierError, match="the sites would not hear of it"):
        revoke(kits, ["server"])
    with pytest.raises(FedtierError, match="holds no authority"):
        revoke(tmp_path, ["north"])


def test_status_and_watch_tell_who_is_revoked_and_whose_certificate_ends_soon(tmp_path: Path) -> None:
    kits = provision(check_sites(TABLE), tmp_path / "kits").folder
    said: list[str] = []
    (tmp_path / "space").mkdir()
    validity = Validity(read_kit(kits / "server", "server"), tmp_path / "space", ["north", "south"], said.append)
    with socket.socket() as link:
        Peers(None, tmp_path / "space" / PARTIES).enter(link, Peer("south", time.time(), time.time() + 9.25 * 86_400))
    revoke(kits, ["north"])
    for _ in range(2):
        validity.look()
    assert [line.partition(": ")[0] for line in said] == ["north", "south"]  # each once
    assert "refused: its certificate was revoked on" in said[0] and "ends in 9 days" in said[1]
    table = read_certificates(tmp_path / "space")
    assert ends_soon(table, time.time()) == ["south: certificate ends in 9 days"]
    found = standing("north", Heard({}, {}, frozenset(), {}, table), 5, None, time.time())
    assert found.standing == "refused" and "revoked on" in found.why


def test_a_renewed_kit_is_noticed_and_its_key_is_put_where_flare_looks(kits: Path, tmp_path: Path) -> None:
    kit = read_kit(kits / "south", "site")
    party = Party(kit, tmp_path, {}, lambda line: None)
    open_workspace(kit, tmp_path)
    assert not party.renewed()
    provision(check_sites(TABLE), kits, renew=("south",))
    assert party.renewed()
    party.take_over()
    assert not party.renewed()
    for name in ("client.key", "client.crt"):
        assert (tmp_path / "startup" / name).read_bytes() == (kits / "south/startup" / name).read_bytes()


def test_a_renewed_server_is_started_anew_once_with_its_new_certificate(
    kits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "command_of", lambda kit: supervise.Command("platform", "", ()))  # ends by itself
    party = Party(read_kit(kits / "server", "server"), tmp_path, {}, lambda line: None)
    party.restart()
    assert not party.renewed()
    provision(check_sites(TABLE), kits, renew=("server",))
    assert party.renewed()
    party.restart()
    assert not party.renewed()
    party.end()


TABLES: dict[str, Any] = {
    "data": {"name": "digits", "clients": 3, "alpha": 0.5},
    "run": {"rounds": 100_000, "participation": 1.0, "tau": 1.0, "eval_every": 100_000},
    "method": {"name": "fedavg"},
}


def counted(folder: Path, client: int) -> int:
    import safetensors.numpy

    return int(safetensors.numpy.load((folder / "checkpoint.safetensors").read_bytes())["last"][client])


@pytest.mark.slow
def test_a_run_goes_on_while_one_site_renews_and_another_is_revoked_and_comes_back(tmp_path: Path) -> None:
    with federation(tmp_path, TABLES) as made:
        for site in made.sites:
            made.join(site)
        folder = made.root / "runs/long"
        made.serve(made.configure("run", {"method": TABLES["method"]}, quorum=0.5, deadline=3.0), "runs/long")
        until(lambda: rounds_done(folder) >= 5, "a round")
        made.call("provision", "sites.toml", "--renew", "site-0")
        until(lambda: "site-0: renewed certificate" in made.said("site-0"), "the renewed certificate")
        clock = time.monotonic()
        made.call("revoke", "site-1")
        until(lambda: "site-1: cut off" in console(folder), "the cut")
        assert time.monotonic() - clock < 30  # most of it the command itself
        until(lambda: "site-1: refused: its certificate was revoked on" in made.said("server"), "a word at the server")
        at = rounds_done(folder)
        until(lambda: rounds_done(folder) > at + 20, "rounds without it")
        assert counted(folder, 1) < counted(folder, 0)
        told = json.loads(made.call("status", "kits/admin", "--json"))
        assert [bool(site["revoked"]) for site in told["sites"]] == [False, True, False]
        made.call("provision", "sites.toml", "--renew", "site-1")
        until(lambda: counted(folder, 1) > at + 20, "a reply of the site with its new certificate")
        assert made.said("server").count("submitted") == 1  # nobody was stopped for any of it
        assert "silent" not in "".join(line for line in made.said("server").splitlines() if "site-0" in line)


def console(folder: Path) -> str:
    return (folder / "flare/server/console.log").read_text()
