"""Files of arrays: ``.npy`` and ``.npz`` of numpy, ``.mat`` of MATLAB and Octave.

Nothing of these files is run: arrays of Python objects, which numpy stores as pickles, are refused.
What their readers raise becomes an `InputError` where files are opened (``file_format.reading``).
"""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import InputError, require_package
from .sources import most_unpacked, refuse_growth

# Types of elements and classes of variables in MATLAB files of version 5.
# Bytes of a number, by type.
_SIZES = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}
_WHOLE, _BYTES, _TEXTS = (5, 6), (1, 2, 16), (1, 2, 4, 16, 17, 18)
_MATRIX, _PACKED = 14, 15
_CELL, _STRUCT, _OBJECT, _CHAR, _SPARSE, _FUNCTION, _OPAQUE = 1, 2, 3, 4, 5, 16, 17
_DEPTH = 50

_Element = tuple[int, memoryview]


@dataclass(eq=False)
class ColumnsTable:
    """Columns by name that are arrays in memory.

    Attributes
    ----------
    name : str
        The file, for messages; empty for what is none.
    held : mapping of names to columns of T entries
    states : sequence of names
        Columns that can be the label and are never channels.
    notes : tuple of str
        What the user should know of how the file was read.
    left_out : mapping of names to reasons
        Columns that are channels only if they are named.
    """

    name: str
    held: Mapping[Any, Any]
    states: Sequence[str] = ()
    notes: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.columns: Sequence[Any] = list(self.held)

    def read(self, channels: Sequence[Any], roles: Mapping[Any, str]) -> dict[Any, Any]:
        return {name: self.held[name] for name in (*channels, *roles)}

    def where(self, steps: Sequence[int]) -> str:
        return f"{self.name}: " if self.name else ""


def read_npy(path: Path) -> NDArray[Any] | ColumnsTable:
    """The array of an ``.npy`` file; one with named fields as a table."""
    array = np.load(path, allow_pickle=False)
    if array.dtype.names:
        if array.ndim != 1:
            raise InputError(f"{path} holds records of shape {array.shape}; give one per step")
        return ColumnsTable(str(path), {name: array[name] for name in array.dtype.names})
    if array.ndim not in (1, 2):
        raise InputError(
            f"{path} holds an array of shape {array.shape}; a stream is (steps, channels), and "
            "windows are given to MLAT as they are"
        )
    if not len(array):
        raise InputError(f"{path} holds no steps")
    return array


def read_npz(path: Path) -> ColumnsTable:
    """The arrays of an ``.npz`` file: (T,) is a column, (T, d) are d columns ``name0``, …."""
    with zipfile.ZipFile(path) as stored:
        refuse_growth(path, sum(member.file_size for member in stored.infolist()))
    with np.load(path, allow_pickle=False) as stored:
        return _table(path, {name: stored[name] for name in stored.files})


def read_mat(path: Path) -> ColumnsTable:
    """The variables of a ``.mat`` file: vectors are columns, T x d matrices are d columns.

    Cells of texts are texts. Files of MATLAB's version 7.3 are HDF5, which needs h5py.

    Raises
    ------
    MissingPackageError
        If it is of version 7.3, and h5py is not installed.
    """
    from scipy.io import loadmat

    check_structure(path)
    try:
        stored = loadmat(path, chars_as_strings=True)
    except NotImplementedError:  # what SciPy says of version 7.3
        return _table(path, _of_hdf5(path))
    arrays = {name: value for name, value in stored.items() if not name.startswith("__")}
    return _table(path, {n: _vector(a) for n, a in arrays.items() if isinstance(a, np.ndarray)})


