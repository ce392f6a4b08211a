"""What is kept carries its own checksum: one changed byte, wherever it lies, is found; the generation before it is used."""

import json
import os
import tracemalloc
import warnings

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from fedtier import keys
from fedtier.errors import FedtierError, FedtierWarning
from fedtier.storage import array_files, checksums, named_arrays
from fedtier.storage.array_files import ArrayFile
from fedtier.storage.files import Damaged, previous, read_generations, write_whole

TREE = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "n": np.int64(7),
    "flags": np.array([True, False]),
    "e": np.zeros((0, 2)),
}
WORDS = {"format": "test-1", "round": "12"}
OTHERS = (0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF)  # a byte is changed by each of these


def written(path, tree=TREE, **more):
    array_files.save(path, tree, WORDS, **more)
    return path.read_bytes()


def load(path, like=TREE):
    return array_files.load(path, like, "test-1", "do this")


def test_a_file_comes_back_bit_for_bit_with_its_words_and_any_reader_of_safetensors_opens_it(tmp_path):
    written(tmp_path / "a")
    tree, words = load(tmp_path / "a")
    assert words == WORDS
    for name, array in TREE.items():
        assert tree[name].dtype == np.asarray(array).dtype and np.array_equal(tree[name], array)
    assert np.array_equal(safetensors.numpy.load_file(tmp_path / "a")["w"], TREE["w"])


@pytest.mark.parametrize("stacked", [0, 1])
@pytest.mark.slow
def test_every_single_changed_byte_of_a_file_is_found(tmp_path, stacked):
    path = tmp_path / "a"
    tree = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([1, 2], np.int8)} if stacked else TREE
    data = written(path, tree, stacked=stacked)
    for place in range(len(data)):
        for change in OTHERS if place % 7 == 0 else OTHERS[place % 9 :: 9]:
            path.write_bytes(data[:place] + bytes([data[place] ^ change]) + data[place + 1 :])
            with pytest.raises(FedtierError) as refusal:
                load(path, tree)
            assert "do this" in str(refusal.value), (place, change)
    path.write_bytes(data)
    load(path, tree)


def test_white_space_of_another_kind_in_the_padding_is_found_too(tmp_path):
    for width in range(1, 9):  # of a name: one of them leaves no padding
        data = written(tmp_path / "a", {"w" * width: np.ones(2)})
        end = 8 + int.from_bytes(data[:8], "little")
        if data[end - 1 : end] == b" ":
            (tmp_path / "a").write_bytes(data[: end - 1] + b"\t" + data[end:])
            with pytest.raises(Damaged, match="checksum does not hold"):
                load(tmp_path / "a", {"w" * width: np.ones(2)})


def test_a_file_cut_short_anywhere_and_one_that_is_gone_are_found(tmp_path):
    data = written(tmp_path / "a")
    for size in range(len(data)):
        (tmp_path / "a").write_bytes(data[:size])
        with pytest.raises(Damaged, match="is damaged"):
            load(tmp_path / "a")
    (tmp_path / "a").unlink()
    with pytest.raises(Damaged, match="is not there"):
        load(tmp_path / "a")


def test_one_place_of_a_stacked_file_is_checked_by_itself_and_the_others_stay_readable(tmp_path):
    tree = {"w": np.arange(24, dtype=np.float32).reshape(2, 3, 4), "b": np.arange(6, dtype=np.float32).reshape(2, 3)}
    data = written(tmp_path / "a", tree, stacked=2)
    spoilt = np.float32(tree["w"][1, 2, 3]).tobytes()  # 23.0 stands nowhere else
    assert data.count(spoilt) == 1
    (tmp_path / "a").write_bytes(data.replace(spoilt, np.float32(22.5).tobytes()))
    file = ArrayFile(tmp_path / "a", "test-1", "do this")
    for place in np.ndindex(2, 3):
        if place == (1, 2):
            with pytest.raises(Damaged, match="checksum does not hold"):
                file.one(place)
        else:
            assert np.array_equal(file.one(place)["w"], tree["w"][place]) and file.one(place)["b"] == tree["b"][place]


def test_a_file_of_before_there_were_checksums_is_read_with_a_warning(tmp_path):
    arrays = {name: np.asarray(a) for name, a in TREE.items()}
    (tmp_path / "old").write_bytes(safetensors.numpy.save(arrays, metadata=WORDS))
    with pytest.warns(FedtierWarning, match="old: was written before files had checksums"):
        tree, words = load(tmp_path / "old")
    assert words == WORDS and np.array_equal(tree["w"], TREE["w"])


