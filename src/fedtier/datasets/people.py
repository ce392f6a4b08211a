"""Published sets whose rows belong to people: natural clients.

activity        30 people with a smartphone at the waist, 6 activities, 561 measurements (UCI 240; Anguita et al., 2013)
qmnist          120,000 handwritten digits of more than 1,000 writers (Yadav, Bottou, 2019)
spoken-digits   3,000 spoken digits of 6 speakers (Free Spoken Digit Dataset; Jackson et al., 2018)
"""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

from ..errors import FedtierError, require
from . import formats
from .dataset import Dataset, Raw
from .formats import REPLACE
from .images import DIGITS
from .published import Many, Published
from .sources import locate
from .table import Column, Table

ACTIVITY = Published(
    "activity",
    {
        "X_train.txt": "git:b06f3e4c7cddf435f2f2b102b4824f51ee8a6298",
        "y_train.txt": "415b3357e2e2d5e70a45c781947c6bdd80e0410a579d862eedcd6bbce3c694ef",
        "subject_train.txt": "66e1e2fbe9b396fa5155f531dc3348c803f503be663e2318772d49947db9153a",
        "X_test.txt": "git:f3c01cbd355e0000229bce4e38156ee338fa6b08",
        "y_test.txt": "2a94cb53ca46b956c1b2aebd4a09a72badd8a8e9ea9cdfe9f31b3306a08666bb",
        "subject_test.txt": "63b8c577f4a85431c06bd87f6384608c90a9f72f05c7956dd21255dc63515c07",
        "features.txt": "b384889885b1c8680ecf250e0e605b4c79536cdf09ce9f2fa7225a3c6773b5c7",
        "activity_labels.txt": "f6e6b292704438261f0283b2a82659ab0661447dc16520938bdf379ed1bf8de0",
    },
    ("https://archive.ics.uci.edu/static/public/240/",),
    archive="human+activity+recognition+using+smartphones.zip",
    inner="UCI HAR Dataset",
)
QMNIST = Published(
    "qmnist",
    {
        "qmnist-train-images-idx3-ubyte": "git:43a075186d8418723380fb40fdd4d4b9a76effa9",
        "qmnist-train-labels-idx2-int": "bb1b6e1ec7b04fd5696f1ed50b5f58f8ef195118edd5c93c81783df9740b8ac5",
        "qmnist-test-images-idx3-ubyte": "git:d6d267b6ad716da3979256a1115d70bf914ddd58",
        "qmnist-test-labels-idx2-int": "92d0ccb8c25f9c6534270fb4be7e1d24a1c6d315edfc8a638bfbd31c70f362dd",
    },
    ("https://raw.githubusercontent.com/facebookresearch/qmnist/94061367ec2e099ea18c553c75727ecf849ddb9b/",),
    packed=".gz",
)
SPOKEN = Published(
    "spoken-digits",
    {},
    ("https://github.com/Jakobovski/free-spoken-digit-dataset/archive/",),
    archive="26eb9aaf76e81b692f806f9140c2d2777410d7a1.tar.gz",
    inner="recordings",
    many=Many(".wav", 3000, "dbd573d7cafe79c4b49f65718115e1304e24e067fa39eff18a660dc6cb9c360f"),
)
WINDOW, HOP = 256, 128  # samples: 32 and 16 ms at 8 kHz
PARTS, BANDS = 16, 16  # of the picture that a recording becomes: time x pitch


