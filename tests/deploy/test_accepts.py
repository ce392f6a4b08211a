"""What a site's own file refuses, whatever the server asks: methods, what leaves, sizes; and who may read its folders."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest

from fedtier.deploy.rows import open_server
from fedtier.deploy.settings import load_run_file
from fedtier.deploy.site import brief_of, open_site
from fedtier.deploy.site_table import site_command
from fedtier.errors import FedtierError
from fedtier.protocol import SolverProcess, letters
from fedtier.protocol.letters import Head, Kind, Letters
from fedtier.protocol.version import greeting

from ..protocol.sealed import House
from ..small_runs import first_slow
from .test_wire import setup

RUN = b"r" * 16


def hello(folder, **model):
    """The server's hello to site 0; with `model`, the brief of another model and no x."""
    run = load_run_file(folder / "run.toml")
    experiment, card = open_server(run)
    content = json.loads(brief_of(run.config, card).text())
    content["tables"]["model"] |= model
    x = b"" if model else letters.body(jax.tree.map(lambda a: np.asarray(a[0]), experiment.x))
    return letters.pack(Head(Kind.HELLO, RUN, 0, 0, 0, -1, 0.0), greeting(json.dumps(content))) + x


def told(tmp_path, settings, lines, **model):
    """(kind, words) of site 0's answer when its own file has these lines."""
    setup(tmp_path, *settings)
    file = tmp_path / "fed" / "site-0.toml"
    file.write_text(file.read_text() + lines)
    site = open_site(file, tmp_path / "state")
    head, said, _ = letters.unpack(site.answer(hello(tmp_path / "fed", **model)), 1 << 20)
    return head.kind, said.decode(errors="replace")


PAPER = ["method.name=zo_hfl", "method.preset=paper"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "lines", "words"),
    [
        (["method.name=fedavg"], 'methods = ["zo_hfl", "ditto"]\n', "this site takes part in zo_hfl, ditto only"),
        (["method.name=zo_hfl"], 'methods = ["zo_hfl"]\n', None),
        (["method.name=fedavg"], 'uplinks = ["values"]\n', "this site lets only values leave"),
        (
            [*PAPER, "method.uplink=models"],
            'uplinks = ["values"]\n',
            "this site lets only values leave",
        ),
        (["method.name=zo_hfl", "method.uplink=estimate"], 'uplinks = ["values"]\n', "this site lets only values leave"),
        ([*PAPER, "method.uplink=values"], 'uplinks = ["values"]\n', None),
        (
            [*PAPER, "method.uplink=values"],
            'uplinks = ["models"]\n',
            "this site lets only models leave",
        ),
        (["method.name=fedavg"], "max_model_numbers = 100\n", "this site takes at most 100"),
        (["method.name=fedavg", "method.batch=1000000000"], "", "this site takes at most 100000000"),
    ],
)
def test_a_site_plays_no_run_that_its_own_file_refuses_and_says_why(tmp_path, settings, lines, words):
    kind, said = told(tmp_path, settings, lines)
    if words is None:
        assert kind == Kind.WELCOME
    else:
        assert kind == Kind.REFUSED and words in said
        assert not list((tmp_path / "state").glob("*/*"))  # nothing is remembered of such a run


GROWTH = """
import resource, sys
from pathlib import Path
from tests.deploy.test_accepts import hello, letters, open_site
folder, hidden = Path(sys.argv[1]), int(sys.argv[2])
letter = hello(folder / "fed", name="mlp", hidden=hidden)
site = open_site(folder / "fed" / "site-0.toml", folder / "state")
site.answer(hello(folder / "fed"))  # whatever is loaded once
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
answer = site.answer(letter.replace(b"r" * 16, b"s" * 16, 1))
print(len(letter), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, letters.printable(answer[letters.HEAD.size:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hidden", "words"), first_slow([(1_000_000_000, "this site takes at most 100000000"), (1_000_000, "must come whole")])
)
def test_a_small_hello_for_a_huge_model_makes_the_site_take_no_memory_for_it(tmp_path, hidden, words):
    """A thousand million hidden units are refused by the limit; a million would fit, but the model did not come along."""
    setup(tmp_path, "method.name=fedavg")
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, str(tmp_path), str(hidden)], capture_output=True, text=True, check=False
    )
    size, grown, said = done.stdout.split(" ", 2)
    assert int(size) < 10_000 and words in said, done.stderr
    assert int(grown) * 1024 < 100e6


@pytest.mark.slow
def test_what_a_site_s_process_writes_is_for_its_owner_alone_whatever_was_there_before(tmp_path):
    setup(tmp_path, "method.name=fedavg")
    house, state = House(tmp_path / "keys"), tmp_path / "state"
    seal, own = house.server(), hello(tmp_path / "fed")
    house.identity("site-0")
    state.mkdir(mode=0o755)
    file, keys = tmp_path / "fed" / "site-0.toml", next((tmp_path / "keys").glob("site-0*"))
    waiting, solver = (SolverProcess(site_command(file, state, keys)) for _ in range(2))
    waiting.begin()  # it has no letter yet, and so keeps no other from the state
    sent, hashes = seal.seal(Letters(b"", {"site-0": own}))
    try:
        answer = solver.answer(sent.whole("site-0"), 120.0)
        assert solver.answer(own) == letters.UNSIGNED
    finally:
        waiting.close()
        solver.close()
    assert letters.unpack(seal.open(answer, "site-0", hashes["site-0"]), 1 << 20)[0].kind == Kind.WELCOME
    found = {path.name: path for path in state.rglob("*")}
    assert {"brief.json", "memory.safetensors", "record.jsonl", "lock", RUN.hex()} == found.keys()
    for path in (state, *found.values()):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_site_under_another_name_than_its_signing_key_is_refused(tmp_path):
    setup(tmp_path, "method.name=fedavg")
    house = House(tmp_path / "keys")
    house.identity("site-1")
    with pytest.raises(FedtierError, match="must be site-0, as the site's own file says"):
        open_site(tmp_path / "fed" / "site-0.toml", tmp_path / "state", next((tmp_path / "keys").glob("site-1*")))
