"""Who is not let in: strangers, the nameless, those under another's name; and what is not run: code that came by wire."""

from __future__ import annotations

import datetime
import json
import shutil
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from fedtier.deploy.flare.admin import Admin, NoAnswer
from fedtier.deploy.flare.authority import check_sites, provision
from fedtier.deploy.flare.job import write_job
from fedtier.deploy.flare.status import status
from fedtier.deploy.flare.supervise import Party
from fedtier.deploy.flare.workspace import Kit, read_kit
from fedtier.errors import FedtierError

from .federation import free_port, until

pytestmark = pytest.mark.flare

SITES = ["north", "south", "west"]


class House:
    """A FLARE server without a run, and parties that knock at it."""

    def __init__(self, root: Path) -> None:
        self.root, self.port = root, free_port()
        self.kits = self.provision("own")
        self.parties: list[Party] = []
        self.server = self.start(read_kit(self.kits / "server", "server"), "server")
        self.admin = Admin(read_kit(self.kits / "server", "server"), root / "admin")

    def provision(self, folder: str) -> Path:
        table = {"name": "house", "server": "localhost", "port": self.port, "sites": SITES}
        return provision(check_sites(table), self.root / folder).folder

    def start(self, kit: Kit, space: str) -> Party:
        party = Party(kit, self.root / space, {}, lambda line: None)
        party.keep()
        self.parties.append(party)
        return party

    def inside(self) -> set[str]:
        try:
            return set(self.admin.sites())
        except NoAnswer:
            return set()

    def close(self) -> None:
        self.admin.close()
        for party in self.parties:
            party.end()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = House(tmp_path_factory.mktemp("house"))
    try:
        made.start(read_kit(made.kits / "north", "site"), "north")
        until(lambda: made.inside() == {"north"}, "the rightful site")
        yield made
    finally:
        made.close()


def console(party: Party) -> str:
    return party.log.read_text(errors="replace")


def test_a_site_of_a_foreign_authority_is_refused(house: House) -> None:
    stranger = house.start(read_kit(house.provision("foreign") / "south", "site"), "stranger")
    until(lambda: "certificate verify failed" in console(stranger), "a refusal at the stranger's")
    time.sleep(2)
    assert house.inside() == {"north"}
    stranger.end()


def test_a_site_under_the_name_of_another_is_refused(house: House) -> None:
    thief = house.start(read_kit(house.kits / "south", "site")._replace(party="west"), "thief")
    until(lambda: "authenticated as 'south' but claimed endpoint 'west'" in console(house.server), "a refusal at the server's")
    time.sleep(3)
    assert house.inside() == {"north"}
    thief.end()


def test_a_server_that_is_another_party_is_refused_by_the_sites(house: House, tmp_path: Path) -> None:
    """A site with a good certificate of the same authority poses as the server, on another port."""
    port = free_port()
    for party in ("server", "west"):
        shutil.copytree(house.kits / party, tmp_path / party)
        for file in (tmp_path / party / "startup").glob("fed_*.json"):
            file.write_text(file.read_text().replace(str(house.port), str(port)))
    for ending in ("crt", "key"):
        shutil.copy(house.kits / f"south/startup/client.{ending}", tmp_path / f"server/startup/server.{ending}")
    house.start(read_kit(tmp_path / "server", "server"), "impostor")
    victim = house.start(read_kit(tmp_path / "west", "site"), "victim")
    until(lambda: "authenticated as 'south' but claimed endpoint 'server'" in console(victim), "a refusal at the victim's", 60)
    assert "Successfully registered" not in console(victim)


def test_without_a_certificate_the_connection_is_refused(house: House) -> None:
    """Both clients trust the server's certificate; one of them shows its own."""
    bare = ssl.create_default_context(cafile=str(house.kits / "north/startup/rootCA.pem"))
    assert refused(bare, house.port)
    shown = ssl.create_default_context(cafile=str(house.kits / "north/startup/rootCA.pem"))
    shown.load_cert_chain(house.kits / "north/startup/client.crt", house.kits / "north/startup/client.key")
    assert not refused(shown, house.port)
    foreign = ssl.create_default_context(cafile=str(house.kits / "north/startup/rootCA.pem"))
    other = house.provision("other") / "north/startup"
    foreign.load_cert_chain(other / "client.crt", other / "client.key")
    assert refused(foreign, house.port)


