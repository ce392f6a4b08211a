"""The image sets by name: digits (inside scikit-learn), MNIST, Fashion-MNIST and CIFAR-10.

shift and scale are the mean and 1/deviation of the publisher's training pixels, so that no test pixel enters them
(digits has no training part: all its pixels).
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import numpy as np

from ..errors import require
from . import formats
from .dataset import Dataset
from .published import Published
from .sources import locate

DIGITS = tuple("0123456789")
IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
IDX_SHA256 = {
    "mnist": (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    "fashion-mnist": (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
}
MNIST = Published(
    "mnist",
    dict(zip(IDX, IDX_SHA256["mnist"], strict=True)),
    ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    packed=".gz",
)
FASHION = Published(
    "fashion-mnist",
    dict(zip(IDX, IDX_SHA256["fashion-mnist"], strict=True)),
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    packed=".gz",
)
FASHION_CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
CIFAR10 = Published(
    "cifar10",
    {
        "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    },
    ("https://www.cs.toronto.edu/~kriz/",),
    archive="cifar-10-binary.tar.gz",
    inner="cifar-10-batches-bin",
)
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def digits() -> Dataset:
    """1,797 handwritten digits of 8x8 pixels in 0 .. 16 (E. Alpaydin, C. Kaynak, 1998), embedded in scikit-learn."""
    rows = _digit_rows()
    inputs, labels = rows[:, :-1].astype(np.uint8).reshape(-1, 1, 8, 8), rows[:, -1].astype(np.int32)
    shift, scale = np.float32(4.884165), np.float32(1 / 6.016788)
    return Dataset("digits", inputs, labels, DIGITS, shift=shift, scale=scale)


def _digit_rows() -> np.ndarray:
    """[1797, 65], read from scikit-learn's own file: to import the package takes a second."""
    spec = importlib.util.find_spec("sklearn")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if path.exists():
            return np.loadtxt(path, delimiter=",")
    from sklearn.datasets import load_digits  # another version keeps it elsewhere

    images, labels = load_digits(return_X_y=True)
    return np.column_stack([images, labels])


def mnist(folder: str | Path | None = None) -> Dataset:
    """70,000 handwritten digits of 28x28 pixels (Y. LeCun, C. Cortes, C. Burges)."""
    return _idx(MNIST, folder, DIGITS, 33.318421, 78.567490)


def fashion_mnist(folder: str | Path | None = None) -> Dataset:
    """70,000 pieces of clothing of 28x28 pixels (H. Xiao, K. Rasul, R. Vollgraf, 2017)."""
    return _idx(FASHION, folder, FASHION_CLASSES, 72.940352, 90.021182)


def cifar10(folder: str | Path | None = None) -> Dataset:
    """60,000 colour images of 32x32 pixels (A. Krizhevsky, 2009), from the binary version: the other one is a pickle."""
    paths = locate(CIFAR10, folder)
    records = formats.CIFAR_RECORDS
    inputs = np.empty((len(paths) * records, 3, 32, 32), np.uint8)
    labels = np.empty(len(inputs), np.int32)
    for k, path in enumerate(paths.values()):
        window = slice(k * records, (k + 1) * records)
        formats.read_cifar(path, inputs[window], labels[window])
    shift = np.array([125.306918, 122.950394, 113.865383], np.float32).reshape(3, 1, 1)
    deviation = np.array([62.993219, 62.088708, 66.704900], np.float32).reshape(3, 1, 1)
    return Dataset("cifar10", inputs, labels, CIFAR10_CLASSES, shift=shift, scale=1 / deviation, test_rows=records)


def _idx(published: Published, folder: str | Path | None, names: tuple[str, ...], mean: float, deviation: float) -> Dataset:
    paths = locate(published, folder)
    parts = [(_labels(paths[label], published.name, names), paths[image]) for image, label in (IDX[:2], IDX[2:])]
    labels = np.concatenate([part for part, _ in parts])
    inputs, start = np.empty((len(labels), 1, 28, 28), np.uint8), 0
    for part, path in parts:  # one file unpacked at a time, straight into its place
        images = formats.read_idx(path, 3)
        rule = f"must be {len(part)} images of 28x28, one per label"
        require(images.shape == (len(part), 28, 28), str(path), images.shape, rule)
        inputs[start : start + len(part), 0] = images
        start += len(part)
    shift, scale = np.float32(mean), np.float32(1 / deviation)
    return Dataset(published.name, inputs, labels, names, shift=shift, scale=scale, test_rows=len(parts[1][0]))


def _labels(path: Path, name: str, names: tuple[str, ...]) -> np.ndarray:
    labels = formats.read_idx(path, 1)
    require(len(labels) > 0, str(path), 0, "holds no labels")
    require(int(labels.max()) < len(names), str(path), f"label {labels.max()}", f"must hold labels 0 to {len(names) - 1}")
    content = hashlib.sha256(np.array([0x801, len(labels)], ">u4").tobytes() + labels.tobytes()).hexdigest()
    for other, known in IDX_SHA256.items():
        require(
            other == name or content not in known,
            str(path),
            f"the labels of {other}",
            f"must be those of {name}",
            f"the two sets use the same file names: keep each in a sub-folder, {name}/ and {other}/",
        )
    return labels.astype(np.int32)
