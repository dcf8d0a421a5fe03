"""A header and arrays as bytes, every one of them under one checksum.

The bytes are safetensors. The header is JSON, the text ``mlat`` of its metadata. The array
``sha256`` comes last: the last 32 bytes are the SHA-256 of all that is before them. Nothing is
executed, and nothing is made that is larger than the bytes themselves.

What the fields of a header may hold is a table of kinds. A kind is a function of a value and of
where it is; it raises `InputError` where the value is of another kind. Kinds are put together as
the header is: :func:`record` and :func:`listed` are kinds of kinds. A header that its kind lets
pass holds no surprise for the code behind it.

>>> point = record({"x": number(), "tags": listed(TEXT)})
>>> point({"x": 1.5, "tags": ["a", 3]}, "the file is damaged")
Traceback (most recent call last):
    ...
mlat.base.errors.InputError: the file is damaged: tags[1] is 3, not a text
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from .checks import check_parameter, is_whole
from .errors import InputError

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


Kind = Callable[[Any, str], None]

LARGEST = 1 << 62  # of whole numbers: differences of two still fit in 64 bits
LARGEST_NUMBER = sys.float_info.max
_SHOWN = 60  # characters of a wrong value


def _kind(what: str, test: Callable[[Any], bool]) -> Kind:
    def check(value: Any, where: str) -> None:
        if not test(value):
            raise InputError(f"{where} is {_short(value)}, not {what}")

    return check


def ANYTHING(value: Any, where: str) -> None:  # noqa: N802
    """Any value at all; for what is checked elsewhere."""


def whole(low: int = -LARGEST, high: int = LARGEST) -> Kind:
    """A whole number from ``low`` to ``high``."""
    return _kind(
        f"a whole number from {low} to {high}",
        lambda value: is_whole(value) and low <= value <= high,
    )


def number(low: float = -LARGEST_NUMBER, high: float = LARGEST_NUMBER) -> Kind:
    """A finite number from ``low`` to ``high``; a whole one of no more than 64 bits."""
    return _kind(
        f"a number from {low:g} to {high:g}",
        lambda value: _is_plain(value) and low <= value <= high,
    )


def one_of(*values: str | int) -> Kind:
    return _kind(
        " or ".join(map(repr, values)),
        lambda value: (
            isinstance(value, str | int) and not isinstance(value, bool) and value in values
        ),
    )


def _is_plain(value: Any) -> bool:
    """Whether a number of JSON is one for numpy, too: Python's own have any number of digits."""
    return isinstance(value, float) or (is_whole(value) and abs(value) <= LARGEST)


def _is_text(value: Any) -> bool:
    # Half of a surrogate pair can be read from JSON, but not be written to any file.
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


TEXT = _kind("a text", _is_text)
NAME = _kind("a name", lambda value: _is_text(value) and value != "" and "\0" not in value)
NOTHING = _kind("null", lambda value: value is None)
FLAG = _kind("true or false", lambda value: isinstance(value, bool))
COUNT = whole(0)
SIZE = whole(1, 1 << 40)
# What was measured: it may be NaN or infinite, but can be printed.
MEASURED = _kind("a number", lambda value: _is_plain(value))


def optional(kind: Kind) -> Kind:
    """None, or of a kind."""

    def check(value: Any, where: str) -> None:
        if value is not None:
            kind(value, where)

    return check


def either(*kinds: Kind) -> Kind:
    """Of one of some kinds; the message is that of the last."""

    def check(value: Any, where: str) -> None:
        for kind in kinds[:-1]:
            try:
                return kind(value, where)
            except InputError:
                pass
        return kinds[-1](value, where)

    return check


def as_annotated(annotation: Any) -> Kind:
    """A parameter, as its annotation has it; see :func:`mlat.base.checks.check_parameter`."""
    plain = optional(either(FLAG, TEXT, number()))

    def check(value: Any, where: str) -> None:
        plain(value, where)
        check_parameter(value, where, annotation)

    return check


def listed(kind: Kind, least: int = 0, most: float = math.inf, *, different: bool = False) -> Kind:
    """A list of ``least`` to ``most`` entries of a kind; with ``different`` no two are equal."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, list):
            raise InputError(f"{where} is {_short(value)}, not a list")
        if not least <= len(value) <= most:
            raise InputError(f"{where} has {len(value)} entries")
        for i, entry in enumerate(value):
            kind(entry, f"{where}[{i}]")
        if different and len(set(value)) < len(value):
            raise InputError(f"{where} names one of its entries twice")

    return check


def row(*kinds: Kind) -> Kind:
    """A list with an entry of each kind."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, list) or len(value) != len(kinds):
            raise InputError(f"{where} is {_short(value)}, not a list of {len(kinds)} entries")
        for i, (kind, entry) in enumerate(zip(kinds, value, strict=True)):
            kind(entry, f"{where}[{i}]")

    return check


def mapped(names: Kind, kind: Kind, least: int = 0) -> Kind:
    """An object with names of one kind and values of another."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict) or len(value) < least:
            raise InputError(f"{where} is {_short(value)}, not an object")
        for name, entry in value.items():
            names(name, _inside(where, "a name"))
            kind(entry, _inside(where, name))

    return check


def record(needed: Mapping[str, Kind], may: Mapping[str, Kind] | None = None) -> Kind:
    """An object with every field of ``needed``, perhaps some of ``may``, and no other."""
    known = {**needed, **(may or {})}

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise InputError(f"{where} is {_short(value)}, not an object")
        for name in needed:
            if name not in value:
                raise InputError(f"{_inside(where, name)} is missing")
        for name, entry in value.items():
            if name not in known:
                raise InputError(f"{_inside(where, _short(name))} is not known")
            known[name](entry, _inside(where, name))

    return check


def chosen_by(name: str, kinds: Mapping[str, Kind]) -> Kind:
    """An object of the kind that its field ``name`` says."""
    choice = one_of(*kinds)

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise InputError(f"{where} is {_short(value)}, not an object")
        choice(value.get(name), _inside(where, name))
        kinds[value[name]](value, where)

    return check


def _inside(where: str, name: str) -> str:
    # The first level follows what is checked, as "walk.mlat is damaged".
    return f"{where}.{name}" if ": " in where else f"{where}: {name}"


def _short(value: Any) -> str:
    # Only a few: the value may be as long as the file.
    text = value[:_SHOWN] if isinstance(value, str) else value
    text = repr(text) if not isinstance(value, dict | list) else f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN + 2 else text[:_SHOWN] + "…"
