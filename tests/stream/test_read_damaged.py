"""Files of other programs that are damaged, or made to do harm: one line that says which and why.

`python -m mlat_lab.verify fuzz --recordings` damages files of every format by the thousand.
"""

import gzip
import io
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.io

from mlat import InputError, read_stream
from mlat.base.errors import DiskError

X = np.arange(60.0).reshape(20, 3) % 7


def saved(write, *args, **kwargs):
    held = io.BytesIO()
    write(held, *args, **kwargs)
    return bytearray(held.getvalue())


def mat_of_another_type():
    """SciPy 1.17 ended the process: the numbers of X are of type 200, which there is not."""
    content = saved(scipy.io.savemat, {"X": X})
    (found,) = (
        i for i in range(128, len(content)) if content[i : i + 8] == b"\x09\0\0\0\xe0\1\0\0"
    )
    content[found] = 200
    return content


def mat_that_is_cut():
    return saved(scipy.io.savemat, {"X": X})[:300]


def set_of_another_type():
    return mat_of_another_type()


def npy_of_another_shape():
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 3), }".ljust(117)
    return b"\x93NUMPY\x01\0" + struct.pack("<H", 118) + header + b"\n" + X.tobytes()


def npy_with_an_open_bracket():
    return saved(np.save, X).replace(b"}", b" ")


def npz_with_another_checksum():
    content = saved(np.savez, X=X)
    content[400] ^= 1
    return content


def npz_that_grows():
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file, file.open("X.npy", "w") as one:
        one.write(b"\0" * (1 << 20))
    content = bytearray(held.getvalue())
    at = content.index(b"PK\1\2")
    content[at + 24 : at + 28] = struct.pack("<I", 1 << 30)  # its size, as the directory has it
    return content


def gz_that_grows():
    content = bytearray(gzip.compress(b"x,y\n1,2\n"))
    content[-4:] = struct.pack("<I", 1 << 30)
    return content


def arrow_with_texts_elsewhere():
    """Arrow ended the process: the texts lie beyond the end of the file."""
    table = pa.table({"X": X[:, 0], "state": ["walk"] * 20})
    content = saved(lambda f: pa.feather.write_feather(table, f, compression="uncompressed"))
    places = np.arange(0, 84, 4, dtype="<i4").tobytes()
    at = content.index(places)
    content[at : at + len(places)] = (np.arange(21, dtype="<i4") * 90_000_000).tobytes()
    return content


def parquet_with_another_page():
    table = pa.table({"X": X[:, 0], "state": ["walk"] * 20})
    content = saved(lambda f: pa.parquet.write_table(table, f))
    content[4:60] = bytes(56)
    return content


def fif_that_points_back():
    """MNE followed the parts of it for ever, and its list of them filled the memory."""
    first = struct.pack(">iIii", 100, 31, 20, 0) + bytes(20)
    return (
        first
        + struct.pack(">iIii", 101, 3, 4, 0)
        + struct.pack(">i", -1)
        + struct.pack(">iIii", 106, 3, 4, 36)
    )


@pytest.mark.parametrize(
    ("suffix", "make"),
    [
        (".mat", mat_of_another_type),
        (".mat", mat_that_is_cut),
        (".set", set_of_another_type),
        (".fif", fif_that_points_back),
        (".npy", npy_of_another_shape),
        (".npy", npy_with_an_open_bracket),
        (".npz", npz_with_another_checksum),
        (".npz", npz_that_grows),
        (".csv.gz", gz_that_grows),
        (".feather", arrow_with_texts_elsewhere),
        (".parquet", parquet_with_another_page),
    ],
)
def test_one_line_that_names_the_file(tmp_path, suffix, make):
    if suffix in (".set", ".fif"):
        pytest.importorskip("mne")
    path = tmp_path / f"walk{suffix}"
    path.write_bytes(make())
    with pytest.raises(InputError, match=r"damaged") as caught:
        read_stream(path, label="state" if suffix in (".feather", ".parquet") else None)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_file_that_may_not_be_read_is_the_disks_fault(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    np.save(tmp_path / "walk.npy", X)
    monkeypatch.setattr(np, "load", refuse)
    with pytest.raises(DiskError, match=r"walk\.npy cannot be read: Permission denied"):
        read_stream(tmp_path / "walk.npy")


def test_good_files_of_zeros_are_read(tmp_path):
    np.savez_compressed(tmp_path / "still.npz", X=np.zeros((100_000, 3)))
    assert len(read_stream(tmp_path / "still.npz")) == 100_000
