"""Whether a MATLAB file of version 5 is whole, as SciPy's compiled reader trusts it to be.

A damaged length or type ends the process there, or asks for memory without end. So every element is
followed here first: each must lie within the one around it, and be as long as its shape says.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from .sources import most_unpacked

_SIZES = {
    1: 1,
    2: 1,
    3: 2,
    4: 2,
    5: 4,
    6: 4,
    7: 4,
    9: 8,
    12: 8,
    13: 8,
}  # bytes of a number, by type
_WHOLE, _BYTES, _TEXTS = (5, 6), (1, 2, 16), (1, 2, 4, 16, 17, 18)
_MATRIX, _PACKED = 14, 15
_CELL, _STRUCT, _OBJECT, _CHAR, _SPARSE, _FUNCTION, _OPAQUE = 1, 2, 3, 4, 5, 16, 17
_DEPTH = 50

Element = tuple[int, memoryview]


def check_structure(path: Path) -> None:
    """Check a file of version 5; files of other versions are not looked at.

    Raises
    ------
    ValueError
        If it is damaged.
    """
    content = memoryview(path.read_bytes())
    order = {b"IM": "<", b"MI": ">"}.get(bytes(content[126:128]))
    if order is None or content[125 if order == "<" else 124] != 1:
        return
    most = most_unpacked(len(content))
    for kind, part in _elements(content[128:], order):
        if kind == _PACKED:
            inflate = zlib.decompressobj()
            part = memoryview(inflate.decompress(part, most))
            most -= len(part)
            if most <= 0:
                raise ValueError("it unpacks to far more than the file")
            _, part = next(_elements(part, order), (0, part))
        _check_matrix(part, order, 0)


def _elements(content: memoryview, order: str) -> Iterator[Element]:
    """The elements one after the other: the type of each, and its bytes."""
    at = 0
    while at + 8 <= len(content):
        kind, n = struct.unpack_from(f"{order}II", content, at)
        begin = at + 8
        if kind >> 16 and kind >> 16 <= 4:  # a short one, within its own eight bytes
            kind, n, begin = kind & 0xFFFF, kind >> 16, at + 4
        if begin + n > len(content):
            raise ValueError("an element is cut off")
        yield kind, content[begin : begin + n]
        at = begin + n if kind == _PACKED else begin + n + -n % (4 if begin == at + 4 else 8)


def _check_matrix(content: memoryview, order: str, depth: int) -> None:
    if not content and depth:
        return  # of an empty cell
    if depth > _DEPTH:
        raise ValueError("cells are in cells without end")
    parts = _elements(content, order)
    flags = _next(parts, _WHOLE)
    if len(flags) != 8:
        raise ValueError("a variable has no flags")
    (flag,) = struct.unpack_from(f"{order}I", flags)
    kind, is_complex = flag & 0xFF, flag >> 11 & 1
    if kind == _OPAQUE:
        for _ in range(3):
            _next(parts, _BYTES)
        _check_matrix(_next(parts, (_MATRIX,)), order, depth + 1)
        return
    lengths = _next(parts, _WHOLE)
    shape = struct.unpack(f"{order}{len(lengths) // 4}i", lengths[: len(lengths) // 4 * 4])
    if len(shape) < 2 or len(shape) > 32 or min(shape) < 0:
        raise ValueError(f"a variable has the shape {shape}")
    size = math.prod(shape)
    _next(parts, _BYTES)  # its name
    if kind in (_CELL, _STRUCT, _OBJECT, _FUNCTION):
        if kind == _OBJECT:
            _next(parts, _BYTES)
        if kind in (_STRUCT, _OBJECT):
            longest = _next(parts, _WHOLE)
            names = _next(parts, _BYTES)
            (length,) = struct.unpack(f"{order}i", longest)
            if length < 1 or len(names) % length:
                raise ValueError("a structure has no names of fields")
            size *= len(names) // length
        for _ in range(1 if kind == _FUNCTION else size):
            _check_matrix(_next(parts, (_MATRIX,)), order, depth + 1)
    elif kind == _CHAR:
        text = _next(parts, _TEXTS)
        if size > max(len(text), 1 << 16):  # SciPy fills a text that is not there with spaces
            raise ValueError("a text is shorter than its shape")
    elif kind == _SPARSE:
        for _ in range(2):
            _next(parts, _WHOLE)
        for _ in range(1 + is_complex):
            _next(parts, tuple(_SIZES))
    elif 6 <= kind <= 15:
        for _ in range(1 + is_complex):
            kind, part = next(parts, (0, content[:0]))
            if len(part) != size * _SIZES.get(kind, math.inf):
                raise ValueError(
                    f"a variable of shape {shape} has {len(part)} bytes of type {kind}"
                )
    else:
        raise ValueError(f"a variable is of class {kind}")


def _next(parts: Iterator[Element], kinds: tuple[int, ...]) -> memoryview:
    kind, part = next(parts, (0, memoryview(b"")))
    if kind not in kinds:
        raise ValueError(f"an element of type {kind} stands where one of type {kinds[0]} belongs")
    return part
