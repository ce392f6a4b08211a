"""The state of a watched folder in Prometheus' text format, version 0.0.4: one family of samples after another, each with its
HELP and TYPE; what is not known has no sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .state import PHASES, STANDINGS, Client, Run, State

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Sample(NamedTuple):
    labels: dict[str, str]
    value: float | None


class Family(NamedTuple):
    """Samples of one name. The name of a counter ends in _total, without which it is not one."""

    name: str
    help: str
    samples: list[Sample]

    @property
    def kind(self) -> str:
        return "counter" if self.name.endswith("_total") else "gauge"


def exposition(state: State) -> str:
    """The whole text."""
    lines: list[str] = []
    for family in families(state):
        known = [sample for sample in family.samples if sample.value is not None]
        if not known:
            continue
        lines += [f"# HELP {family.name} {_escaped(family.help, quotes=False)}", f"# TYPE {family.name} {family.kind}"]
        for sample in known:
            labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels.items())
            lines.append(f"{family.name}{{{labels}}} {_number(sample.value or 0)}")
    return "\n".join([*lines, ""])


def families(state: State) -> Iterator[Family]:
    """All that is told of the runs, then of their clients."""

    def of_runs(name: str, words: str, values: Iterable[float | None]) -> Family:
        pairs = zip(state.runs, values, strict=True)
        return Family(f"fedtier_{name}", words, [Sample({"run": run.run}, value) for run, value in pairs])

    runs = state.runs
    yield Family("fedtier_run_info", "What a run is.", [Sample({"run": r.run, "title": r.title}, 1) for r in runs])
    yield Family(
        "fedtier_run_phase", "1 for the phase in which a run is, 0 for the others.",
        [Sample({"run": run.run, "phase": phase}, run.phase == phase) for run in runs for phase in PHASES],
    )  # fmt: skip
    yield of_runs("rounds_total", "Rounds that are done.", [run.round for run in runs])
    yield of_runs("rounds_planned", "Rounds that the run will have.", [run.rounds for run in runs])
    sent = [Sample({"run": r.run, "way": way}, n) for r in runs for way, n in (("down", r.bytes_down), ("up", r.bytes_up))]
    yield Family("fedtier_sent_bytes_total", "Bytes of letters to clients (down) and of replies (up), one seed's.", sent)
    yield of_runs("local_steps_total", "Local steps of all clients.", [run.local_steps for run in runs])
    yield of_runs("run_seconds_total", "Seconds that the rounds have taken.", [run.seconds for run in runs])
    yield of_runs("round_seconds", "Seconds a round of late.", [run.seconds_a_round for run in runs])
    yield of_runs("remaining_seconds", "Estimated seconds to the last round.", [run.seconds_left for run in runs])
    yield of_runs(
        "last_progress_timestamp_seconds", "When a row or a checkpoint was last written.", [r.progressed for r in runs]
    )
    yield of_runs("global_loss", "Loss of the global model on the test rows.", [run.loss for run in runs])
    yield of_runs("privacy_epsilon", "Privacy spent.", [run.epsilon for run in runs])
    for measure in ("accuracy", "rmse"):
        some = [run if run.measure == measure else None for run in runs]
        word = f"{measure}_ratio" if measure == "accuracy" else measure
        yield of_runs(f"global_{word}", f"The global model's {measure} on the test rows.", [r and r.shared for r in some])
        yield of_runs(
            f"personal_{word}", f"Mean {measure} of personal models, each on its rows.", [r and r.personal for r in some]
        )
        gaps = [run and run.gap for run in some]
        yield of_runs(f"personal_minus_global_{word}", f"Mean difference in {measure} on the clients' rows.", gaps)
    yield from _of_clients(runs)


def _of_clients(runs: list[Run]) -> Iterator[Family]:
    pairs = [(run, client) for run in runs for client in run.clients]

    def labels(run: Run, client: Client, **more: str) -> dict[str, str]:
        return {"run": run.run, "client": client.name, **more}

    yield Family(
        "fedtier_client_standing", "1 for how a client stands in the latest round, 0 for the others.",
        [Sample(labels(r, c, standing=one), c.standing == one) for r, c in pairs for one in STANDINGS],
    )  # fmt: skip
    replies = [
        Sample(labels(run, client, outcome=outcome), getattr(client, outcome))
        for run, client in pairs
        for outcome in ("counted", "silent", "declined", "refused")
    ]
    yield Family("fedtier_client_replies_total", "Replies by what became of them.", replies)
    last = [Sample(labels(run, client), client.last) for run, client in pairs]
    yield Family("fedtier_client_last_round", "The last round, from 0, in which a reply counted.", last)
    ends = [Sample({"run": run.run, "party": party}, until) for run in runs for party, until in run.certificates.items()]
    yield Family("fedtier_certificate_end_timestamp_seconds", "Until when a party's certificate holds.", ends)
    stale = [Sample(labels(run, client), client.staleness) for run, client in pairs]
    yield Family("fedtier_client_staleness_steps", "Mean age of answers that counted, in steps of the server.", stale)
    for measure, word in (("accuracy", "accuracy_ratio"), ("rmse", "rmse")):
        scores = [
            Sample(labels(run, client, model=model), value)
            for run, client in pairs
            if run.measure == measure
            for model, value in (("personal", client.personal), ("global", client.shared))
        ]
        yield Family(f"fedtier_client_{word}", f"The {measure} on the client's own test rows, first seed.", scores)


def _escaped(words: str, *, quotes: bool = True) -> str:
    words = words.replace("\\", "\\\\").replace("\n", "\\n")
    return words.replace('"', '\\"') if quotes else words


def _number(value: float) -> str:
    return repr(int(value)) if float(value).is_integer() else repr(float(value))
