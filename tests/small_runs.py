"""The smallest runs that still have everything, and how to read them back."""

import json
from pathlib import Path

METHODS = ("zo_hfl", "fedavg", "server_only", "local_only")
SMALL = ["data.name=synthetic", "data.clients=4", "data.partition=natural", "data.client_test_share=0.3"]
SHORT = [*SMALL, "run.rounds=6", "run.eval_every=2", "run.checkpoint_every=4", "run.tau=1", "run.participation=1"]


def options(settings) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def metrics(folder: Path) -> list[dict]:
    """The rows of a run, all but their seconds."""
    rows = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
