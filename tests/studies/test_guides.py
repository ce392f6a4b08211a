"""How good a guide the last displacement is: as the client sees it in a run."""

import numpy as np
import pytest

from fedtier.errors import FedtierError
from fedtier.experiments.config import load_config
from fedtier.studies.guides import cosines, main

SETTINGS = ["data.name=digits", "data.clients=4", "run.rounds=8", "run.tau=3", "run.participation=1.0", "run.seeds=2"]


@pytest.mark.slow
def test_a_client_that_goes_far_has_the_poorer_guide():
    near = cosines(load_config(settings=SETTINGS))
    far = cosines(load_config(settings=[*SETTINGS, "method.proximity=0.1", "method.penalty=0.3", "method.client_lr=0.5"]))
    assert near.size == far.size == 2 * 6 * 4  # seeds, rounds after the first quarter, clients
    assert np.all(np.abs(np.concatenate([near, far])) <= 1 + 1e-6)
    assert near.mean() > far.mean()


def test_a_method_without_displacements_is_refused():
    with pytest.raises(FedtierError, match="FILE"):
        main([])
    with pytest.raises(FedtierError, match="not guided"):
        cosines(load_config(settings=["data.name=digits", "method.name=fedavg", "run.rounds=2"]))


@pytest.mark.slow
def test_clients_that_were_asked_once_tell_nothing(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('[data]\nname = "digits"\n', encoding="utf-8")
    with pytest.raises(FedtierError, match="asked twice"):
        main([str(file), "run.rounds=1", "run.tau=2"])