def activity(folder: str | Path | None = None) -> Dataset:
    """10,299 windows of 2.56 s of 30 people; the publisher's test rows, of 9 of them, stand at the end."""
    paths = locate(ACTIVITY, folder)
    names = _unique([line.split(maxsplit=1)[1] for line in paths["features.txt"].read_text().splitlines() if line.strip()])
    labels = dict(line.split() for line in paths["activity_labels.txt"].read_text().splitlines() if line.strip())
    inputs = [np.fromfile(paths[f"X_{part}.txt"], sep=" ") for part in ("train", "test")]
    for part, values in zip(("train", "test"), inputs, strict=True):
        rule = f"must hold {len(names)} numbers a line"
        require(len(values) > 0 and len(values) % len(names) == 0, str(paths[f"X_{part}.txt"]), len(values), rule, REPLACE)
    rows = np.concatenate([values.reshape(-1, len(names)) for values in inputs])
    codes, subjects = (
        np.concatenate([_whole(paths[f"{kind}_{part}.txt"], len(values) // len(names)) for part, values in
                        zip(("train", "test"), inputs, strict=True)])
        for kind in ("y", "subject")
    )  # fmt: skip
    who, owner = np.unique(subjects, return_inverse=True)
    place = {int(code): k for k, code in enumerate(labels)}
    columns: dict[str, Column] = {name: rows[:, k] for k, name in enumerate(names)}
    return Dataset(
        "activity", np.empty((len(rows), 0), np.float32), np.asarray([place[code] for code in codes.tolist()], np.int32),
        tuple(name.lower().replace("_", " ") for name in labels.values()), owner=owner.reshape(-1).astype(np.int32),
        owner_names=tuple(f"subject {k}" for k in who), label="activity", raw=Raw(Table(columns, len(rows))),
        test_rows=len(inputs[1]) // len(names),
    )  # fmt: skip


def _whole(path: Path, rows: int) -> np.ndarray:
    values = np.fromfile(path, sep=" ").astype(np.int64)
    require(len(values) == rows, str(path), f"{len(values)} lines", f"must have {rows}, one per row", REPLACE)
    return values


def _unique(names: list[str]) -> list[str]:
    """The publisher has 84 names twice or thrice: these get a number."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return out


def qmnist(folder: str | Path | None = None) -> Dataset:
    """MNIST's training digits and 60,000 test digits, 28x28 pixels, with their writers. Scaled by MNIST's constants."""
    paths = locate(QMNIST, folder)
    images, labels = [], []
    for part in ("train", "test"):
        images.append(formats.read_idx(paths[f"qmnist-{part}-images-idx3-ubyte"], 3))
        labels.append(formats.read_idx(paths[f"qmnist-{part}-labels-idx2-int"], 2, kind=formats.INTEGERS))
        fits = images[-1].shape == (len(labels[-1]), 28, 28) and labels[-1].shape[1] == 8
        rule = f"must be {len(labels[-1])} images of 28x28, one per label of 8 numbers"
        require(fits, str(paths[f"qmnist-{part}-images-idx3-ubyte"]), images[-1].shape, rule, REPLACE)
    table = np.concatenate(labels)
    who, owner = np.unique(table[:, 2], return_inverse=True)
    return Dataset(
        "qmnist", np.concatenate(images)[:, None], table[:, 0].astype(np.int32), DIGITS,
        owner=owner.reshape(-1).astype(np.int32), owner_names=tuple(f"writer {k}" for k in who),
        shift=np.float32(33.318421), scale=np.float32(1 / 78.567490), test_rows=len(images[1]),
    )  # fmt: skip


def spoken_digits(folder: str | Path | None = None) -> Dataset:
    """Each recording as a picture of 16 stretches of time x 16 bands of pitch, logarithms of energy."""
    paths = locate(SPOKEN, folder)
    parts = [Path(name).stem.split("_") for name in paths]
    for name, part in zip(paths, parts, strict=True):
        fits = len(part) == 3 and part[0] in DIGITS
        require(fits, "name", name, "must be called DIGIT_SPEAKER_NUMBER.wav", REPLACE)
    who, owner = np.unique([part[1] for part in parts], return_inverse=True)
    pictures = np.stack([_picture(path) for path in paths.values()])
    return Dataset(
        "spoken-digits", np.empty((len(parts), 0), np.float32), np.asarray([int(part[0]) for part in parts], np.int32), DIGITS,
        owner=owner.reshape(-1).astype(np.int32), owner_names=tuple(map(str, who)), label="digit", raw=Raw(pictures[:, None]),
    )  # fmt: skip


def _picture(path: Path) -> np.ndarray:
    """[PARTS, BANDS] float32. Bands are equally wide in mel, 2595 log10(1 + f/700), from 0 to 4,000 Hz."""
    try:
        with wave.open(str(path)) as file:
            form = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2") if form == (1, 2, 8000) else None
    except (wave.Error, EOFError) as error:
        raise FedtierError(str(path), "a recording", f"is not an intact .wav file ({error})", REPLACE) from error
    require(samples is not None, str(path), form, "must have one channel of 16 bits at 8,000 Hz")
    sound = np.pad(samples / 2.0**15, (0, max(0, WINDOW + (PARTS - 1) * HOP - len(samples))))  # pyright: ignore
    frames = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[::HOP] * np.hanning(WINDOW)
    energy = np.abs(np.fft.rfft(frames, axis=1)) ** 2
    mel = 2595 * np.log10(1 + np.fft.rfftfreq(WINDOW, 1 / 8000) / 700)
    band = np.minimum((mel / mel[-1] * BANDS).astype(int), BANDS - 1)
    bands = np.stack([energy[:, band == k].mean(axis=1) for k in range(BANDS)], axis=1)
    stretches = [part.mean(axis=0) for part in np.array_split(bands, PARTS)]
    return np.log(np.stack(stretches) + 1e-6).astype(np.float32)
