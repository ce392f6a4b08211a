"""Two ends of a federation, one truth: what one has received, the other has sent."""

import json
import shutil
from pathlib import Path

import pytest

from fedtier.errors import FedtierError
from fedtier.protocol.audit import compare_records
from fedtier.protocol.record import FILE, Record, digest

from .test_signatures import Federation


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The folders of a server and of a site after a hello and two rounds."""
    federation = Federation(tmp_path_factory.mktemp("audit"))
    return federation.folder, federation.folder / "state-0"


@pytest.fixture
def server(both, tmp_path):
    (tmp_path / "server").mkdir()
    return Path(shutil.copy(both[0] / FILE, tmp_path / "server")).parent


@pytest.fixture
def site(both, tmp_path):
    (tmp_path / "site" / "memory").mkdir(parents=True)  # as `join` keeps it
    return Path(shutil.copy(both[1] / FILE, tmp_path / "site" / "memory")).parent


def rewritten(folder, keep):
    """The record without some of its lines, and a chain that holds."""
    lines = [json.loads(line) for line in (folder / FILE).read_bytes().splitlines()]
    (folder / FILE).unlink()
    record = Record(folder)
    for line in lines:
        if keep(line):
            record.add((line["way"], {key: line[key] for key in line if key not in ("line", "time", "way", "before")}))


def test_the_ends_agree_in_either_order(fedtier, server, site):
    for one, other in ((server, site), (site, server)):
        assert compare_records(one, other) == ("site-0", 3, 3, 0, 0)
    code, out, _ = fedtier("record", site.parent, "--against", server)
    assert code == 0 and "both ends agree on 3 letters to site-0 and 3 replies; lost on the way: 0 letters, 0 replies" in out
    code, out, _ = fedtier("record", site.parent, "--against", server, "--json")
    assert code == 0 and json.loads(out)["against"]["letters"] == 3


def test_what_was_sent_and_did_not_arrive_is_counted(server, site):
    rewritten(server, lambda line: not (line["who"] == "site-0" and line["way"] == "in" and line["round"] == 1))
    assert compare_records(site, server) == ("site-0", 3, 2, 0, 1)


def test_a_site_that_hides_a_reply_is_found_though_its_chain_holds(fedtier, server, site):
    rewritten(site, lambda line: not (line["way"] == "out" and line["round"] == 1))
    code, _, err = fedtier("record", site.parent, "--against", server)
    assert code == 2 and "server/record.jsonl, line" in err and "the site's record does not say that it was sent" in err


def test_a_record_whose_end_was_cut_off_is_found(fedtier, server, site):
    lines = (server / FILE).read_bytes().splitlines(keepends=True)
    (server / FILE).write_bytes(b"".join(lines[:-4]))  # the last round, which both sites got and answered
    assert fedtier("record", server)[0] == 0
    code, _, err = fedtier("record", server, "--against", site.parent)
    assert code == 2 and "memory/record.jsonl, line 5" in err and "the server's record does not say that it was sent" in err


def test_lines_that_an_end_no_longer_keeps_are_not_missed(server, site):
    lines = (server / FILE).read_bytes().splitlines(keepends=True)
    (server / FILE).write_bytes(b"".join(lines[4:]))  # the hellos were set aside, and are gone
    assert compare_records(server, site) == ("site-0", 2, 2, 0, 0)


def test_records_that_do_not_belong_together_are_refused(server, site, tmp_path):
    with pytest.raises(FedtierError, match="both records are of sites"):
        compare_records(site, site)
    other = tmp_path / "other"
    other.mkdir()
    Record(other).add(("out", {"who": "north"} | digest(b"?")))
    with pytest.raises(FedtierError, match="no letter in common"):
        compare_records(site, other)
