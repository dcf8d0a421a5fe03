"""The sets of whole streams: where a copy is found, what is read, and what counts as the file."""

from __future__ import annotations

import csv
import hashlib
import io
import zipfile

import numpy as np
import pytest

from mlat import InputError
from mlat_lab.datasets import SETS, STREAM_SETS, load_scma, load_streams
from mlat_lab.datasets.files import manifest
from uci_copies import imitation_scma, one_line, write, zipped

ROOM = "a,b,recording,state\n1,2,01,\n3,4,01,0_people\n5,6,1,0_people\n7,,1,\n"


def room(place):
    return load_streams("room_occupancy", place, complete=False)["room"]


def assert_is_room(stream):
    np.testing.assert_array_equal(stream.values, [[1, 2], [3, 4], [5, 6], [7, np.nan]])
    assert stream.states.tolist() == ["", "0_people", "0_people", ""]
    assert stream.recordings.tolist() == ["01", "01", "1", "1"]
    assert stream.channels == ("a", "b")


def test_where_a_copy_is_found(tmp_path, monkeypatch):
    write(tmp_path / "plain", {"room_occupancy/room.csv": ROOM})
    assert_is_room(room(tmp_path / "plain"))
    assert_is_room(room(tmp_path / "plain" / "room_occupancy"))
    (tmp_path / "all" / "streams").mkdir(parents=True)
    packed = {"room_occupancy/room.csv": ROOM}
    path = zipped(tmp_path / "all" / "streams" / "room_occupancy.zip", packed)
    imitation_scma(tmp_path / "all" / "uci")
    for place in (path, tmp_path / "all" / "streams", tmp_path / "all"):
        assert_is_room(room(place))
    assert len(load_scma(tmp_path / "all", ["1"], complete=False)) == 1
    monkeypatch.delenv("MLAT_STREAMS", raising=False)
    monkeypatch.setenv("MLAT_DATA", str(tmp_path / "all"))
    assert_is_room(room(None))
    monkeypatch.setenv("MLAT_STREAMS", str(tmp_path / "plain"))
    monkeypatch.setenv("MLAT_DATA", str(tmp_path / "nowhere"))
    assert_is_room(room(None))
    with pytest.raises(InputError, match="no data at"):
        load_scma()


def test_a_file_without_recordings(tmp_path):
    write(tmp_path, {"room_occupancy/room.csv": "a,state\n1,x\n2,\n"})
    stream = room(tmp_path)
    assert stream.recordings is None
    assert stream.states.tolist() == ["x", ""]


@pytest.mark.parametrize(
    ("content", "complete", "says"),
    [
        (ROOM, True, "room.csv has a wrong checksum; get a fresh copy"),
        ("a,b\n1,2\n", False, "room.csv cannot be read (the table: no column 'state'"),
        ("a,state\n1,x,3\n", False, "room.csv cannot be read ("),
    ],
)
def test_another_file_is_one_line(tmp_path, content, complete, says):
    write(tmp_path, {"room_occupancy/room.csv": content})
    with pytest.raises(InputError) as error:
        load_streams("room_occupancy", tmp_path, complete=complete)
    assert says in one_line(error)


def test_unknown_sets_and_people(tmp_path):
    with pytest.raises(InputError, match="unknown data set 'scma'; there are emg_gestures, "):
        load_streams("scma", tmp_path)
    with pytest.raises(InputError, match="wisdm_watch has no person 'p1'; it has p1601, p1606"):
        load_streams("wisdm_watch", tmp_path, ["p1"])


def test_the_catalogue_and_the_manifest_agree():
    assert not set(SETS) & set(STREAM_SETS)
    for data_set in STREAM_SETS.values():
        files = list(manifest(data_set))
        assert [data_set.person_of(file) for file in files] == sorted(data_set.people)
        assert all(data_set.file_of(f"folder/{file}") == file for file in files)
        assert {file for pair in data_set.repeated.values() for file in pair} <= set(
            data_set.people
        )
        assert data_set.development == tuple(sorted(data_set.people)[::2])


def test_real_streams_are_those_of_the_files(streams_data):
    sums = (streams_data / "SHA256SUMS").read_text().split()
    for digest, name in zip(sums[::2], sums[1::2], strict=True):
        assert hashlib.sha256((streams_data / name).read_bytes()).hexdigest() == digest
    for name, data_set in STREAM_SETS.items():
        person = data_set.development[0]
        stream = load_streams(name, streams_data, [person])[person]
        with zipfile.ZipFile(streams_data / f"{name}.zip") as archive:
            text = archive.read(f"{name}/{person}.csv").decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        assert len(stream) == len(rows)
        assert stream.states.tolist() == [row["state"] for row in rows]
        if "recording" in rows[0]:
            assert stream.recordings.tolist() == [row["recording"] for row in rows]
        for at in (0, len(rows) // 2, -1):
            np.testing.assert_array_equal(
                stream.values[at], [float(rows[at][channel]) for channel in stream.channels]
            )
