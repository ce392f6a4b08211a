"""The watch server over real sockets: what it tells, whom it refuses, and that nobody can keep others out."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from fedtier.errors import FedtierError
from fedtier.experiments.run_folder import RunFolder
from fedtier.reports.live import server as serving_module
from fedtier.reports.live.guard import Guard, guard_for, host_name
from fedtier.reports.live.server import Handler, Page

from ...small_runs import metrics
from .serving import ask, connect, events, half_of, serving
from .test_prometheus import parsed

TOKEN = "a-token-of-many-letters"


@pytest.fixture(scope="module")
def run(outcome):
    (cell,) = [cell for cell in outcome.comparison.cells if cell.config.method.name == "fedavg"]
    return cell.folder


@pytest.fixture
def server(run):
    with serving(run) as server:
        yield server


def test_the_stream_tells_a_new_row_while_the_runs_file_grows(run, tmp_path):
    coming = half_of(run, tmp_path / "run")
    rounds = sorted({row["round"] for row in metrics(run)})
    with RunFolder(tmp_path / "run").held(), serving(tmp_path / "run") as server, events(server) as states:
        first = next(states)["runs"][0]
        assert first["phase"] == "running" and first["round"] == rounds[1]
        with open(tmp_path / "run" / "metrics.jsonl", "a") as file:
            file.write("".join(coming[:2]))  # the row of each seed
        second = next(states)["runs"][0]
        assert second["round"] == rounds[2] and second["evaluations"] == rounds[:3]
        strips = [len(client["strip"]) for client in second["clients"]]
        assert strips == [3] * 4


def test_the_same_state_comes_as_json_and_through_the_stream(server):
    with events(server) as states:
        assert json.loads(ask(server, "/state.json").text) == next(states)


def test_prometheus_reads_the_same_numbers(server, run):
    answer, row = ask(server, "/metrics"), metrics(run)[-1]
    assert answer.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    found = parsed(answer.text)
    assert found["fedtier_rounds_total"]["samples"] == {(("run", run.name),): 6}
    assert found["fedtier_sent_bytes_total"]["samples"][("run", run.name), ("way", "up")] == row["bytes_up"]
    assert len(found["fedtier_client_accuracy_ratio"]["samples"]) == 4 * 2


def test_a_connection_that_says_nothing_blocks_nobody(server):
    idle = [connect(server) for _ in range(10)]
    before = time.monotonic()
    assert ask(server, "/state.json").status == 200
    assert time.monotonic() - before < 5
    for one in idle:
        one.close()


@pytest.mark.parametrize("drips", [False, True], ids=["idle", "a byte now and then"])
def test_a_connection_that_does_not_come_to_its_question_is_cut(run, monkeypatch, drips):
    monkeypatch.setattr(serving_module, "SECONDS", 0.6)
    monkeypatch.setattr(Handler, "timeout", 30.0 if drips else 0.6)  # the limit of each read must not be the only one
    with serving(run) as server, connect(server) as link:
        before, letters = time.monotonic(), iter(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 1000)
        link.settimeout(0.1)
        while time.monotonic() - before < 15:
            try:
                if drips:
                    link.send(bytes([next(letters)]))
                if link.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() - before < 10


def test_beyond_the_places_one_is_told_at_once(run, monkeypatch):
    monkeypatch.setattr(serving_module, "MOST", 3)
    with serving(run) as server:
        idle = [connect(server) for _ in range(3)]
        deadline = time.monotonic() + 10
        while server.places._value and time.monotonic() < deadline:
            time.sleep(0.02)
        with connect(server) as link:
            assert link.recv(100).startswith(b"HTTP/1.1 503 ")
        for one in idle:
            one.close()
        while not server.places._value and time.monotonic() < deadline:
            time.sleep(0.02)
        assert ask(server, "/state.json").status == 200


def test_open_pages_leave_places_for_questions(run, monkeypatch):
    monkeypatch.setattr(serving_module, "MOST_STREAMS", 1)
    with serving(run) as server, events(server) as states:
        next(states)
        assert ask(server, "/events").status == 503 and ask(server, "/metrics").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "ANYTHING"])
def test_only_reading_is_allowed(server, method):
    answer = ask(server, "/state.json", method)
    assert answer.status == 405 and answer.getheader("Allow") == "GET, HEAD"


def test_head_is_get_without_its_body(server):
    whole, head = ask(server, "/"), ask(server, "/", "HEAD")
    assert head.status == 200 and head.text == "" and head.getheader("Content-Length") == str(len(whole.text.encode()))


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "10.1.2.3", "", "[::1", "a:b:c"])
def test_a_name_that_is_not_the_servers_is_refused(server, host):
    answer = ask(server, "/state.json", Host=host)
    assert answer.status == 421 and "localhost" in answer.text and "accuracy" not in answer.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9000", "127.0.0.1", "[::1]:8870", "[::1]"])
def test_names_of_loopback_are_the_servers_also_through_a_tunnel(server, host):
    assert ask(server, "/state.json", Host=host).status == 200


def test_two_names_or_none_are_refused(server):
    for lines in (b"Host: localhost\r\nHost: evil.example\r\n", b""):
        with connect(server) as link:
            link.sendall(b"GET /state.json HTTP/1.1\r\n" + lines + b"\r\n")
            assert link.recv(100).startswith(b"HTTP/1.1 421 ")


def test_on_all_addresses_the_machines_names_and_numbers_are_known_but_no_others():
    guard = Guard("0.0.0.0", TOKEN)
    assert guard.knows("192.168.1.7:8870") and guard.knows(socket.gethostname()) and guard.knows("[fe80::1]:8870")
    assert not guard.knows("evil.example") and not guard.knows(None)
    assert Guard("lab.example", TOKEN).knows("Lab.Example:8870") and not Guard("lab.example", TOKEN).knows("10.0.0.1")
    assert [host_name(text) for text in ("a:1", "[::1]:2", "a:b", "[::1]x")] == ["a", "::1", "", ""]


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/metrics.jsonl", "/config.toml", "//etc/passwd", "/%2e%2e/", "/state.json/"]
)
def test_no_path_is_a_file(server, path):
    answer = ask(server, path)
    assert answer.status == 404 and "rounds = " not in answer.text


def test_every_answer_forbids_what_the_page_does_not_need(server):
    for path in ("/", "/state.json", "/metrics", "/nowhere"):
        answer = ask(server, path)
        policy = answer.getheader("Content-Security-Policy")
        assert policy.startswith("default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
        assert "unsafe" not in policy and "http" not in policy
        assert answer.getheader("X-Content-Type-Options") == "nosniff" and answer.getheader("Cache-Control") == "no-store"
    page = Page()
    assert page.policy.count("'sha256-") == 3  # two scripts, one style
    assert not re.search(rb"""(src|href)=["'](?!data:,)|@import|url\(|style=|\bon[a-z]+=|innerHTML""", page.data)


