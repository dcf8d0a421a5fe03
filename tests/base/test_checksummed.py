"""A header and arrays come back from bytes, of which none can be changed."""

import contextlib
import hashlib
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from safetensors.numpy import load, save

from mlat.base.checksummed import check_arrays, pack, unpack
from mlat.base.errors import InputError

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
arrays = st.dictionaries(
    names.filter(lambda name: name not in ("sha256", "__metadata__")),
    arrays_of.arrays(st.sampled_from([np.float64, np.int64]), arrays_of.array_shapes(min_side=0)),
    max_size=4,
)


@given(st.dictionaries(names, st.integers(-5, 5) | names, max_size=4), arrays)
def test_what_is_intact_comes_back(header, given_):
    content = pack(header, given_)
    found = unpack(content, "no")
    assert found.intact
    assert found.header == header
    assert set(found.arrays) == set(given_)
    for name, array in given_.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)
    # Any reader of safetensors reads it, and the last bytes are the checksum of the others.
    assert set(load(content)) == {*given_, "sha256"}
    assert hashlib.sha256(content[:-32]).digest() == content[-32:]


GOOD = pack({"name": "0" * 64}, {"a": np.arange(3.0), "b": np.arange(4)})


def test_no_bit_can_be_changed():
    for place in range(8 * len(GOOD)):
        bad = bytearray(GOOD)
        bad[place // 8] ^= 1 << place % 8
        with contextlib.suppress(InputError):
            assert not unpack(bytes(bad), "no").intact


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"abc",
        bytes(40),
        struct.pack("<Q", 1 << 63) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 100_000) + b"[" * 100_000,
        save({}, metadata={"mlat": "[]"}),
        save({}, metadata={"mlat": "[" * 100_000}),
        save({}, metadata={"other": "{}"}),
        save({"x": np.zeros(3, np.float16)}, metadata={"mlat": "{}"}),
        GOOD[:-1],
        GOOD[:-40],
        GOOD + b"x",
    ],
)
def test_what_is_no_container_is_refused(content):
    with pytest.raises(InputError, match=r"^that is no model"):
        unpack(bytes(content), "that is no model")


def test_arrays_are_no_larger_than_the_bytes():
    """A table that promises more than there is."""
    (length,) = struct.unpack("<Q", GOOD[:8])
    table = json.loads(GOOD[8 : 8 + length])
    for shape, offsets in ([[1 << 40], [0, 1 << 43]], [[1 << 40], [0, 24]], [[0], [0, 0]]):
        table["a"] = {"dtype": "F64", "shape": shape, "data_offsets": offsets}
        text = json.dumps(table).encode()
        body = struct.pack("<Q", len(text)) + text + GOOD[8 + length : -32]
        with pytest.raises(InputError):
            unpack(body + hashlib.sha256(body).digest(), "no")


def test_arrays_are_checked():
    found = {"a": np.zeros((2, 3)), "b": np.zeros(2, np.int64)}
    wanted = {"a": ("float64", (2, 3)), "b": ("int64", (2,))}
    check_arrays(found, wanted, "x")
    for change, message in [
        ({"a": np.zeros((3, 2))}, r"a is float64 \(3, 2\), not float64 \(2, 3\)"),
        ({"b": np.zeros(2)}, "b is float64"),
        ({"a": np.full((2, 3), np.nan)}, "a holds NaN"),
        ({"c": np.zeros(1)}, "it holds a, b, c, not a, b"),
    ]:
        with pytest.raises(InputError, match=message):
            check_arrays(found | change, wanted, "x")