ROW = {"round": 3, "name": "Zürich", "f1": 0.25, "seconds": {"run": 1.5}}


def test_every_single_changed_byte_of_a_stamped_line_is_found():
    line = checksums.stamped(ROW).encode()
    assert checksums.unstamped(line) == ROW and json.loads(line).keys() == {*ROW, "checksum"}
    for place in range(len(line)):
        for other in range(256):
            if other != line[place]:
                with pytest.raises(ValueError):
                    checksums.unstamped(line[:place] + bytes([other]) + line[place + 1 :])
    assert checksums.unstamped(json.dumps(ROW).encode()) == ROW  # of before there were any


def test_a_file_that_is_indented_is_stamped_too():
    text = checksums.stamped(ROW, indent=1)
    assert text.count("\n") > 3 and checksums.unstamped(text.encode()) == ROW


def generations(path, *contents):
    for content in contents:
        write_whole(path, content, keep_previous=True)


def good(path):
    data = path.read_bytes() if path.exists() else b"bad"
    if b"bad" in data:
        raise Damaged(str(path), "x", "is damaged", "do this")
    return data


def test_the_newest_generation_is_read_and_the_one_before_it_where_that_is_damaged_or_gone(tmp_path):
    path, said = tmp_path / "state", []
    assert read_generations(path, good, said.append) is None
    generations(path, b"one", b"two", b"three")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["previous-state", "state"]
    assert read_generations(path, good, said.append) == b"three" and not said
    path.write_bytes(b"bad")
    assert read_generations(path, good, said.append) == b"two"
    assert "is damaged; goes on from previous-state (kept as broken-state)" in said[0] and not path.exists()
    generations(path, b"four")  # the damaged one never becomes the previous generation
    assert (path.read_bytes(), previous(path).read_bytes()) == (b"four", b"two")
    path.unlink()
    assert read_generations(path, good, said.append) == b"two" and len(said) == 2


def test_where_both_generations_are_bad_both_are_named_and_nothing_is_touched(tmp_path):
    path = tmp_path / "state"
    generations(path, b"one", b"two")
    for file in (path, previous(path)):
        file.write_bytes(b"bad")
    with pytest.raises(Damaged, match=r"state = 'x': is damaged; the generation before it, previous-state: is damaged\n  hint"):
        read_generations(path, good, lambda line: None)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["previous-state", "state"]


def test_generations_are_kept_also_where_there_are_no_hard_links(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", lambda *names: (_ for _ in ()).throw(OSError("no links here")))
    generations(tmp_path / "state", b"one", b"two")
    assert ((tmp_path / "state").read_bytes(), (tmp_path / "previous-state").read_bytes()) == (b"two", b"one")


@pytest.mark.parametrize(
    "tree",
    [
        {"w": np.zeros((3, 4)), "b": jnp.zeros(4, jnp.bfloat16), 'é"\n\x7f': np.int8(3), "key": keys.root(3)},
        {str(n): np.zeros(n, dtype) for n, dtype in enumerate(named_arrays.TYPES)},
        [np.zeros(10**k, np.uint8) for k in range(6)],
        {"half": np.zeros(3, ml_dtypes.bfloat16), "none": np.zeros((5, 0)), "scalar": np.float32(1)},
    ],
)
def test_the_length_of_a_message_is_computed_exactly(tree):
    assert named_arrays.size(tree) == len(named_arrays.encode(tree))


def test_measuring_a_message_of_a_hundred_gigabytes_takes_no_memory():
    shapes = {"w": jax.ShapeDtypeStruct((25_000_000_000,), np.float32), "b": jax.ShapeDtypeStruct((), np.float32)}
    tracemalloc.start()
    length = named_arrays.size(shapes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    header = '{"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]},' + (
        '"w":{"dtype":"F32","shape":[25000000000],"data_offsets":[4,100000000004]}}'
    )
    assert length == 8 + -(-len(header) // 8) * 8 + 100_000_000_004 and peak < 1_000_000


def test_a_type_that_cannot_be_stored_is_refused_by_name():
    with pytest.raises(FedtierError, match="complex128"), warnings.catch_warnings():
        named_arrays.size({"z": np.zeros(2, np.complex128)})