def _of_hdf5(path: Path) -> dict[str, NDArray[Any]]:
    """The variables of a MATLAB file of version 7.3; structures and the like are empty arrays."""
    h5py = require_package("h5py", "mat73", f"{path} is a MATLAB file of version 7.3; reading it")
    with h5py.File(path, "r") as file:
        found = {n: file[n] for n in file if not n.startswith("#")}
        refuse_growth(path, sum(getattr(one, "nbytes", 0) for one in found.values()))
        return {n: _of_dataset(file, one) for n, one in found.items()}


def _of_dataset(file: Any, found: Any) -> NDArray[Any]:
    kind = bytes(found.attrs.get("MATLAB_class", b"")).decode()
    if not hasattr(found, "dtype") or found.attrs.get("MATLAB_empty", 0):
        return np.empty(0)
    stored = found[()].T  # as MATLAB has it: columns come first in HDF5
    if kind == "char":
        return _vector(_texts(stored))
    if kind == "cell":
        entries = [file[reference] for reference in stored.ravel()]
        if any(bytes(entry.attrs.get("MATLAB_class", b"")) != b"char" for entry in entries):
            return np.empty(0)
        texts = [
            "" if entry.attrs.get("MATLAB_empty", 0) else str(_texts(entry[()].T)[0])
            for entry in entries
        ]
        return _vector(np.array(texts).reshape(stored.shape))
    return _vector(stored.astype(bool) if kind == "logical" else stored)


def _texts(letters: NDArray[Any]) -> NDArray[Any]:
    """A text for each row of letters (n, m), which are UTF-16 codes."""
    rows = np.atleast_2d(letters).astype("<u2")
    return np.array([row.tobytes().decode("utf-16-le", "replace") for row in rows])


def _vector(array: NDArray[Any]) -> NDArray[Any]:
    """A variable as numpy writes it: vectors have one axis, cells of texts are texts."""
    if array.ndim == 2 and 1 in array.shape:
        array = array.ravel()
    if array.dtype.kind == "O":
        entries = [entry.item() if np.size(entry) == 1 else "" for entry in array.ravel()]
        if all(isinstance(entry, str) for entry in entries):
            array = np.array(entries).reshape(array.shape)
    # A matrix of letters comes as texts with the spaces that fill them.
    return np.char.rstrip(array) if array.dtype.kind == "U" else array


def _table(path: Path, arrays: Mapping[str, NDArray[Any]]) -> ColumnsTable:
    usable = {n: a for n, a in arrays.items() if a.ndim in (1, 2) and a.dtype.kind in "iufbUM"}
    n_steps = max((len(array) for array in usable.values()), default=0)
    if not n_steps:
        raise InputError(f"{path} holds no array of steps; store (steps,) or (steps, channels)")
    columns: dict[str, NDArray[Any]] = {}
    for name, array in usable.items():
        if len(array) != n_steps:
            continue
        parts = (
            {name: array} if array.ndim == 1 else {f"{name}{i}": c for i, c in enumerate(array.T)}
        )
        for column, entries in parts.items():
            if column in columns:
                raise InputError(f"{path}: two arrays give a column {column!r}; rename one")
            columns[column] = entries
    left = [name for name in arrays if name not in usable or len(arrays[name]) != n_steps]
    note = f"not used, for they are not {n_steps} steps long: {', '.join(left)}"
    return ColumnsTable(str(path), columns, notes=(note,) if left else ())


# ------------------------------------------------------------------ damaged MATLAB files


def check_structure(path: Path) -> None:
    """Check a MATLAB file of version 5; files of other versions are not looked at.

    SciPy's compiled reader trusts it to be whole: a damaged length or type ends the process there,
    or asks for memory without end. So every element is followed here first: each must lie within
    the one around it, and be as long as its shape says.

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


def _elements(content: memoryview, order: str) -> Iterator[_Element]:
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


def _next(parts: Iterator[_Element], kinds: tuple[int, ...]) -> memoryview:
    kind, part = next(parts, (0, memoryview(b"")))
    if kind not in kinds:
        raise ValueError(f"an element of type {kind} stands where one of type {kinds[0]} belongs")
    return part
