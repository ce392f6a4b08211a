"""[attack] in a configuration: who attacks is drawn per seed, recorded, and refused where it means nothing."""

import json

import numpy as np
import pytest

from fedtier.deploy.settings import load_run_file
from fedtier.errors import FedtierError
from fedtier.experiments.assemble import assemble
from fedtier.experiments.config import load_config
from fedtier.experiments.progress import Progress
from fedtier.experiments.run import run_experiment
from fedtier.experiments.uncompiled import engine_of

SMALL = ["method.name=fedavg", "run.rounds=2", "run.eval_every=2", "run.tau=1", "data.clients=10", "run.participation=1.0"]


def test_each_seed_draws_a_fifth_of_the_clients_and_never_the_seat_of_the_server():
    experiment = assemble(load_config(settings=[*SMALL, "attack.kind=signs", "run.seeds=3", "run.seed=5"]))
    attacks = np.asarray(experiment.federation.spec.attacks)
    assert attacks.shape == (3, 11) and attacks[:, :10].sum(axis=1).tolist() == [2, 2, 2] and not attacks[:, 10].any()
    assert len({tuple(names) for names in experiment.attackers.values()}) > 1
    again = assemble(load_config(settings=[*SMALL, "attack.kind=large", "run.seed=6"]))
    assert again.attackers == {6: experiment.attackers[6]}  # by the seed alone


@pytest.mark.slow
@pytest.mark.checked
def test_the_record_of_a_run_names_the_attackers(tmp_path):
    result = run_experiment(
        load_config(settings=[*SMALL, "attack.kind=large", "run.seeds=2"]), tmp_path / "run", progress=Progress()
    )
    told = json.loads((tmp_path / "run" / "attack.json").read_text())
    names = {str(seed): names for seed, names in result.experiment.attackers.items()}
    assert told == {"kind": "large", "scale": 10.0, "attackers": names}


@pytest.mark.slow
def test_replies_beyond_the_magnitude_are_lost_and_named():
    def lost(*settings):
        experiment = assemble(load_config(settings=[*SMALL, "attack.kind=large", "attack.scale=1e6", *settings]))
        engine = engine_of(experiment, 2)
        state = engine.init(experiment.x, experiment.federation)
        state, _ = engine.advance(state, experiment.federation, experiment.plan, experiment.key, 0, 2)
        return np.flatnonzero(np.asarray(state.replies.too_large)[0]).tolist(), experiment.attackers[0]

    found, attackers = lost()
    assert found == [int(name) for name in attackers]
    assert lost("run.magnitude=1e30")[0] == []


def test_a_run_without_an_attack_has_the_digest_that_it_had_before_there_were_any():
    plain = load_config(settings=SMALL)
    assert plain.digest() == load_config(settings=[*SMALL, "run.magnitude=10000"]).digest()
    others = [load_config(settings=[*SMALL, f"attack.kind={kind}"]).digest() for kind in ("labels", "signs")]
    assert len({plain.digest(), *others, load_config(settings=[*SMALL, "run.magnitude=100"]).digest()}) == 4
    tables = plain.model_dump()
    assert tables["attack"]["kind"] == "none"


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (["attack.kind=signs", "attack.share=0.5"], "attack.share"),
        (["attack.kind=signs", "attack.share=-0.1"], "attack.share"),
        (["attack.share=0.3"], "attack.share"),
        (["attack.kind=labels", "attack.scale=2"], "attack.scale"),
        (["attack.kind=large", "attack.scale=0"], "attack.scale"),
        (["attack.kind=sign"], "attack.kind"),
        (["attack.kind=signs", "data.name=quadratic"], "attack.kind"),
        (["run.magnitude=1"], "run.magnitude"),
    ],
)
def test_what_would_not_be_read_or_cannot_be_is_refused(settings, name):
    with pytest.raises(FedtierError, match=f"^{name} = "):
        load_config(settings=settings)


def test_a_share_that_is_nobody_and_labels_that_are_numbers_are_refused(tmp_path):
    table = tmp_path / "sizes.csv"
    table.write_text("a,label\n" + "".join(f"{k % 13 - 0.5},{k * k % 37 / 7:.3f}\n" for k in range(200)))
    with pytest.raises(FedtierError, match=r"attack.share = 0.04: is none of 10 clients"):
        assemble(load_config(settings=[*SMALL, "attack.kind=signs", "attack.share=0.04"]))
    with pytest.raises(FedtierError, match=r"attack.kind = 'labels': needs classes"):
        assemble(load_config(settings=[f"data.file={table}", "data.clients=3", "data.partition=iid", "attack.kind=labels"]))


@pytest.mark.parametrize(
    ("table", "name"), [('[attack]\nkind = "signs"', "attack.kind"), ("[run]\nmagnitude = 9", "run.magnitude")]
)
def test_between_sites_there_is_no_attack(tmp_path, table, name):
    run = tmp_path / "run.toml"
    run.write_text(f'{table}\n[wire]\nsites = ["a", "b"]\nserver = "server.csv"\ntest = "test.csv"\n')
    with pytest.raises(FedtierError, match=f"^{name} = "):
        load_run_file(run)
