"""A masked run between sites gives the model of a plain one to the quantisation step; [privacy] holds between sites."""

import json
import math

import numpy as np
import pytest
import tomli_w

from fedtier.deploy.server import serve_rounds
from fedtier.deploy.settings import load_run_file
from fedtier.errors import FedtierError
from fedtier.experiments import config as configuration
from fedtier.protocol import letters, loopback
from fedtier.protocol.letters import Kind

from ..small_runs import metrics
from .test_wire import CLIENTS, QUIET, between, model, setup, sites

PLAIN = ["run.dropouts=0", "run.stragglers=0", "run.participation=1.0", "run.rounds=4", "method.server_seat=false"]


def federation(folder, method, wire=None, tables=None, *settings):
    """The federation as files; its run.toml with these keys in [wire] and these tables."""
    setup(folder, *PLAIN, *method, *settings)
    path = folder / "fed" / "run.toml"
    content = configuration.read_toml(path)
    content["wire"] |= wire or {}
    path.write_text(tomli_w.dumps(content | (tables or {})))
    return path


FEDAVG = ["method.name=fedavg"]
SHARED = [
    "method.name=zo_hfl", "method.preset=paper", "method.shared_directions=true", "method.uplink=auto",
]  # fmt: skip


@pytest.mark.slow
def test_masks_give_the_model_of_plain_replies_to_the_quantisation_step(tmp_path):
    federation(tmp_path, FEDAVG)
    plain = between(tmp_path / "fed", sites(tmp_path / "fed", "plain"), "plain")
    federation(tmp_path / "m", FEDAVG, {"masked": True})
    seen = []

    def heard(site):
        def answer(letter):
            reply = site.answer(letter)
            if letters.unpack(letter, len(letter))[0].kind == Kind.ROUND:
                seen.append(reply)
            return reply

        return answer

    members = sites(tmp_path / "m" / "fed")
    ask = loopback({name: heard(one) for name, one in members.items()})
    masked = serve_rounds(tmp_path / "m" / "fed" / "run.toml", tmp_path / "masked", ask, progress=QUIET)
    assert np.abs(model(masked.folder) - model(plain.folder)).max() <= 4 * 2**-24
    arrays = [np.frombuffer(reply[-400:], "<u4") >> 28 for reply in seen]  # what left looks like chance
    assert len(seen) == 4 * CLIENTS and len(set(np.concatenate(arrays).tolist())) == 16
    rows = metrics(masked.folder)
    assert rows[-1]["personal_accuracy"]["mean"] is None  # scores are single sites': under masks none leaves
    assert rows[-1]["global_accuracy"] == pytest.approx(metrics(plain.folder)[-1]["global_accuracy"], abs=0.01)


WIDE = ["data.features=500", "method.averaging=0"]


@pytest.mark.slow
@pytest.mark.parametrize(("place", "masked"), [("distributed", True), ("local", False)])
def test_privacy_between_sites_says_what_holds_and_adds_its_noise(tmp_path, place, masked):
    """The model moves by the noise, which is far longer than the clipped replies. The noise comes from the sites'
    secrets, so that no seed repeats it: over 5,000 weights the bound is six deviations wide. The last round's model is
    looked at, not an average over rounds, which has less noise."""
    privacy = {"kind": "clients", "place": place, "epsilon": 0.5, "delta": 0.01, "clip": 0.001}
    federation(tmp_path, FEDAVG, {"masked": True} if masked else {}, {"privacy": privacy}, *WIDE)
    made = between(tmp_path / "fed", sites(tmp_path / "fed"))
    told = json.loads((made.folder / "privacy.json").read_text())
    assert 0 < told["viewers"][2]["epsilon"] <= 0.5 and told["noise"] > 1
    assert any("masks" in line for line in told["assumptions"]) == masked
    assert metrics(made.folder)[-1]["epsilon"] <= 0.5
    assert json.loads((made.folder / "sites.json").read_text())["sites"]["site-0"]["rows"] == 1
    found = model(made.folder)
    each = told["noise"] * 0.001 * math.sqrt(4 / 3 if masked else 4) / 4  # of the mean of a round
    start = np.asarray(made.experiment.x.weight[0])
    assert found.size == 5000
    assert (found - start).std() == pytest.approx(each * math.sqrt(4), rel=0.06)


@pytest.mark.parametrize(
    ("method", "wire", "tables", "why"),
    [
        (["method.name=rfa"], {"masked": True}, {}, "wire.masked"),
        (["method.name=zo_hfl"], {"masked": True}, {}, "wire.masked"),
        (FEDAVG, {"masked": True, "magnitude": 10.0}, {}, "wire.magnitude"),
        (FEDAVG, {"masked": True, "threshold": 2}, {}, "wire.threshold"),
        (FEDAVG, {"masked": True, "range": 1e9}, {}, "wire.range"),
        (FEDAVG, {"threshold": 3}, {}, "wire.threshold"),
        (FEDAVG, {}, {"kind": "clients", "place": "distributed", "noise": 1.0, "delta": 0.1}, "privacy.place"),
        (FEDAVG, {}, {"kind": "rows", "noise": 1.0, "place": "local"}, "privacy.place"),
    ],
)
def test_what_cannot_run_under_masks_is_refused_before_any_work(tmp_path, method, wire, tables, why):
    path = federation(tmp_path, method, wire, {"privacy": tables} if tables else None)
    with pytest.raises(FedtierError) as error:
        load_run_file(path)
    assert error.value.name == why
