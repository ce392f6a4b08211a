"""A federation whose memories or ledgers are damaged: the same model, a loss that is told, or an end in words."""

import shutil

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.federation import Plan
from fedtier.protocol import drive, letters, loopback
from fedtier.protocol.letters import Head, Kind
from fedtier.protocol.version import greeting
from fedtier.storage import array_files
from fedtier.storage.files import Damaged, read_generations

from ..small_runs import mostly_slow
from . import toy

CLIENTS, ROUNDS = 3, 6
PLAN = toy.bumpy(ROUNDS, CLIENTS, seed=3)
RUN = (b"r" * 16).hex()
MEMORY, OLDER = "memory.safetensors", "previous-memory.safetensors"
FORMAT = {"format": "toy-1"}


class Federation:
    """Sites with memories on disk and a server that keeps its ledger in two generations; each `life` is a new process."""

    def __init__(self, folder):
        self.folder, self.said = folder, []

    def state(self, i):
        return self.folder / f"site-{i}" / RUN

    def life(self, until=ROUNDS, **more):
        """Plays up to round `until`, from where the ledger on disk ends."""
        path = self.folder / "ledger"

        def read(path):
            ledger, words = array_files.load(path, toy.first(CLIENTS), "toy-1", "do this")
            return ledger, int(words["round"])

        def save(ledger, number):
            array_files.save(path, ledger, FORMAT | {"round": str(number)}, keep_previous=True)

        found = read_generations(path, read, self.said.append)
        if found is None:
            save(toy.first(CLIENTS), 0)
            found = toy.first(CLIENTS), 0
        sites = [toy.site(i, self.folder / f"site-{i}") for i in range(CLIENTS)]
        driver = toy.driver(PLAN, CLIENTS, loopback({s.name: s.answer for s in sites}), note=self.said.append, **more)
        try:
            return drive(driver, *found, until, save=save)
        finally:
            for site in sites:
                site.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return Federation(tmp_path_factory.mktemp("whole")).life()


@pytest.fixture(scope="module")
def halfway(tmp_path_factory):
    """The folder after four of six rounds."""
    federation = Federation(tmp_path_factory.mktemp("half"))
    federation.life(4)
    return federation.folder


@pytest.fixture
def federation(halfway, tmp_path, monkeypatch):
    monkeypatch.setattr("fedtier.protocol.contact.PAUSES", (0.0,))
    return Federation(shutil.copytree(halfway, tmp_path / "copy"))


