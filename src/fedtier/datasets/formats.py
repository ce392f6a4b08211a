"""The publishers' file formats: IDX (plain or gzip) and CIFAR's binary records. Sizes are checked, nothing is unpickled."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np

from ..errors import FedtierError, require

CIFAR_RECORDS = 10_000  # in each file
CIFAR_PIXELS = 3 * 32 * 32  # red, green, blue planes after one label byte


BYTES, INTEGERS = 0x08, 0x0C  # IDX's marks for what an array holds
TYPES = {BYTES: np.dtype(np.uint8), INTEGERS: np.dtype(">i4")}


def read_idx(path: Path, dimensions: int, kind: int = BYTES) -> np.ndarray:
    """The array of an IDX file of unsigned bytes, or of integers, as a read-only view of its content."""
    content = _content(path)
    head = 4 + 4 * dimensions
    magic = bytes([0, 0, kind, dimensions])
    what = {BYTES: "bytes", INTEGERS: "integers"}[kind]
    require(
        content[: len(magic)] == magic[: len(content)],
        str(path),
        f"starts with {content[:4].hex()}",
        f"must be an IDX file of {what} with {dimensions} dimensions ({magic.hex()})",
    )
    whole_head = len(content) >= head
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", dimensions, 4)) if whole_head else ()
    expected = head + TYPES[kind].itemsize * int(np.prod(shape, dtype=np.int64)) if whole_head else head
    if len(content) != expected or not whole_head:
        raise cut(path, len(content), expected, "of content" if path.suffix == ".gz" else "")
    return np.frombuffer(content, TYPES[kind], offset=head).reshape(shape)


def _content(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.suffix != ".gz":
        return raw
    try:
        return gzip.decompress(raw)
    except (EOFError, OSError, zlib.error) as error:
        # A cut file still tells its full size: the IDX head comes first, so keep what can be unpacked.
        try:
            return zlib.decompressobj(wbits=31).decompress(raw)
        except zlib.error:
            raise FedtierError(str(path), f"{len(raw)} bytes", f"is not an intact gzip file ({error})", REPLACE) from error


def read_cifar(path: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """Fills `images` [10000, 3, 32, 32] and `labels` [10000] from one file of the binary version."""
    size, expected = path.stat().st_size, CIFAR_RECORDS * (1 + CIFAR_PIXELS)
    if size != expected:
        raise cut(path, size, expected)
    records = np.fromfile(path, np.uint8).reshape(CIFAR_RECORDS, 1 + CIFAR_PIXELS)
    labels[:] = records[:, 0]
    images[:] = records[:, 1:].reshape(images.shape)
    most = int(labels.max())
    require(most < 10, str(path), f"label {most}", "must hold labels 0 to 9", "is it CIFAR-10's binary version?")


REPLACE = "copy or download the file again"


def cut(path: Path, size: int, expected: int, what: str = "") -> FedtierError:
    """The error for a file of the wrong size."""
    rule = f"{'is cut short' if size < expected else 'is too long'}: {expected:,} bytes{' ' + what if what else ''} expected"
    return FedtierError(str(path), f"{size:,} bytes", rule, REPLACE)
