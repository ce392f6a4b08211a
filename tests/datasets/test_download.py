"""Downloads, from a server on the loopback: fetched once, checked, replaced when damaged, explained when offline."""

from __future__ import annotations

import errno
import functools
import gzip
import hashlib
import http.server
import tarfile
import threading
import types

import pytest

from fedtier.datasets import download, formats, images, load
from fedtier.errors import FedtierError

from . import layouts

CLOSED = "http://127.0.0.1:9/"  # nothing listens there


@pytest.fixture
def server(tmp_path, monkeypatch):
    """(folder that is served, its address, list of what was asked for); the cache is a fresh folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    asked = []

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    folder = tmp_path / "www"
    folder.mkdir()
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
    yield folder, f"http://127.0.0.1:{running.server_port}/", asked
    running.shutdown()
    running.server_close()


@pytest.fixture
def mnist(server, monkeypatch):
    folder, address, asked = server
    arrays = layouts.write_idx(folder)
    hashes = [hashlib.sha256(layouts.idx_bytes(array)).hexdigest() for array in arrays]
    files = dict(zip(layouts.IDX, hashes, strict=True))
    monkeypatch.setattr(images, "MNIST", images.MNIST._replace(files=files, mirrors=(address,)))
    return folder, asked


def cached(tmp_path):
    return sorted(path.name for path in (tmp_path / "cache" / "fedtier").rglob("*") if path.is_file())


def test_files_are_fetched_once_and_kept_unpacked(mnist, tmp_path, capfd):
    _, asked = mnist
    assert load("mnist").rows == 40
    assert len(asked) == 4 and cached(tmp_path) == sorted(layouts.IDX)
    out, err = capfd.readouterr()
    assert out == "" and "fetching train-images-idx3-ubyte" in err
    assert load("mnist").rows == 40 and len(asked) == 4


def test_a_damaged_file_in_the_cache_is_fetched_again_and_only_that_one(mnist, tmp_path):
    _, asked = mnist
    load("mnist")
    path = tmp_path / "cache" / "fedtier" / "mnist" / "t10k-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:10])
    assert load("mnist").rows == 40 and asked[4:] == ["/t10k-labels-idx1-ubyte.gz"]


def test_content_with_another_checksum_is_refused_and_not_kept(mnist, tmp_path):
    folder, _ = mnist
    for content in (gzip.compress(b"something else"), b"<html>", gzip.compress(b"cut" * 999)[:20]):
        (folder / "train-labels-idx1-ubyte.gz").write_bytes(content)
        with pytest.raises(FedtierError, match="not the published content"):
            load("mnist")
        assert cached(tmp_path) == ["train-images-idx3-ubyte"]


def test_the_next_mirror_is_tried_and_offline_names_setting_and_files(mnist, monkeypatch):
    good = images.MNIST.mirrors[0]
    monkeypatch.setattr(images, "MNIST", images.MNIST._replace(mirrors=(CLOSED,)))
    with pytest.raises(FedtierError) as caught:
        load("mnist")
    text = str(caught.value)
    assert "name = 'mnist': could not be downloaded" in text and "ConnectionError" in text and CLOSED in text
    assert "FEDTIER_DATA or `folder`" in text and all(name in text for name in layouts.IDX)
    monkeypatch.setattr(images, "MNIST", images.MNIST._replace(mirrors=(CLOSED, good)))
    assert load("mnist").rows == 40


def test_a_file_that_a_mirror_does_not_have_gives_the_status(mnist):
    folder, _ = mnist
    (folder / "t10k-images-idx3-ubyte.gz").unlink()
    with pytest.raises(FedtierError, match="HTTP 404"):
        load("mnist")


@pytest.fixture
def cifar(server, tmp_path, monkeypatch):
    folder, address, asked = server
    monkeypatch.setattr(formats, "CIFAR_RECORDS", 3)
    layouts.write_cifar(tmp_path / "made", 3)
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted((tmp_path / "made").iterdir())}
    monkeypatch.setattr(images, "CIFAR10", images.CIFAR10._replace(files=files, mirrors=(address,)))

    def pack(names):
        with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as tar:
            for name in names:
                tar.add(tmp_path / "made" / name, f"cifar-10-batches-bin/{name}")

    pack(files)
    return folder, asked, pack, list(files)


def test_an_archive_is_unpacked_once_checked_and_removed(cifar, tmp_path):
    _, asked, _, names = cifar
    assert load("cifar10").rows == 18 and cached(tmp_path) == names
    assert load("cifar10").rows == 18 and asked == ["/cifar-10-binary.tar.gz"]


def test_an_archive_that_is_cut_or_lacks_a_file_is_refused_and_not_kept(cifar, tmp_path):
    folder, _, pack, names = cifar
    archive = folder / "cifar-10-binary.tar.gz"
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FedtierError, match="not the published content"):
        load("cifar10")
    pack(names[:-1])
    with pytest.raises(FedtierError, match=f"no {names[-1]} in cifar-10-binary.tar.gz"):
        load("cifar10")
    assert archive.name not in cached(tmp_path)
    pack(names)
    assert load("cifar10").rows == 18


def test_a_cache_that_cannot_be_written_is_named(mnist, tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(FedtierError, match=r"cache = .*fedtier/mnist'?: cannot be written[^$]*FEDTIER_DATA"):
        load("mnist")


def test_a_full_disk_is_an_error_that_leaves_whole_files_in_place(mnist, tmp_path, monkeypatch):
    load("mnist")
    (tmp_path / "cache" / "fedtier" / "mnist" / "train-labels-idx1-ubyte").unlink()

    def full(source, target, length):
        target.write(source.read(9))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download, "shutil", types.SimpleNamespace(copyfileobj=full))
    with pytest.raises(FedtierError, match=r"cannot be written \(No space left on device\)"):
        load("mnist")
    assert cached(tmp_path) == sorted(set(layouts.IDX) - {"train-labels-idx1-ubyte"})
