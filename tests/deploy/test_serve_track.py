"""`fedtier serve --track`: the supervisor tells a tracker the rows that the server's job writes."""

import json

import pytest

from fedtier.deploy.flare.commands import _Watch
from fedtier.experiments.run_folder import RunFolder
from fedtier.experiments.session import Listener


def row(number: int) -> dict:
    return {"round": number, "seed": 0, "global_accuracy": 0.5, "seconds": {"run": 1.0}}


def test_each_row_is_told_once_also_when_the_job_goes_back_to_its_checkpoint(tmp_path):
    told, files = [], RunFolder(tmp_path)
    files.append([row(0)])  # of an earlier `serve`: its tracker has it
    watch = _Watch(tmp_path, 8, Listener(lambda rows: told.extend(one["round"] for one in rows)))
    watch()
    files.append([row(2), row(4)])
    watch()
    files.write("metrics.jsonl", "".join(json.dumps(row(k)) + "\n" for k in (0, 2)).encode())  # another job, after a crash
    watch()
    files.append([row(4), row(6)])
    watch()
    assert told == [2, 4, 6]


def test_an_unknown_tracker_is_refused_before_anything_is_looked_at(fedtier):
    code, out, err = fedtier("serve", "kits/server", "--run", "run.toml", "--track", "tensorbord")
    assert (code, out) == (2, "") and "did you mean 'tensorboard'?" in err


@pytest.mark.parametrize("word", ["watch", "status"])
def test_a_misspelt_word_for_looking_is_answered(fedtier, word):
    code, _, err = fedtier(word[:-1] + "x")
    assert code == 2 and f"did you mean {word!r}?" in err
