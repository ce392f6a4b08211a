"""Messages as bytes: there and back, and nothing else gets in."""

import json
from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fedtier import keys
from fedtier.errors import FedtierError
from fedtier.storage import named_arrays


class Message(NamedTuple):
    x: object
    own: object


DTYPES = [np.float32, np.float64, np.float16, np.int8, np.int32, np.int64, np.uint8, np.uint32, np.bool_]
leaves = st.sampled_from(DTYPES).flatmap(
    lambda dtype: arrays(dtype, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
words = st.text("abcdefgh_", min_size=1, max_size=6)
messages = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(words, inner, max_size=3)
        | st.tuples(inner)
        | st.builds(Message, inner, inner)
    ),
    max_leaves=8,
)


def assert_same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and np.asarray(a).tobytes() == np.asarray(b).tobytes()


@settings(max_examples=150, deadline=None)
@given(messages)
def test_a_message_comes_back_bit_for_bit_and_has_the_predicted_size(message):
    data = named_arrays.encode(message)
    assert_same(named_arrays.decode(data, like=message), message)
    assert named_arrays.size(message) == (len(data) if jax.tree.leaves(message) else 0)


def test_device_arrays_half_precision_and_keys_come_back_too():
    message = Message({"w": jnp.ones((2, 3), jnp.bfloat16), "n": jnp.asarray(3)}, keys.at(keys.root(5), 1))
    out = named_arrays.decode(named_arrays.encode(message), like=message)
    assert out.x["w"].dtype == ml_dtypes.bfloat16 and int(out.x["n"]) == 3
    np.testing.assert_array_equal(jax.random.uniform(out.own, (4,)), jax.random.uniform(message.own, (4,)))
    assert named_arrays.size(message) == len(named_arrays.encode(message))


def test_shapes_alone_are_enough_to_know_the_size_and_to_decode():
    message = Message(jnp.ones((5, 2)), keys.root(0))
    shapes = jax.eval_shape(lambda: message)
    data = named_arrays.encode(message)
    assert named_arrays.size(shapes) == len(data)
    np.testing.assert_array_equal(named_arrays.decode(data, like=shapes).x, np.ones((5, 2)))


def test_arrays_that_are_not_contiguous_are_written_in_order():
    a = np.arange(12.0).reshape(3, 4).T[::2]
    np.testing.assert_array_equal(named_arrays.decode(named_arrays.encode(a), like=a), a)


def test_a_message_is_a_safetensors_file_with_readable_names():
    arrays = safetensors.numpy.load(named_arrays.encode(Message({"w": np.ones(2)}, [np.zeros(1)])))
    assert sorted(arrays) == ["own.0", "x.w"]


def test_two_leaves_of_one_name_are_refused_rather_than_lost():
    with pytest.raises(FedtierError, match=r"a\.b"):
        named_arrays.encode({"a.b": np.ones(1), "a": {"b": np.zeros(1)}})


LIKE = Message({"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(3, np.int32)}, np.float32(2.0))


@pytest.mark.parametrize(
    "foreign",
    [
        Message({"w": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.int32)}, {"z": np.float32(0)}),  # another structure
        Message({"w": np.zeros((3, 2), np.float32), "b": np.zeros(3, np.int32)}, np.float32(0)),  # another shape
        Message({"w": np.zeros((2, 3), np.int32), "b": np.zeros(3, np.int32)}, np.float32(0)),  # another type
        Message({"w": np.zeros((2, 3), np.float32)}, np.float32(0)),  # one missing
        Message(
            {"w": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.int32), "c": np.ones(1)}, np.float32(0)
        ),  # one too many
        Message({"w": np.zeros((2000, 3), np.float32), "b": np.zeros(3, np.int32)}, np.float32(0)),  # far too large
        (),
    ],
)
def test_messages_of_another_kind_are_refused(foreign):
    with pytest.raises(FedtierError):
        named_arrays.decode(named_arrays.encode(foreign), like=LIKE)


def refused_or_sound(data: bytes) -> bool:
    """True when refused; a message that is let in must fit exactly. Any other exception fails the test."""
    try:
        out = named_arrays.decode(data, like=LIKE)
    except FedtierError:
        return True
    assert jax.tree.structure(out) == jax.tree.structure(LIKE)
    assert [(a.shape, a.dtype) for a in jax.tree.leaves(out)] == [(a.shape, a.dtype) for a in jax.tree.leaves(LIKE)]
    return False


def test_every_truncation_and_every_extension_is_refused():
    data = named_arrays.encode(LIKE)
    assert all(refused_or_sound(data[:end]) for end in range(len(data)))
    assert all(refused_or_sound(data + b"\0" * extra) for extra in (1, 8, 2000))


def test_thousands_of_damaged_messages_are_refused_or_fit_exactly():
    data, rng = named_arrays.encode(LIKE), np.random.default_rng(0)
    body = 8 + int.from_bytes(data[:8], "little")
    refused = 0
    for _ in range(3000):
        damaged = bytearray(data)
        for position in rng.integers(0, body, rng.integers(1, 4)):
            damaged[position] = rng.integers(256)
        refused += refused_or_sound(bytes(damaged))
    assert refused > 2500


def test_garbage_is_refused():
    rng = np.random.default_rng(1)
    assert all(refused_or_sound(rng.bytes(int(size))) for size in rng.integers(0, 300, 1000))


@pytest.mark.parametrize(
    "header",
    [
        {"own": {"dtype": "F32", "shape": [1 << 60], "data_offsets": [0, 4]}},
        {"own": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
        {"own": {"dtype": "F32", "shape": [], "data_offsets": [4, 0]}},
        {"own": {"dtype": "pickle", "shape": [], "data_offsets": [0, 4]}},
        {"own": {"dtype": "F32", "shape": [], "data_offsets": [0, 1 << 62]}},
        [],
        "own",
        None,
    ],
)
def test_a_lying_header_is_refused(header):
    text = json.dumps(header).encode()
    assert refused_or_sound(len(text).to_bytes(8, "little") + text + b"\0" * 4)
    assert refused_or_sound((1 << 63).to_bytes(8, "little") + text)
