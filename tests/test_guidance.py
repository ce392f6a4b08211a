"""Words on the command line that mean something else are answered with the right ones."""

import contextlib
import io
import json
from unittest import mock

import pytest

from fedtier import cli
from fedtier.cli import COMMANDS
from fedtier.experiments.config import load_config
from fedtier.studies.catalogue import STUDIES


@pytest.mark.parametrize(
    ("words", "hints"),
    [
        (["rnu"], ["is no command", "did you mean 'run'?"]),
        (["serach"], ["did you mean 'search'?"]),
        (["run", "--rounds", "5"], ["--set run.rounds=5"]),
        (["compare", "--alpha=0.5"], ["--set data.alpha=0.5"]),
        (["run", "--data.clients", "3"], ["--set data.clients=3"]),
        (["partition", "--server-share", "0.1"], ["--set data.server_share=0.1"]),
        (["search", "--smoothing"], ["--set method.smoothing=VALUE"]),
        (["run", "--set", "rounds=5"], ["--set run.rounds=5"]),
        (["run", "--set", "fine_tune=0"], ["--set method.fine_tune=0"]),
        (["run", "--set", "data.drop=id"], ["""--set 'data.drop=["id"]'"""]),
        (["compare", "--methods", "fedavg,ditoo"], ["'ditoo'", "did you mean 'ditto'?"]),
        (["resume", "nowhere"], ["nowhere", "is not there"]),
        (["report", "nowhere"], ["nowhere", "is not there"]),
        (["run", "--set", "data.name=MNIST"], ["did you mean 'mnist'?"]),
    ],
)
def test_misspelt_commands_and_keys_written_as_options_are_answered(fedtier, words, hints):
    code, out, err = fedtier(*words)
    assert (code, out) == (2, "") and all(hint in err for hint in hints), err


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_kinds_in_words(name):
    out = io.StringIO()
    with mock.patch("sys.argv", ["fedtier", name, "--help"]), contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        cli.main()
    text = out.getvalue()
    assert text.startswith("usage:") and "{None}" not in text and "None" not in text


def test_the_help_of_reproduce_names_every_study():
    said = (COMMANDS["reproduce"].__doc__ or "").split("What to reproduce:")[1].split(".")[0]
    assert said.replace("\n", " ").replace(" ", "").split(",") == list(STUDIES)


def test_methods_prints_what_runs(fedtier):
    found = json.loads(fedtier("methods", "--json")[1])
    for name, told in found.items():
        for preset in ("recommended", "paper"):
            runs = load_config(settings=[f"method.name={name}", f"method.preset={preset}"]).method.model_dump()
            assert {key: runs[key] for key in told[preset]} == told[preset]
    text = " ".join(fedtier("methods", "zo_hfl")[1].replace("│", " ").split())
    assert "estimator = auto (paper: sphere)" in text