def spoil(path, how):
    if how == "gone":
        path.unlink()
        return
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    place = {"length": 1, "header": end // 2, "data": end + 1, "checksum": data.find(b'"header":"') + 14, "last byte": -1}.get(
        how
    )
    if place is not None:
        place %= len(data)
        data = data[:place] + bytes([data[place] ^ 0x04]) + data[place + 1 :]
    elif how == "round":
        mark = b'"round":"4"' if b'"round"' in data else b'"kept":"'
        data = data.replace(mark, mark.replace(b"4", b"2") if b"4" in mark else b'"kept":"9', 1)[: len(data)]
    else:
        data = data[: len(data) // 2] if how == "half" else b""
    assert data != path.read_bytes()
    path.write_bytes(data)


HOWS = ["length", "header", "data", "checksum", "last byte", "round", "half", "empty", "gone"]


def same(ledger, whole):
    assert np.array_equal(ledger.server.x, whole.server.x) and np.array_equal(ledger.last, whole.last)
    assert np.array_equal(ledger.counted, whole.counted)


@pytest.mark.parametrize("how", HOWS)
def test_a_server_whose_ledger_is_damaged_plays_the_last_round_again_to_the_same_bits(federation, whole, how):
    spoil(federation.folder / "ledger", how)
    same(federation.life(), whole)
    assert any("ledger: is" in line and "goes on from previous-ledger" in line for line in federation.said)
    assert not any("refused" in line for line in federation.said)


def test_that_holds_also_where_the_sites_had_begun_the_next_round_when_the_server_died(federation, whole):
    """They know then that the round counted which is played again, and have answered the one after it."""
    sites = [toy.site(i, federation.folder / f"site-{i}") for i in range(CLIENTS)]
    straight = loopback({s.name: s.answer for s in sites})

    class Killed(Exception):
        pass

    def ask(sent, seconds):
        straight(sent, seconds)
        if letters.unpack(next(iter(sent.own.values())), 1 << 20)[0].kind == Kind.ROUND:
            raise Killed
        return straight(sent, seconds)

    ledger, _ = array_files.load(federation.folder / "ledger", toy.first(CLIENTS), "toy-1", "")
    driver = toy.driver(PLAN, CLIENTS, ask)
    with pytest.raises(Killed):
        driver.play_round(driver.start(ledger, 4), 4)
    for site in sites:
        site.close()
    spoil(federation.folder / "ledger", "data")
    same(federation.life(), whole)
    assert not any("refused" in line for line in federation.said)


def test_where_both_ledgers_are_damaged_the_server_ends_in_words(federation):
    for name in ("ledger", "previous-ledger"):
        spoil(federation.folder / name, "data")
    for _ in range(2):
        with pytest.raises(Damaged, match=r"ledger: is damaged.*previous-ledger: is damaged.*\n  hint: do this"):
            federation.life()


@pytest.mark.parametrize("back", [0, 1])
def test_a_server_set_back_by_more_than_a_generation_ends_in_words_and_asks_nobody_for_ever(federation, back):
    for name in ("ledger", "previous-ledger"):
        (federation.folder / name).unlink()
    array_files.save(federation.folder / "ledger", toy.first(CLIENTS), FORMAT | {"round": str(back)})
    with pytest.raises(
        FedtierError, match=r"checkpoint: is of round \d, but .* know that round \d counted\n  hint: .*older copy"
    ):
        federation.life()


def test_one_site_that_claims_a_later_round_is_named_and_does_not_end_the_run(tmp_path, monkeypatch):
    from fedtier.protocol import contact as driving

    read = driving.read_welcome

    def lying(letter, asked):
        return (*read(letter, asked)[:3], 99) if asked.client == 2 else read(letter, asked)

    monkeypatch.setattr(driving, "read_welcome", lying)
    everyone = Plan(np.tile(np.arange(3, dtype=np.int32), (2, 1)), np.ones((2, 3), np.int32), np.ones((2, 3), bool))
    sites, said = [toy.site(i, tmp_path / f"site-{i}") for i in range(3)], []
    driver = toy.driver(everyone, 3, loopback({s.name: s.answer for s in sites}), note=said.append, start=2)
    ledger = drive(driver, toy.first(3), 0, 2, save=lambda ledger, number: None)
    assert any("site-2: refused: it knows that round 99 counted" in line for line in said)
    assert ledger.counted.tolist() == [2, 2, 0]
    np.testing.assert_allclose(ledger.server.x, toy.reference(everyone, 3, [{0, 1}] * 2), rtol=1e-6)


@pytest.mark.parametrize("how", HOWS)
def test_a_site_whose_memory_is_damaged_goes_on_from_the_generation_before_it(federation, whole, how, capfd):
    """The server had counted the last round: the site says that it forgot it, and the server tells."""
    for i in range(CLIENTS):
        spoil(federation.state(i) / MEMORY, how)
    ledger = federation.life()
    err = capfd.readouterr().err
    assert f"{MEMORY}: is" in err and f"goes on from {OLDER}" in err
    assert ledger.counted.sum() == whole.counted.sum() and not ledger.refused.any()
    lost = [line for line in federation.said if "has lost its memory of rounds after" in line]
    assert lost or np.array_equal(ledger.server.x, whole.server.x)  # told, or no difference


def test_a_reply_that_had_not_counted_yet_is_computed_again_to_the_same_bits(federation, whole):
    """The sites have answered round 4, nobody heard, and then lose what they wrote last."""
    sites = [toy.site(i, federation.folder / f"site-{i}") for i in range(CLIENTS)]
    straight = loopback({s.name: s.answer for s in sites})
    ledger, _ = array_files.load(federation.folder / "ledger", toy.first(CLIENTS), "toy-1", "")
    driver = toy.driver(PLAN, CLIENTS, straight)
    driver.play_round(driver.start(ledger, 4), 4)  # the server dies before it saves
    for site in sites:
        site.close()
    for i in PLAN.ids[4][PLAN.arrived[4]].tolist():
        spoil(federation.state(i) / MEMORY, "data")
    same(federation.life(), whole)
    assert not any("lost its memory" in line for line in federation.said)


@pytest.mark.parametrize("how", mostly_slow(HOWS, "half", "data"))
def test_a_site_without_any_good_memory_says_so_once_and_starts_anew(federation, how, capfd):
    for name in (MEMORY, OLDER):
        spoil(federation.state(0) / name, how)
    ledger = federation.life()
    told = [line for line in federation.said if "site-0" in line]
    refused = [line for line in told if "refused" in line]
    if how == "gone":
        assert not refused
    else:
        assert len(refused) == 1 and "this site forgets the run and starts it anew" in refused[0]
        assert (federation.state(0) / f"broken-{MEMORY}").exists() and (federation.state(0) / f"broken-{OLDER}").exists()
    assert any("has lost its memory of rounds after -1; goes on from there" in line for line in told)
    assert ledger.last.max() == ROUNDS - 1


@pytest.mark.parametrize("how", ["digit", "half", "empty", "gone"])
def test_a_damaged_brief_is_asked_for_again_and_must_be_the_same(federation, whole, how, capfd):
    path = federation.state(0) / "brief.json"
    data = path.read_bytes()
    path.unlink()
    if how != "gone":
        path.write_bytes({"digit": data.replace(b"a brief", b"A brief"), "half": data[: len(data) // 2], "empty": b""}[how])
    site = toy.site(0, federation.folder / "site-0")
    hello = Head(Kind.HELLO, b"r" * 16, 0, 0, 0, 3, 0.0)
    other = site.answer(letters.pack(hello, greeting("b brief")) + letters.body(np.zeros(toy.N, np.float32)))
    head, own, _ = letters.unpack(other, 1 << 20)
    assert head.kind == Kind.REFUSED and b"is not what this site was told of this run at first" in own
    site.close()
    same(federation.life(), whole)
    assert ("brief.json: is damaged" in capfd.readouterr().err) == (how != "gone")
