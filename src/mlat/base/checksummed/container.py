"""A header and arrays as bytes, every one of them under one checksum.

The bytes are safetensors. The header is JSON, the text ``mlat`` of its metadata. The array
``sha256`` comes last: the last 32 bytes are the SHA-256 of all that is before them. Nothing is
executed, and nothing is made that is larger than the bytes themselves.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from ..errors import InputError

Arrays = dict[str, NDArray[Any]]

_CHECKSUM, _CHECKSUM_SIZE = "sha256", 32
_LENGTH = struct.Struct("<Q")
_TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "U8": "|u1"}
MAX_HEADER = 4 << 20  # bytes; names of states and channels are all that makes it long


class Contents(NamedTuple):
    """What was read; ``intact`` is False for bytes of older versions, too."""

    header: dict[str, Any]
    arrays: Arrays
    intact: bool


def pack(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """A JSON header and arrays of 64-bit numbers as bytes, for :func:`unpack`."""
    tensors = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    # Safetensors puts the types of fewer bytes behind those of more.
    tensors[_CHECKSUM] = np.zeros(_CHECKSUM_SIZE, np.uint8)
    content = bytes(save(tensors, metadata={"mlat": json.dumps(header)}))[:-_CHECKSUM_SIZE]
    return content + hashlib.sha256(content).digest()


def is_intact(content: bytes) -> bool:
    """Whether the bytes end with the checksum of all that is before them."""
    body = memoryview(content)[:-_CHECKSUM_SIZE]
    return hashlib.sha256(body).digest() == content[-_CHECKSUM_SIZE:]


def unpack(content: bytes, foreign: str) -> Contents:
    """The header and the arrays in some bytes, of which the checksum is right if ``intact``.

    Parameters
    ----------
    content : bytes
    foreign : str
        What to say of bytes that were never packed, as "x.mlat is no model".

    Raises
    ------
    InputError
    """
    length = _LENGTH.unpack_from(content)[0] if len(content) >= _LENGTH.size else -1
    if not 0 < length <= min(len(content) - _LENGTH.size, MAX_HEADER):
        raise InputError(f"{foreign}, or it was cut short: it has {len(content)} bytes")
    try:
        outer = json.loads(content[_LENGTH.size : _LENGTH.size + length])
        header = json.loads(outer["__metadata__"]["mlat"])
        tensors = deserialize(content)  # type: ignore[no-untyped-call]
        arrays = {name: _as_array(tensor) for name, tensor in tensors}
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise InputError(f"{foreign}, or it was cut short ({_one_line(error)})") from None
    if not isinstance(header, dict):
        raise InputError(f"{foreign}: its header is no object")
    intact = arrays.pop(_CHECKSUM, None) is not None and is_intact(content)
    return Contents(header, arrays, intact)


def check_arrays(
    arrays: Arrays, expected: Mapping[str, tuple[str, tuple[int, ...]]], where: str
) -> None:
    """Refuse other arrays than those of these types and shapes, and any with NaN or infinity.

    Raises
    ------
    InputError
    """
    if set(arrays) != set(expected):
        raise InputError(
            f"{where}: it holds {', '.join(sorted(arrays))}, not {', '.join(sorted(expected))}"
        )
    for name, (dtype, shape) in expected.items():
        array = arrays[name]
        if array.dtype.name != dtype or array.shape != shape:
            raise InputError(
                f"{where}: {name} is {array.dtype.name} {array.shape}, not {dtype} {shape}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"{where}: {name} holds NaN or infinity")


def _as_array(tensor: Mapping[str, Any]) -> NDArray[Any]:
    array = np.frombuffer(tensor["data"], dtype=_TYPES[tensor["dtype"]])
    return array.reshape(tensor["shape"])


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
