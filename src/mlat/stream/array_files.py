"""Files of arrays: ``.npy`` and ``.npz`` of numpy, ``.mat`` of MATLAB and Octave.

Nothing of these files is run: arrays of Python objects, which numpy stores as pickles, are refused.
What their readers raise becomes an `InputError` where files are opened (``file_format.reading``).
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import InputError, require_package
from .mat_structure import check_structure
from .sources import refuse_growth


class ColumnsTable:
    """Columns by name that are arrays in memory.

    Parameters
    ----------
    name : str
        The file, for messages; empty for what is none.
    columns : mapping of names to columns of T entries
    states : sequence of names
        Columns that can be the label and are never channels.
    notes : sequence of str
        What the user should know of how the file was read.
    left_out : mapping of names to reasons, optional
        Columns that are channels only if they are named.
    """

    def __init__(
        self,
        name: str,
        columns: Mapping[Any, Any],
        states: Sequence[str] = (),
        notes: Sequence[str] = (),
        left_out: Mapping[str, str] | None = None,
    ) -> None:
        self._name, self._columns = name, columns
        self.columns: Sequence[Any] = list(columns)
        self.states, self.notes = tuple(states), tuple(notes)
        self.left_out = dict(left_out or {})

    def read(self, channels: Sequence[Any], roles: Mapping[Any, str]) -> dict[Any, Any]:
        return {name: self._columns[name] for name in (*channels, *roles)}

    def where(self, steps: Sequence[int]) -> str:
        return f"{self._name}: " if self._name else ""


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
    return ColumnsTable(str(path), columns, notes=[note] if left else [])