@pytest.mark.parametrize("begins", [-10, 1, -1], ids=["ran out", "of tomorrow", "of today"])
def test_a_certificate_that_ran_out_or_is_of_tomorrow_is_refused(house: House, tmp_path: Path, begins: int) -> None:
    """Signed by the federation's authority for nine days, which are over, begin tomorrow, or have begun."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID
    from nvflare.lighter.impl.cert import CertBuilder
    from nvflare.lighter.utils import generate_keys, load_private_key, serialize_cert, serialize_pri_key

    (state,) = (house.kits / "authority").rglob("cert.json")
    root = json.loads(state.read_text())
    secret, public = generate_keys()
    start = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=begins)
    (issuer,) = x509.load_pem_x509_certificate(root["root_cert"].encode()).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    made = CertBuilder()._generate_cert(
        "south", "fedtier", issuer.value, load_private_key(root["root_pri_key"]), public,
        not_valid_before=start, not_valid_after=start + datetime.timedelta(days=9),
    )  # fmt: skip
    (tmp_path / "crt").write_bytes(serialize_cert(made))
    (tmp_path / "key").write_bytes(serialize_pri_key(secret))
    shown = ssl.create_default_context(cafile=str(house.kits / "north/startup/rootCA.pem"))
    shown.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    assert refused(shown, house.port) == (begins != -1)


@pytest.mark.slow
def test_a_site_s_certificate_used_as_the_administrator_s_is_refused_in_words(
    house: House, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(house.kits / "admin", tmp_path / "admin")
    for ending in ("crt", "key"):
        shutil.copy(house.kits / f"south/startup/client.{ending}", tmp_path / f"admin/startup/client.{ending}")
    with pytest.raises(FedtierError, match="does not take this kit for an administrator's"):
        status(read_kit(tmp_path / "admin", "admin"))
    assert "Traceback" not in capfd.readouterr().err


def refused(context: ssl.SSLContext, port: int) -> bool:
    """In TLS 1.3 a client learns of its refusal when it first listens."""
    with socket.create_connection(("localhost", port), timeout=20) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as link:
                link.settimeout(5)
                return not link.recv(1)
        except TimeoutError:
            return False  # the server waits for what the client has to say
        except (ssl.SSLError, ConnectionError):
            return True


def ended(house: House, job: str) -> str:
    def status() -> str | None:
        try:
            found = house.admin.status(job)
        except NoAnswer:
            return None
        return found if found.startswith("FINISHED") else None

    return until(status, "the job's end", 120)


def test_a_job_that_carries_code_is_refused(house: House, tmp_path: Path) -> None:
    trace = tmp_path / "was-here"
    job = write_job(tmp_path / "job", "code", ("north",), 1)
    custom = job / "fedtier" / "custom"
    custom.mkdir()
    (custom / "sitecustomize.py").write_text(f"open({str(trace)!r}, 'w')\n")
    assert ended(house, house.admin.submit(job)) == "FINISHED:FAILED_TO_RUN"
    assert "BYOC not permitted" in console(house.server)
    assert not trace.exists()


def test_a_job_that_names_another_class_is_refused(house: House, tmp_path: Path) -> None:
    """One of FLARE's own controllers: installed everywhere, on FLARE's default list, not on ours."""
    job = write_job(tmp_path / "job", "class", ("north",), 1)
    config = job / "fedtier/config/config_fed_server.json"
    content = json.loads(config.read_text())
    content["workflows"][0] = {"id": "w", "path": "nvflare.app_common.workflows.global_model_eval.GlobalModelEval", "args": {}}
    config.write_text(json.dumps(content))
    assert ended(house, house.admin.submit(job)) != "FINISHED:COMPLETED"
    logs = [path.read_text(errors="replace") for path in (house.root / "server").rglob("*.log*")] + [console(house.server)]
    assert any("not in allow_list" in text for text in logs)
    shutil.rmtree(job)


def test_callers_who_say_nothing_stop_nobody_and_are_hung_up(house: House) -> None:
    """Twenty at once: some are hung up at once, because so many from one address are too many, the others after seconds."""
    idle = [socket.create_connection(("localhost", house.port), timeout=30) for _ in range(20)]
    try:
        clock = time.monotonic()
        assert "north" in house.inside()
        late = house.start(read_kit(house.kits / "west", "site"), "late")
        shown = ssl.create_default_context(cafile=str(house.kits / "north/startup/rootCA.pem"))
        shown.load_cert_chain(house.kits / "north/startup/client.crt", house.kits / "north/startup/client.key")
        for caller in idle:
            assert caller.recv(1) == b""  # the server's end of the call
        assert time.monotonic() - clock < 25
        assert not refused(shown, house.port)
        until(lambda: "west" in house.inside(), "a site that came meanwhile", 60)
        late.end()
    finally:
        for caller in idle:
            caller.close()


def test_a_message_that_announces_gigabytes_is_hung_up_before_memory_is_taken_for_it(house: House) -> None:
    """Sixteen bytes of FLARE's prefix, with a good certificate, that announce 1.9 GB."""
    shown = ssl.create_default_context(cafile=str(house.kits / "north/startup/rootCA.pem"))
    shown.load_cert_chain(house.kits / "north/startup/client.crt", house.kits / "north/startup/client.key")
    assert house.server.process is not None
    server = psutil.Process(house.server.process.pid)
    before = server.memory_info().rss
    prefix = struct.pack(">IHBBHHHH", 1_900_000_000, 0, 1, 0, 0, 0, 0, 0)
    with shown.wrap_socket(
        socket.create_connection(("localhost", house.port), timeout=20), server_hostname="localhost"
    ) as link:
        link.sendall(prefix)
        link.settimeout(10)
        try:
            while link.recv(4096):  # what the server says first
                pass
        except ConnectionError:
            pass
    assert server.memory_info().rss - before < 100e6


def test_a_server_that_stands_still_is_told_in_words_within_the_minute(
    house: House, record_property: Callable[[str, object], None]
) -> None:
    assert house.server.process is not None
    server = psutil.Process(house.server.process.pid)
    server.suspend()
    try:
        clock = time.monotonic()
        with pytest.raises(FedtierError, match="does not answer"):
            status(read_kit(house.kits / "server", "server"))
        record_property("told", time.monotonic() - clock)
        assert time.monotonic() - clock < 45
    finally:
        server.resume()
