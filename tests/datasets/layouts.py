"""Small files in the publishers' layouts, written from arrays that the tests know."""

from __future__ import annotations

import gzip
import wave
from pathlib import Path

import numpy as np

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
HOSPITALS = {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}


def idx_bytes(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return head + array.astype(np.uint8).tobytes()


def idx_arrays(train: int = 30, test: int = 10) -> list[np.ndarray]:
    draws = np.random.default_rng(0)
    return [
        part
        for rows in (train, test)
        for part in (draws.integers(0, 256, (rows, 28, 28), np.uint8), draws.integers(0, 10, rows, np.uint8))
    ]


def write_idx(folder: Path, packed: bool = True) -> list[np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    arrays = idx_arrays()
    for name, array in zip(IDX, arrays, strict=True):
        content = idx_bytes(array)
        (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)
    return arrays


def write_cifar(folder: Path, records: int) -> tuple[np.ndarray, np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    draws = np.random.default_rng(1)
    labels, images = draws.integers(0, 10, (6, records), np.uint8), draws.integers(0, 256, (6, records, 3072), np.uint8)
    names = [f"data_batch_{k}" for k in range(1, 6)] + ["test_batch"]
    for name, label, image in zip(names, labels, images, strict=True):
        (folder / f"{name}.bin").write_bytes(np.concatenate([label[:, None], image], axis=1).tobytes())
    return labels.reshape(-1), images.reshape(-1, 3, 32, 32)


def write_heart(folder: Path, lines: dict[str, list[str]] | None = None) -> None:
    """Every hospital at its real length; `lines` replaces the first lines of a hospital."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in HOSPITALS.items():
        written = [f"{40 + k % 30},{k % 2},{1 + k % 4},130,240,0,{k % 3},150,{k % 2},1.5,2,0,3,{k % 5}" for k in range(rows)]
        first = (lines or {}).get(name, [])
        (folder / f"processed.{name}.data").write_text("\n".join([*first, *written[len(first) :]]) + "\n")


def write_activity(folder: Path, train: int = 40, test: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(inputs, activities from 1, subjects) of UCI's set, in the publisher's folders or flat."""
    draws = np.random.default_rng(2)
    rows = draws.normal(size=(train + test, 561)).round(6)
    labels, subjects = (
        draws.integers(1, 7, train + test),
        np.concatenate([draws.choice([1, 3, 30], train), draws.choice([2, 4], test)]),
    )
    names = ["WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING"]
    features = [f"fBodyAcc-bandsEnergy()-{k % 300}" for k in range(561)]  # some names stand twice, as there
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "activity_labels.txt").write_text("".join(f"{k} {name}\n" for k, name in enumerate(names, 1)))
    (folder / "features.txt").write_text("".join(f"{k} {name}\n" for k, name in enumerate(features, 1)))
    for part, chosen in (("train", slice(0, train)), ("test", slice(train, None))):
        lines = ["  ".join(f"{value: .7e}" for value in row) for row in rows[chosen]]
        (folder / f"X_{part}.txt").write_text("".join(f" {line}\n" for line in lines))
        (folder / f"y_{part}.txt").write_text("".join(f"{label}\n" for label in labels[chosen]))
        (folder / f"subject_{part}.txt").write_text("".join(f"{subject}\n" for subject in subjects[chosen]))
    return rows, labels, subjects


def write_qmnist(folder: Path, train: int = 30, test: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """(images, labels of 8 numbers: class, series, writer, ...) in IDX, packed."""
    draws = np.random.default_rng(3)
    images = draws.integers(0, 256, (train + test, 28, 28), np.uint8)
    labels = np.zeros((train + test, 8), np.int32)
    labels[:, 0], labels[:, 2] = draws.integers(0, 10, train + test), draws.choice([7, 500, 2100], train + test)
    folder.mkdir(parents=True, exist_ok=True)
    for part, chosen in (("train", slice(0, train)), ("test", slice(train, None))):
        head = bytes([0, 0, 0x0C, 2]) + np.array(labels[chosen].shape, ">u4").tobytes()
        packed = gzip.compress(head + labels[chosen].astype(">i4").tobytes())
        (folder / f"qmnist-{part}-labels-idx2-int.gz").write_bytes(packed)
        (folder / f"qmnist-{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(images[chosen])))
    return images, labels


def write_spoken(folder: Path, tones: dict[str, float] | None = None, seconds: float = 0.4) -> None:
    """Recordings of one pure tone each: NAME -> Hz."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, tone in (tones or {}).items():
        sound = (12_000 * np.sin(2 * np.pi * tone * np.arange(int(8000 * seconds)) / 8000)).astype("<i2")
        with wave.open(str(folder / name), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(sound.tobytes())


CHEM97 = "rownames,lea,school,student,score,gender,age,gcsescore,gcsecnt\n"
EXAM = "rownames,school,normexam,schgend,schavg,vr,intake,standLRT,sex,type,student\n"


def write_schools(folder: Path, pupils: int = 60) -> None:
    draws = np.random.default_rng(4)
    folder.mkdir(parents=True, exist_ok=True)
    chem = [
        f"{k + 1},{1 + k % 3},{1 + k % 7},{k + 1},{2 * (k % 6)},{'FM'[k % 2]},{k % 12 - 6},{6 + draws.normal():.3f},"
        f"{draws.normal()}"
        for k in range(pupils)
    ]
    exam = [
        f"{k + 1},{1 + k % 5},{draws.normal():.7f},mixed,{0.1 * (k % 5)},mid 50%,{'top 25%' if k % 2 else 'bottom 25%'},"
        f"{draws.normal():.7f},{'FM'[k % 2]},Mxd,{k}"
        for k in range(pupils)
    ]
    (folder / "Chem97.csv").write_text(CHEM97 + "\n".join(chem) + "\n")
    (folder / "Exam.csv").write_text(EXAM + "\n".join(exam) + "\n")
