"""A run without rounds between sites, from its run file: stopped and resumed, with a slow site, replayed as a simulation."""

import json
import time

import numpy as np
import pytest

from fedtier.deploy.server import serve_rounds
from fedtier.experiments.assemble import assemble
from fedtier.experiments.run import run_experiment
from fedtier.experiments.stopping import Stopped
from fedtier.federation import Plan
from fedtier.protocol import loopback
from fedtier.reports.live.verdict import status_parts
from fedtier.reports.live.watched import Watched
from fedtier.storage.array_files import ArrayFile

from ..small_runs import metrics
from .test_wire import CLIENTS, QUIET, close, model, setup, sites

SETTINGS = ["run.participation=1", "run.dropouts=0", "run.stragglers=0", "run.eval_every=5", "run.rounds=10"]


def recorded(folder):
    """The order in which answers came, as plan.safetensors of the finished run has it."""
    arrays = ArrayFile(folder / "plan.safetensors", "fedtier-1", "").whole()
    return Plan(*(arrays[name] for name in Plan._fields))


@pytest.mark.slow
def test_stopped_and_resumed_the_recorded_order_as_a_simulation_gives_the_federations_model(tmp_path):
    config = setup(tmp_path, "method.name=fedbuff", "method.buffer=2", "method.server_seat=false", *SETTINGS)
    lives, polls = 0, [0]

    def stopped():
        polls[0] += 1
        return polls[0] % 9 == 0

    while True:
        lives += 1
        members = sites(tmp_path / "fed")

        def slow(name, members=members):
            def answer(letter):
                reply = members[name].answer(letter)
                time.sleep(0.12 if name == "site-3" else 0.01)
                return reply

            return answer

        ask = loopback({name: slow(name) for name in members})
        try:
            result = serve_rounds(tmp_path / "fed" / "run.toml", tmp_path / "wire", ask, progress=QUIET, stopped=stopped)
            break
        except Stopped:
            time.sleep(0.3)  # letters that are out come to nothing
        finally:
            for site in members.values():
                site.close()
    assert lives > 1
    plan = recorded(result.folder)
    assert plan.ids.shape == (1, 10, 2) and np.array_equal(plan.ids, result.experiment.plan.ids)
    simulated = run_experiment(config, tmp_path / "sim", progress=QUIET, experiment=assemble(config)._replace(plan=plan))
    close(model(result.folder), model(simulated.folder))
    rows, wanted = metrics(result.folder), metrics(simulated.folder)
    assert [row["round"] for row in rows] == [0, 5, 10] == [row["round"] for row in wanted]
    assert rows[-1]["local_steps"] == wanted[-1]["local_steps"] and rows[-1]["bytes_up"] == wanted[-1]["bytes_up"]
    assert rows[-1]["global_accuracy"] == pytest.approx(wanted[-1]["global_accuracy"], abs=1e-6)
    told = json.loads((result.folder / "sites.json").read_text())["sites"]
    assert sum(site["counted"] for site in told.values()) == plan.arrived.sum() == 20
    for k in range(CLIENTS):
        ages = plan.staleness[(plan.ids == k) & plan.arrived]
        assert told[f"site-{k}"]["stalest"] == max(ages, default=0)
        assert told[f"site-{k}"]["staleness"] == (pytest.approx(ages.mean()) if len(ages) else None)
    state = Watched(result.folder).look()
    (run,) = state.runs
    assert (run.phase, run.round, run.rounds) == ("finished", 10, 10) and run.clients[0].staleness is not None
    assert "staleness" in [column.header for part in status_parts(state) if hasattr(part, "columns") for column in part.columns]
