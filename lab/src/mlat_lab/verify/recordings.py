"""Small recordings in every format that mlat reads, for the fuzzer.

Each is damaged as any file; a format that compresses what it holds is also damaged inside, so that
its checksums are right. What comes of it is `InputError`, or a stream.
"""

from __future__ import annotations

import gzip
import io
import random
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import scipy.io

from mlat.base.errors import require_package
from mlat.stream.pieces import read_pieces
from mlat.stream.read import read_stream
from mlat.synthetic import rotating_states

from .fuzz import Subject, damage

STREAM = rotating_states(run_length=8, runs_per_state=1, n_channels=2)
HDF5_PREAMBLE = b"MATLAB 7.3 MAT-file, fuzz".ljust(116) + bytes(8) + b"\x00\x02IM"
WITHOUT_STATES = (".npy", "4.mat", ".edf", ".fif", ".xdf", ".set")
Forge = Callable[[bytes, random.Random], bytes]


def make_recordings(folder: Path) -> list[Subject]:
    """A small file of each format; those that are read are written to ``folder``."""
    table = pa.table(
        {
            "ax": STREAM.values[:, 0].astype(np.float64),
            "ay": STREAM.values[:, 1].astype(np.float64),
            "state": STREAM.states,
            "time": np.arange(len(STREAM)) / 50,
        }
    )
    arrays: dict[str, Any] = {
        name: np.array(table[name].to_pylist()) for name in table.column_names
    }
    matrix = {"X": STREAM.values.astype(np.float64), "rate": np.array([50.0])}

    def made(write: Callable[[Any], Any]) -> bytes:
        held = io.BytesIO()
        write(held)
        return held.getvalue()

    def zipped(content: bytes, chance: random.Random) -> bytes:
        held = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as good, zipfile.ZipFile(held, "w") as new:
            chosen = chance.choice(good.infolist()).filename
            for one in good.infolist():
                part = good.read(one)
                new.writestr(
                    one, damage(part, chance) if one.filename == chosen else part, one.compress_type
                )
        return held.getvalue()

    def gzipped(content: bytes, chance: random.Random) -> bytes:
        return gzip.compress(damage(gzip.decompress(content), chance), 1)

    def deflated(content: bytes, chance: random.Random) -> bytes:
        """A MATLAB file of version 5 with one of its compressed variables damaged."""
        parts, at = [], 128
        while at < len(content):
            (length,) = struct.unpack_from("<I", content, at + 4)
            parts.append(zlib.decompress(content[at + 8 : at + 8 + length]))
            at += 8 + length
        chosen = chance.randrange(len(parts))
        parts[chosen] = damage(parts[chosen], chance)
        packed = [zlib.compress(part) for part in parts]
        return content[:128] + b"".join(struct.pack("<II", 15, len(p)) + p for p in packed)

    def parquet(compression: str) -> bytes:
        return made(lambda f: pa.parquet.write_table(table, f, compression=compression))

    csv = made(lambda f: pa.csv.write_csv(table, f))
    cells = matrix | {"state": STREAM.states.astype(object), "s": {"a": 1, "b": "x"}}
    mats = {
        "4": made(lambda f: scipy.io.savemat(f, matrix, format="4")),
        "5": made(lambda f: scipy.io.savemat(f, cells)),
    }
    packed = made(lambda f: scipy.io.savemat(f, cells, do_compression=True))
    records = np.empty(len(STREAM), [(name, array.dtype) for name, array in arrays.items()])
    for name, array in arrays.items():
        records[name] = array
    kinds: list[tuple[str, bytes, Forge]] = [
        (".csv", csv, damage),
        (".tsv", csv.replace(b",", b"\t"), damage),
        (".csv.gz", gzip.compress(csv), gzipped),
        ("snappy.parquet", parquet("snappy"), damage),
        ("plain.parquet", parquet("none"), damage),
        (".feather", made(lambda f: pa.feather.write_feather(table, f, "zstd")), damage),
        ("plain.arrow", made(lambda f: _write_arrow(table, f)), damage),
        (".npy", made(lambda f: np.save(f, matrix["X"])), damage),
        ("records.npy", made(lambda f: np.save(f, records)), damage),
        (".npz", made(lambda f: np.savez(f, **arrays)), zipped),
        ("packed.npz", made(lambda f: np.savez_compressed(f, **arrays)), zipped),
        ("4.mat", mats["4"], damage),
        ("5.mat", mats["5"], damage),
        ("packed.mat", packed, deflated),
        ("73.mat", _hdf5(), damage),
        (".edf", _edf(), damage),
        (".fif", _fif(), damage),
        (".xdf", _xdf(), damage),
        (".set", _set(), damage),
    ]
    subjects = []
    for name, content, forge in kinds:
        path = folder / f"recording{'' if name[0] == '.' else '-'}{name}"
        label = None if name in WITHOUT_STATES else "state"
        use, changed = partial(_read, path, label), partial(forge, content)
        subjects.append(Subject(f"recording {name}", content, changed, use, checksummed=False))
    return subjects


