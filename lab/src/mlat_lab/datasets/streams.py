"""The loader of the sets of whole streams: a `Stream` per person, with every switch it has."""

from __future__ import annotations

import io
import os

import pyarrow as pa
from pyarrow import csv

from mlat.base.errors import InputError
from mlat.stream.read import read_stream
from mlat.stream.stream import Stream

from .catalog import People, get_stream_set
from .files import SetFiles, describe, manifest, open_people

STATE, RECORDING = "state", "recording"


def load_streams(
    name: str,
    data: str | os.PathLike[str] | None = None,
    people: People = None,
    *,
    complete: bool = True,
) -> dict[str, Stream]:
    """Load one of the sets of streams.

    Parameters
    ----------
    name : str
        One of ``STREAM_SETS``.
    data : path, optional
        A zip of the set, its folder, or a folder with either; default MLAT_STREAMS, MLAT_DATA,
        else the cache folder.
    people : iterable of str, optional
        Only these; see ``STREAM_SETS[name].people``. Default all.
    complete : bool, default=True
        Require every file, each with the content it should have; False accepts other files of the
        same columns.

    Returns
    -------
    dict of str to Stream
        By person. A step without a state is unlabelled.
    """
    data_set = get_stream_set(name)
    with open_people(data_set, data, people, complete=complete) as (copy, files):
        return {person: _read(copy, file, complete) for person, (file,) in files.items()}


def _read(copy: SetFiles, file: str, complete: bool) -> Stream:
    content, where = copy.read(file), copy.where(file)
    if complete and describe(content) != manifest(copy.data_set).get(file):
        raise InputError(
            f"{where} has a wrong checksum; get a fresh copy, or load another file with "
            "complete=False"
        )
    try:
        table = csv.read_csv(
            io.BytesIO(content),
            read_options=csv.ReadOptions(use_threads=False),
            # Names, also where they look like numbers.
            convert_options=csv.ConvertOptions(
                column_types={STATE: pa.string(), RECORDING: pa.string()}
            ),
        )
        names = table.column_names
        recording = RECORDING if RECORDING in names else None
        channels = [name for name in names if name not in (STATE, RECORDING)]
        # Named, so that none is taken for a time or a row number.
        return read_stream(table, label=STATE, recording=recording, channels=channels)
    except (pa.ArrowInvalid, InputError) as error:
        raise InputError(f"{where} cannot be read ({error}); get a fresh copy") from None