def test_a_token_is_needed_where_there_is_one(run):
    with serving(run, token=TOKEN) as server:
        for path in ("/", "/state.json", "/metrics", "/events", "/nowhere"):
            assert ask(server, path).status == 401
            assert ask(server, path, Authorization=f"Bearer {TOKEN}x").status == 401
        assert ask(server, "/?token=" + TOKEN[:-1]).status == 401
        assert ask(server, "/metrics", Authorization=f"Bearer {TOKEN}").status == 200
        assert ask(server, f"/metrics?token={TOKEN}").status == 401  # only the page's own address takes it


def test_the_address_that_is_printed_lets_a_browser_in_and_forgets_the_token(run):
    with serving(run, token=TOKEN) as server:
        assert server.address == f"http://127.0.0.1:{server.server_port}/?token={TOKEN}"
        answer = ask(server, f"/?token={TOKEN}")
        assert answer.status == 303 and answer.getheader("Location") == "/"
        cookie, *rules = answer.getheader("Set-Cookie").split("; ")
        assert {"HttpOnly", "SameSite=Lax", "Path=/"} == set(rules)
        assert ask(server, "/", Cookie=cookie).status == 200 and ask(server, "/", Cookie=cookie + "x").status == 401
        with events(server, Cookie=cookie) as states:
            assert next(states)["runs"]


def test_beyond_loopback_there_is_always_a_token_and_on_loopback_only_if_asked_for():
    made = {guard_for(host, None).token for host in ("0.0.0.0", "::", "192.168.1.2", "lab.example")}
    assert len(made) == 4 and all(len(token) >= 32 for token in made)
    assert {guard_for(host, None).token for host in ("127.0.0.1", "localhost", "::1", "127.3.2.1")} == {""}
    assert guard_for("127.0.0.1", TOKEN).token == TOKEN
    for weak in ("short", "with spaces in it and more", "naïve-words-are-refused", ""):
        with pytest.raises(FedtierError, match="--token"):
            guard_for("0.0.0.0", weak)


def test_a_token_is_compared_in_constant_time(monkeypatch):
    asked = []
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: asked.append((a, b)) or False)
    assert not Guard("0.0.0.0", TOKEN).admits(TOKEN) and asked == [(TOKEN.encode(), TOKEN.encode())]


def test_what_cannot_be_served_is_refused_in_words(fedtier, tmp_path, run):
    assert "is no folder" in fedtier("watch", tmp_path / "nowhere")[2]
    assert "must be a port" in fedtier("watch", run, "--port", "70000")[2]
    assert "--host" in fedtier("watch", run, "--host", "no such host")[2]
    assert "--stalled-after" in fedtier("watch", run, "--stalled-after", "0")[2]
    with serving(run) as server:
        code, out, err = fedtier("watch", run, "--port", server.server_port)
    assert (code, out) == (2, "") and "cannot be served" in err and "--port 0" in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_it_ends_on_signals_with_a_page_open_and_says_so(run, number):
    command = [sys.executable, "-m", "fedtier", "watch", str(run), "--port", "0"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a child ignores what its parent does
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        signal.signal(signal.SIGINT, before)
        try:
            port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\n", process.stdout.readline())[1])
            with socket.create_connection(("127.0.0.1", port)) as link:
                link.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert link.recv(15) == b"HTTP/1.1 200 OK"
                os.kill(process.pid, number)
                out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (130, "", "stopped\n")