def _read(path: Path, label: str | None, content: bytes) -> None:
    """Read a file at once and in pieces."""
    path.write_bytes(content)
    stream = read_stream(path, label=label)
    names: Any = stream.channels if path.suffix != ".npy" or label else range(2)
    for piece in read_pieces(path, names, label=label):
        str(piece)


def _write_arrow(table: Any, file: Any) -> None:
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def _hdf5() -> bytes:
    h5py = require_package("h5py", "mat73", "the fuzzer")
    held = io.BytesIO()
    with h5py.File(held, "w", userblock_size=512) as file:
        found = file.create_dataset(
            "X", data=STREAM.values.T.astype(np.float64), chunks=(2, 8), compression="gzip"
        )
        found.attrs["MATLAB_class"] = np.bytes_("double")
        texts = file.create_group("#refs#")
        refs = []
        for i, text in enumerate(STREAM.states):
            one = texts.create_dataset(
                f"t{i}", data=np.frombuffer(text.encode("utf-16-le"), "<u2")[:, None]
            )
            one.attrs["MATLAB_class"] = np.bytes_("char")
            refs.append(one.ref)
        cells = file.create_dataset("state", data=np.array([refs], dtype=h5py.ref_dtype))
        cells.attrs["MATLAB_class"] = np.bytes_("cell")
    content = bytearray(held.getvalue())
    content[: len(HDF5_PREAMBLE)] = HDF5_PREAMBLE
    return bytes(content)


def _edf() -> bytes:
    """Two channels of 16 bits, in records of eight steps."""
    n, steps = 2, 8
    records = len(STREAM) // steps
    head = b"0".ljust(8) + b"X X X X".ljust(80) + b"Startdate X X X X".ljust(80)
    head += b"01.01.2001.01.01" + str(256 * (n + 1)).encode().ljust(8) + b" " * 44
    head += str(records).encode().ljust(8) + b"1".ljust(8) + str(n).encode().ljust(4)
    for texts, size in (
        ((b"ax", b"ay"), 16),
        ((b"", b""), 80),
        ((b"uV", b"uV"), 8),
        ((b"-9", b"-9"), 8),
        ((b"9", b"9"), 8),
        ((b"-32768", b"-32768"), 8),
        ((b"32767", b"32767"), 8),
        ((b"", b""), 80),
        ((b"8", b"8"), 8),
        ((b"", b""), 32),
    ):
        head += b"".join(text.ljust(size) for text in texts)
    whole = (STREAM.values * 3000).astype("<i2")[: records * steps]
    return head + whole.reshape(records, steps, n).transpose(0, 2, 1).tobytes()


def _fif() -> bytes:
    mne = require_package("mne", "mne", "the fuzzer", title="MNE")

    raw = mne.io.RawArray(
        STREAM.values.T, mne.create_info(["ax", "ay"], 50.0, "eeg"), verbose="error"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzz_raw.fif"
        raw.save(path, verbose="error")
        return path.read_bytes()


def _set() -> bytes:
    """As EEGLAB stores a recording: a structure of MATLAB."""
    n = len(STREAM)
    places = np.array(
        [("ax", 1.0, 0.0, 0.0), ("ay", 0.0, 1.0, 0.0)],
        dtype=[("labels", "O"), ("X", "O"), ("Y", "O"), ("Z", "O")],
    )
    eeg = {
        "nbchan": 2.0,
        "pnts": float(n),
        "trials": 1.0,
        "srate": 50.0,
        "xmin": 0.0,
        "xmax": (n - 1) / 50,
        "data": STREAM.values.T.astype(np.float32),
        "chanlocs": places,
        "event": np.empty(0),
        "epoch": np.empty(0),
        "icawinv": np.empty(0),
        "icasphere": np.empty(0),
        "icaweights": np.empty(0),
        "setname": "x",
        "ref": "common",
        "history": "",
        "saved": "yes",
    }
    held = io.BytesIO()
    scipy.io.savemat(held, {"EEG": eeg}, appendmat=False)
    return held.getvalue()


def _xdf() -> bytes:
    def chunk(tag: int, content: bytes) -> bytes:
        body = struct.pack("<H", tag) + content
        return b"\x04" + struct.pack("<I", len(body)) + body

    channels = "".join(f"<channel><label>{n}</label></channel>" for n in ("ax", "ay"))
    head = (
        '<?xml version="1.0"?><info><name>Watch</name><type>x</type>'
        "<channel_count>2</channel_count><nominal_srate>50</nominal_srate><channel_format>double64</channel_format>"
        f"<created_at>0</created_at><desc><channels>{channels}</channels></desc></info>"
    )
    steps = b"".join(
        b"\x08" + struct.pack("<3d", i / 50, *row) for i, row in enumerate(STREAM.values)
    )
    one = struct.pack("<I", 1)
    return (
        b"XDF:"
        + chunk(1, b'<?xml version="1.0"?><info><version>1.0</version></info>')
        + chunk(2, one + head.encode())
        + chunk(3, one + b"\x04" + struct.pack("<I", len(STREAM)) + steps)
        + chunk(6, one + b'<?xml version="1.0"?><info></info>')
    )
