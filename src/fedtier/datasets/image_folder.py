"""A folder of images, one sub-folder per class: FOLDER/cat/1.png, FOLDER/dog/7.jpg; or per owner, then per class."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from ..errors import FedtierError, require, whole
from .table import Words, words

if TYPE_CHECKING:  # loaded where an image is
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".pgm", ".ppm")
SIXTEEN_BITS = ("PNG", "PPM")  # formats whose pixels of mode I have 16 bits
GREY = ("1", "L", "LA", "I", "I;16", "F")

T = TypeVar("T")


class Pictures(NamedTuple):
    inputs: np.ndarray  # [N, channels, height, width] uint8
    labels: Words
    owners: Words | None


def read_images(folder: Path, size: int | None = None) -> Pictures:
    """FOLDER/CLASS/IMAGE.png, or FOLDER/OWNER/CLASS/IMAGE.png; classes and owners in alphabetical order.

    One channel when every image is grey, else red, green, blue. Images must have one size, or are resized to
    `size` x `size`. Only headers are read to find that out, so memory holds the images once.
    """
    if size is not None:
        whole("image_size", size)
    outer = _folders(folder)
    owned = bool(outer) and all(_folders(entry) and not _images(entry) for entry in outer)
    places = [(entry, inner) for entry in outer for inner in _folders(entry)] if owned else [(entry, entry) for entry in outer]
    hint = "FOLDER/CLASS/IMAGE.png, or FOLDER/OWNER/CLASS/IMAGE.png; name the outermost folder"
    classes = sorted({inner.name for _, inner in places})
    require(len(classes) >= 2, "file", str(folder), f"must have a sub-folder per class, but has {len(classes)}", hint)
    files: list[tuple[Path, str, str]] = []
    for owner, inner in places:
        images = _images(inner)
        require(bool(images), "file", str(inner), f"holds no images ({', '.join(SUFFIXES)})", hint)
        files += [(path, inner.name, owner.name) for path in images]
    paths, labels, owners = zip(*files, strict=True)
    _refuse_left_out(folder, paths)
    return Pictures(_pixels_of(paths, size), words(labels), words(owners) if owned else None)


def read_alike(folder: Path, shape: tuple[int, ...], size: int | None = None) -> tuple[np.ndarray, Words | None]:
    """(images in the form [channels, height, width] that a model has, their classes or None): FOLDER/IMAGE.png without classes,
    in alphabetical order, or FOLDER/CLASS/IMAGE.png. Resized only where the training images were: `size`."""
    require(len(shape) == 3, "rows", str(folder), f"is a folder, but the model sees rows of shape {shape}", "give a table")
    flat = _images(folder)
    files = [(path, "") for path in flat] or [(path, inner.name) for inner in _folders(folder) for path in _images(inner)]
    hint = f"images ({', '.join(SUFFIXES)}), or one folder of them per class"
    require(bool(files), "rows", str(folder), "holds no images", hint)
    _refuse_left_out(folder, [path for path, _ in files])
    inputs = _pixels_of(tuple(path for path, _ in files), size, "L" if shape[0] == 1 else "RGB")
    return inputs, None if flat else words([name for _, name in files])


def _folders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())


def _refuse_left_out(folder: Path, used: Sequence[Path]) -> None:
    """Refuses a folder with images beside, or below, those that its layout takes: they would be left out without a word."""
    within = [folder]
    for entry in within:
        within += _folders(entry)
    left = sorted({path for entry in within for path in _images(entry)} - {*used})
    if left:
        rule = f"is one of {len(left)} images that would be left out: images lie beside folders, or in folders of unequal depth"
        hint = "all in FOLDER/CLASS, or all in FOLDER/OWNER/CLASS: move or remove the others"
        raise FedtierError("file", str(left[0]), rule, hint)


def _pixels_of(files: tuple[Path, ...], size: int | None, mode: str | None = None) -> np.ndarray:
    modes, sizes = zip(*(_open(path, lambda image: (image.mode, image.size)) for path in files), strict=True)
    mode = mode or ("L" if all(one in GREY for one in modes) else "RGB")
    if size is None:
        odd = next((k for k, one in enumerate(sizes) if one != sizes[0]), None)
        require(
            odd is None,
            "file",
            str(files[odd or 0]),
            f"is {_times(sizes[odd or 0])} pixels, but {files[0]} is {_times(sizes[0])}: all images must have one size",
            "set image_size to resize them",
        )
    width, height = (size, size) if size else sizes[0]
    inputs = np.empty((len(files), 1 if mode == "L" else 3, height, width), np.uint8)
    for k, path in enumerate(files):
        pixels = _open(path, lambda image: _pixels(image, mode, (width, height)))
        inputs[k] = pixels if mode == "L" else pixels.transpose(2, 0, 1)
    return inputs


def _pixels(image: ImageFile, mode: str, size: tuple[int, int]) -> np.ndarray:
    wide = image.mode == "F" or (image.mode == "I" and image.format not in SIXTEEN_BITS)
    rule = f"has pixels of 32 bits (mode {image.mode}), of which nobody knows what is white"
    require(not wide, "file", image.filename, rule, "save it with 8 or 16 bits a pixel")
    plain = (_from_16_bits(image) if image.mode.startswith("I") else image).convert(mode)
    return np.asarray(plain if plain.size == size else plain.resize(size))


def _from_16_bits(image: Image) -> Image:
    """The upper 8 bits; Pillow's own conversion clips instead."""
    from PIL import Image

    return Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8))


def _open(path: Path, look: Callable[[ImageFile], T]) -> T:
    from PIL import Image

    try:
        with warnings.catch_warnings(), Image.open(path) as image:
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return look(image)
    except FedtierError:
        raise
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise FedtierError("file", str(path), f"is not an intact image ({error})", "copy it again or remove it") from error


def _times(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"
