"""/metrics is Prometheus' text format, read back by a parser that forgives nothing."""

import re

from fedtier.reports.live.prometheus import CONTENT_TYPE, exposition
from fedtier.reports.live.state import Client, Run, State

LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)')
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{(.*)\} (\S+)")
NAMES = 'two\nlines, a "quote" and a back\\slash'


def parsed(text: str) -> dict[str, dict]:
    """Families in the order of the text: {name: {"type": ..., "samples": {labels: value}}}; asserts what the format demands."""
    assert text == "" or text.endswith("\n")
    found: dict[str, dict] = {}
    current = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert current not in found, "a family in two places"
            found[current] = {"type": None, "samples": {}}
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and found[name]["type"] is None and not found[name]["samples"]
            assert kind in ("counter", "gauge") and (kind == "counter") == name.endswith("_total")
            found[name]["type"] = kind
        else:
            name, inside, number = SAMPLE.fullmatch(line).groups()
            assert name == current and found[name]["type"]
            labels, place = [], 0
            while place < len(inside):
                match = LABEL.match(inside, place)
                assert match, inside
                value = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], match[2])
                labels.append((match[1], value))
                place = match.end()
            assert len({key for key, _ in labels}) == len(labels) and tuple(labels) not in found[name]["samples"]
            found[name]["samples"][tuple(labels)] = float(number)
    return found


def state(**changes) -> State:
    client = Client(NAMES, "refused", "why", 3, 4, 1, None, 2, 0.75, 0.5, 0.25, [0.5, 0.75])
    run = Run(
        "store/a", "A method", True, "running", "", 4, 8, "accuracy", 0.9, 1.5, 0.75, 0.25, None, 1000, 2000, 30, 12.5, 0.5,
        2.0, 1.75e9, [0, 4], [client], 1, [], [], {"server": 1.8e9},
    )  # fmt: skip
    return State("store", [run._replace(**changes)], 0)


def test_every_number_of_the_state_is_read_back():
    found = parsed(exposition(state(epsilon=1.25)))
    run = (("run", "store/a"),)
    value = {name: family["samples"].get(run) for name, family in found.items()}
    assert value["fedtier_rounds_total"] == 4 and value["fedtier_rounds_planned"] == 8
    assert value["fedtier_round_seconds"] == 0.5 and value["fedtier_remaining_seconds"] == 2.0
    assert value["fedtier_global_accuracy_ratio"] == 0.9 and value["fedtier_personal_minus_global_accuracy_ratio"] == 0.25
    assert value["fedtier_privacy_epsilon"] == 1.25 and value["fedtier_last_progress_timestamp_seconds"] == 1.75e9
    assert found["fedtier_sent_bytes_total"]["samples"] == {(*run, ("way", "down")): 1000, (*run, ("way", "up")): 2000}
    ends = found["fedtier_certificate_end_timestamp_seconds"]["samples"]
    assert ends == {(*run, ("party", "server")): 1.8e9}
    phases = found["fedtier_run_phase"]["samples"]
    assert {labels[1][1] for labels, one in phases.items() if one} == {"running"} and sum(phases.values()) == 1


def test_names_with_quotes_and_lines_survive():
    found = parsed(exposition(state()))
    client = (("run", "store/a"), ("client", NAMES))
    assert found["fedtier_client_accuracy_ratio"]["samples"] == {
        (*client, ("model", "personal")): 0.75,
        (*client, ("model", "global")): 0.5,
    }
    assert found["fedtier_client_replies_total"]["samples"] == {
        (*client, ("outcome", "counted")): 4, (*client, ("outcome", "silent")): 1, (*client, ("outcome", "refused")): 2,
    }  # fmt: skip
    standing = found["fedtier_client_standing"]["samples"]
    assert [labels[2][1] for labels, one in standing.items() if one] == ["refused"]


def test_what_is_not_known_has_no_sample_and_errors_are_no_accuracies():
    found = parsed(exposition(state(measure="rmse", shared=3.5, personal=None, gap=None, seconds_left=None)))
    assert found["fedtier_global_rmse"]["samples"] == {(("run", "store/a"),): 3.5}
    for name in (
        "fedtier_global_accuracy_ratio",
        "fedtier_personal_rmse",
        "fedtier_remaining_seconds",
        "fedtier_privacy_epsilon",
    ):
        assert name not in found
    assert exposition(State("empty", [], 0)) == "" and CONTENT_TYPE.startswith("text/plain; version=0.0.4")
