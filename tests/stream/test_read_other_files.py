"""Streams from files that other programs write, and from several files."""

import gzip
import struct
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.io

import mlat
from mlat import InputError, Stream, StreamClassifier, read_stream
from mlat.base.errors import MissingPackageError
from mlat.stream.read import read_channels
from mlat.synthetic import rotating_states

MATLABS = Path(scipy.io.__file__).parent / "matlab" / "tests" / "data"


@pytest.fixture(scope="module")
def stream():
    return rotating_states(run_length=30, n_channels=2).with_channels(["ax", "ay"])


@pytest.fixture(scope="module")
def frame(stream):
    return pl.DataFrame(
        {"ax": stream.values[:, 0], "ay": stream.values[:, 1], "state": stream.states}
    )


def same(found, stream):
    assert found.channels == stream.channels
    np.testing.assert_array_equal(found.values, stream.values)
    np.testing.assert_array_equal(found.states, stream.states)


# ------------------------------------------------------------------ Arrow


@pytest.mark.parametrize("name", ["walk.feather", "walk.arrow", "walk.ipc"])
def test_arrow_files_that_polars_writes(tmp_path, frame, stream, name):
    frame.write_ipc(tmp_path / name, compression="zstd")
    same(read_stream(tmp_path / name, label="state"), stream)


def test_arrow_without_a_footer(tmp_path, frame, stream):
    frame.write_ipc_stream(tmp_path / "walk.arrow")
    same(read_stream(tmp_path / "walk.arrow", label="state"), stream)


def test_a_file_that_is_none(tmp_path):
    (tmp_path / "walk.feather").write_text("ax,ay\n1,2\n")
    with pytest.raises(InputError, match=r"walk\.feather cannot be read as .feather"):
        read_stream(tmp_path / "walk.feather")
    (tmp_path / "walk.docx").write_text("ax,ay\n1,2\n")
    with pytest.raises(InputError, match=r"no known kind; its name must end in .*\.xdf"):
        read_stream(tmp_path / "walk.docx")


def test_a_partitioned_table(tmp_path, frame, stream):
    """Folders that say the value of a column, as Spark, Dask and polars write them."""
    people = np.repeat(["adam", "eve"], len(stream) // 2)
    for person in ("adam", "eve"):
        folder = tmp_path / "walks" / f"subject={person}"
        folder.mkdir(parents=True)
        frame.filter(pl.Series(people == person)).write_parquet(folder / "part-0.parquet")
    found = read_stream(tmp_path / "walks", label="state")
    same(found, stream)
    assert found.recordings.tolist() == people.tolist()
    assert "column 'subject' is taken as the recording" in found.notes


def test_a_table_in_parts_is_one_recording(tmp_path, frame, stream):
    folder = tmp_path / "walk.parquet"
    folder.mkdir()
    frame[:100].write_parquet(folder / "part-0.parquet")
    frame[100:].write_parquet(folder / "part-1.parquet")
    found = read_stream(folder, label="state")
    same(found, stream)
    assert not found.gap_before.any()


# ------------------------------------------------------------------ several files


def write_parts(folder, frame):
    for name, part in (("b.csv", frame[100:]), ("a.csv", frame[:100])):
        part.write_csv(folder / name)


def test_folders_patterns_and_lists(tmp_path, frame, stream):
    folder = tmp_path / "walks"
    folder.mkdir()
    write_parts(folder, frame)
    (folder / ".hidden").write_text("no recording")
    expected = ["a.csv"] * 100 + ["b.csv"] * (len(stream) - 100)
    for source in (folder, f"{folder}/*.csv", [folder / "a.csv", folder / "b.csv"]):
        found = read_stream(source, label="state")
        same(found, stream)
        assert found.recordings.tolist() == expected
        assert np.flatnonzero(found.gap_before).tolist() == [0, 100]
    frames = read_stream([frame[:100], frame[100:].to_pandas()], label="state")
    assert frames.recordings.tolist() == ["0"] * 100 + ["1"] * (len(stream) - 100)


@pytest.mark.parametrize(
    ("source", "message"),
    [("*.nothing", "no file is called"), ("empty", "without files"), ([], "list is empty")],
)
def test_no_files(tmp_path, monkeypatch, source, message):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        read_stream(source)


def test_files_that_do_not_fit_together(tmp_path, frame):
    frame.write_csv(tmp_path / "a.csv")
    frame.rename({"ax": "bx"}).write_csv(tmp_path / "b.csv")
    with pytest.raises(InputError, match="only streams of the same channels"):
        read_stream(tmp_path, label="state")


def test_lists_of_recordings_in_python(stream):
    parts = [stream[:120], stream[120:]]
    clf = StreamClassifier(8, metric="euclidean").fit(parts)
    whole = StreamClassifier(8, metric="euclidean").fit(Stream.join(parts))
    expected = whole.predict(Stream.join(parts))
    np.testing.assert_array_equal(clf.predict(parts), expected)
    assert (expected[120:127] == "").all()
    arrays, states = [part.values for part in parts], [part.states for part in parts]
    again = StreamClassifier(8, metric="euclidean").fit(arrays, states)
    np.testing.assert_array_equal(again.predict(arrays), expected)
    with pytest.raises(InputError, match="2 recordings, but states of 1"):
        again.fit(arrays, states[:1])
    with pytest.raises(InputError, match="requires y"):
        again.fit(arrays)


# ------------------------------------------------------------------ frames


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_dates_in_the_index_are_the_time(stream, zone):
    index = pd.date_range("2024-05-31", periods=len(stream), freq="20ms", tz=zone)
    index = index[:100].append(index[100:] + pd.Timedelta("5s"))
    frame = pd.DataFrame(stream.values, columns=["ax", "ay"], index=index)
    for found in (Stream(frame, stream.states), read_stream(frame)):
        assert np.flatnonzero(found.gap_before).tolist() == [100]
        assert found.usual_step == pytest.approx(0.02)
        assert found.time[0] == np.datetime64("2024-05-31" if zone is None else "2024-05-30T22:00")
        assert "the index of the frame is taken as the time" in found.notes
    clf = StreamClassifier(8, metric="euclidean").fit(frame, stream.states)
    assert clf.usual_step_ == pytest.approx(0.02)
    assert (clf.predict(frame)[100:107] == "").all()
    by_column = Stream(frame.rename_axis("time").reset_index(), stream.states)
    np.testing.assert_array_equal(by_column.time, found.time)


def test_durations_in_the_index_and_a_time_beside_it(stream):
    index = pd.to_timedelta(np.arange(len(stream)) * 0.02, unit="s")
    frame = pd.DataFrame(stream.values, columns=["ax", "ay"], index=index)
    assert Stream(frame).usual_step == pytest.approx(0.02)
    assert Stream(frame, time=np.arange(len(stream))).usual_step == 1.0


def test_columns_by_name_and_others_ignored(stream):
    frame = pd.DataFrame(stream.values, columns=["ax", "ay"])
    clf = StreamClassifier(8, metric="euclidean").fit(frame, stream.states)
    other = frame[["ay", "ax"]].assign(battery=7.0, state=stream.states)
    with pytest.warns(UserWarning, match="2 columns are ignored: battery, state"):
        found = clf.predict(other)
    np.testing.assert_array_equal(found, clf.predict(frame))


# ------------------------------------------------------------------ text


def test_separators_and_decimal_commas(tmp_path, stream):
    """As a German Excel or R's write.csv2 writes it; pandas has the same."""
    frame = pd.DataFrame(stream.values, columns=["ax", "ay"]).assign(state=stream.states)
    for name in ("walk.csv", "walk.txt", "walk.csv.gz"):
        frame.to_csv(tmp_path / name, sep=";", decimal=",", index=False)
        same(read_stream(tmp_path / name, label="state", sep=";", decimal=","), stream)
    with gzip.open(tmp_path / "walk.csv.gz", "rt") as text:
        assert text.readline() == "ax;ay;state\n"


def test_wrong_separators_and_decimals(tmp_path):
    file = tmp_path / "walk.csv"
    file.write_text("ax;ay\n1,5;2\n3,5;4\n")
    with pytest.raises(InputError, match=r"say what separates them \(sep\)"):
        read_stream(file, sep="|")
    with pytest.raises(InputError, match=r"'1,5' is not a number; .*comma \(decimal\)"):
        read_stream(file, sep=";", decimal=".")
    for given in ({"sep": ";", "decimal": ","}, {"sep": ";"}, {}):
        assert read_stream(file, **given).values.tolist() == [[1.5, 2], [3.5, 4]]
    file.write_text("ax;ay\n1.5;2\n")
    with pytest.raises(InputError, match=r"line 2, column 'ax': '1\.5' is not a number"):
        read_stream(file, sep=";", decimal=",")
    for sep, decimal, message in (
        (";;", ".", "one character"),
        (",", ",", "must differ"),
        (";", "x", 'decimal must be "." or ","'),
    ):
        with pytest.raises(InputError, match=message):
            read_stream(file, sep=sep, decimal=decimal)


# ------------------------------------------------------------------ arrays


def test_numpy_files(tmp_path, stream):
    codes = stream.codes.astype(float)
    np.save(tmp_path / "walk.npy", np.column_stack([stream.values, codes]))
    found = read_stream(tmp_path / "walk.npy", label=-1)
    np.testing.assert_array_equal(found.values, stream.values)
    np.testing.assert_array_equal(found.states, stream.codes)
    assert read_stream(tmp_path / "walk.npy", label="2").states.tolist() == stream.codes.tolist()
    again = read_channels(tmp_path / "walk.npy", found.channels)  # as a model knows them
    np.testing.assert_array_equal(again.values, stream.values)
    np.savez(tmp_path / "walk.npz", X=stream.values, y=stream.states, rate=50.0)
    found = read_stream(tmp_path / "walk.npz", label="y")
    same(found.with_channels(["ax", "ay"]), stream)
    assert found.channels == ("X0", "X1")
    assert any("rate" in note for note in found.notes)
    fields = np.rec.fromarrays([*stream.values.T, stream.states], names="ax,ay,state")
    np.save(tmp_path / "fields.npy", np.asarray(fields))
    same(read_stream(tmp_path / "fields.npy", label="state"), stream)


def test_no_pickle_is_read(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "objects.npz", a=np.array([{}, {}], dtype=object))
    for name in ("objects.npy", "objects.npz"):
        with pytest.raises(InputError, match="Python objects, which are not read"):
            read_stream(tmp_path / name)
    (tmp_path / "text.npy").write_text("ax,ay\n")
    with pytest.raises(InputError, match=r"text\.npy cannot be read"):
        read_stream(tmp_path / "text.npy")
    np.save(tmp_path / "panel.npy", np.zeros((3, 4, 5)))
    with pytest.raises(InputError, match="a stream is"):
        read_stream(tmp_path / "panel.npy")


def test_matlab_files(tmp_path, stream):
    cells = np.array(stream.states, dtype=object)
    scipy.io.savemat(tmp_path / "walk.mat", {"X": stream.values, "state": cells, "rate": 50})
    found = read_stream(tmp_path / "walk.mat", label="state")
    same(found.with_channels(["ax", "ay"]), stream)
    letters = np.array([state.ljust(9) for state in stream.states])
    scipy.io.savemat(tmp_path / "letters.mat", {"X": stream.values, "state": letters})
    same(read_stream(tmp_path / "letters.mat", label="state").with_channels(["ax", "ay"]), stream)


@pytest.mark.skipif(not MATLABS.exists(), reason="this SciPy is without its tests")
def test_files_that_matlab_wrote():
    for version in ("4.2c_SOL2", "6.1_SOL2", "7.4_GLNX86"):
        found = read_stream(MATLABS / f"testdouble_{version}.mat")
        assert found.channels == ("testdouble",)
        np.testing.assert_allclose(found.values[:, 0], np.arange(9) * np.pi / 4)


@pytest.mark.skipif(not MATLABS.exists(), reason="this SciPy is without its tests")
def test_a_file_of_version_73_that_matlab_wrote():
    pytest.importorskip("h5py")
    found = read_stream(MATLABS / "testhdf5_7.4_GLNX86.mat")
    assert found.channels == ("testdouble",)
    np.testing.assert_allclose(found.values[:, 0], np.arange(9) * np.pi / 4)


def test_files_of_version_73(tmp_path, stream):
    hdf5storage = pytest.importorskip("hdf5storage")
    states = np.array(stream.states, dtype=object)
    content = {"X": stream.values, "state": states, "rate": 50, "nested": {"a": 1}}
    hdf5storage.savemat(str(tmp_path / "walk.mat"), content, format="7.3")
    found = read_stream(tmp_path / "walk.mat", label="state")
    same(found.with_channels(["ax", "ay"]), stream)
    assert any("rate" in note and "nested" in note for note in found.notes)
    damaged = (tmp_path / "walk.mat").read_bytes()[:3000]
    (tmp_path / "cut.mat").write_bytes(damaged)
    with pytest.raises(InputError, match=r"cut\.mat cannot be read as .mat"):
        read_stream(tmp_path / "cut.mat", label="state")


@pytest.mark.skipif(not MATLABS.exists(), reason="this SciPy is without its tests")
def test_without_h5py_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingPackageError, match=r"version 7\.3.*mlat\[mat73\]"):
        read_stream(MATLABS / "testhdf5_7.4_GLNX86.mat")


# ------------------------------------------------------------------ MNE


@pytest.fixture
def raw(stream):
    mne = pytest.importorskip("mne")
    info = mne.create_info(["ax", "ay"], 50.0, "misc")
    made = mne.io.RawArray(stream.values.T, info, verbose="error")
    runs = [(start / 50, (stop - start) / 50, code) for start, stop, code in stream.runs]
    onset, duration, code = zip(*runs, strict=True)
    made.set_annotations(mne.Annotations(onset, duration, [str(stream.classes[c]) for c in code]))
    return made


def test_a_recording_of_mne(raw, stream):
    found = read_stream(raw, label="annotation")
    same(found, stream)
    assert found.usual_step == pytest.approx(0.02)
    assert not read_stream(raw).labelled.any()


@pytest.mark.parametrize("dated", [False, True])
def test_annotations_of_a_part(raw, stream, dated):
    """MNE counts the time of annotations from the start of the measurement."""
    if dated:
        raw.set_meas_date(1_700_000_000)
    part = raw.copy().crop(tmin=1.0)
    same(read_stream(part, label="annotation"), stream[50:])


def test_bad_parts_are_missing_and_moments_no_states(raw):
    raw.annotations.append([0.2, 1.0], [0.1, 0.0], ["BAD_move", "click"])
    found = read_stream(raw, label="annotation")
    assert np.flatnonzero(found.missing).tolist() == [10, 11, 12, 13, 14]
    assert any("without a duration" in note for note in found.notes)
    assert "click" not in found.classes


def test_fif_and_edf_files(tmp_path, raw, stream):
    raw.save(tmp_path / "walk_raw.fif", verbose="error", fmt="double")
    same(read_stream(tmp_path / "walk_raw.fif", label="annotation"), stream)
    edfio = pytest.importorskip("edfio")
    signals = [
        edfio.EdfSignal(column, 50, label=name, physical_range=(-20, 20))
        for name, column in zip(stream.channels, stream.values.T, strict=True)
    ]
    notes = [
        edfio.EdfAnnotation(start / 50, (stop - start) / 50, str(stream.classes[code]))
        for start, stop, code in stream.runs
    ]
    edfio.Edf(signals, annotations=notes, data_record_duration=1.6).write(tmp_path / "walk.edf")
    found = read_stream(tmp_path / "walk.edf", label="annotation")
    assert found.channels == stream.channels
    np.testing.assert_array_equal(found.states[: len(stream)], stream.states)
    np.testing.assert_allclose(found.values[: len(stream)], stream.values, atol=40 / 2**15)
    (tmp_path / "text.edf").write_text("ax,ay\n")
    with pytest.raises(InputError, match=r"text\.edf cannot be read as .edf"):
        read_stream(tmp_path / "text.edf")


def test_bdf_files_that_mne_writes(tmp_path, raw, stream):
    pytest.importorskip("edfio")
    import mne

    volts = raw.copy().apply_function(lambda values: values * 1e-6, picks="all")
    volts.set_channel_types(dict.fromkeys(volts.ch_names, "eeg"), verbose="error")
    mne.export.export_raw(tmp_path / "walk.bdf", volts, physical_range=(-200, 200), verbose="error")
    found = read_stream(tmp_path / "walk.bdf", label="annotation")
    assert found.channels == stream.channels
    np.testing.assert_array_equal(found.states[: len(stream)], stream.states)
    np.testing.assert_allclose(1e6 * found.values[: len(stream)], stream.values, atol=400 / 2**23)


def test_what_mne_knows_to_be_no_sensor_is_left_out(tmp_path, stream):
    mne = pytest.importorskip("mne")
    kinds = {"C3": "eeg", "pulse": "ecg", "C4": "eeg", "STI 014": "stim", "room": "misc"}
    info = mne.create_info([*kinds], 50.0, [*kinds.values()])
    rows = np.tile(stream.values[:, 0], (5, 1))
    rows[3] = np.arange(len(stream)) // 30
    made = mne.io.RawArray(rows, info, verbose="error")
    made.info["bads"] = ["C4"]
    found = read_stream(made)
    assert found.channels == ("C3", "pulse")
    left = "STI 014 (trigger), room (misc), C4 (marked as bad): left out; to use them, name the"
    assert any(note.startswith(left) for note in found.notes)
    named = read_stream(made, channels=["C3", "C4"])
    assert named.channels == ("C3", "C4")
    assert "C4 (marked as bad): used, since they are named" in named.notes
    by_trigger = read_stream(made, label="STI 014", unlabelled=0, channels=["C3"])
    assert by_trigger.classes.tolist() == [1, 2, 3, 4, 5, 6, 7]
    made.info["bads"] = ["C3", "C4", "pulse"]
    with pytest.raises(InputError, match=r"no channel is a sensor: STI 014 \(trigger\), room"):
        read_stream(made)


def test_status_and_trigger_channels_of_edf_and_bdf(tmp_path, stream):
    pytest.importorskip("mne")
    edfio = pytest.importorskip("edfio")
    columns = {"ax": stream.values[:100, 0], "Status": np.ones(100), "STI 014": np.ones(100)}
    for suffix, (signal, file) in {
        "edf": (edfio.EdfSignal, edfio.Edf),
        "bdf": (edfio.BdfSignal, edfio.Bdf),
    }.items():
        signals = [
            signal(column, 50, label=name, physical_range=(-20, 20))
            for name, column in columns.items()
        ]
        file(signals).write(tmp_path / f"walk.{suffix}")
        found = read_stream(tmp_path / f"walk.{suffix}")
        assert found.channels == ("ax",)
        assert any("Status (trigger), STI 014 (trigger): left out" in note for note in found.notes)


def test_a_file_that_is_cut_is_told(tmp_path, stream):
    pytest.importorskip("mne")
    edfio = pytest.importorskip("edfio")
    signals = [edfio.EdfSignal(stream.values[:150, 0], 50, label="ax", physical_range=(-20, 20))]
    whole, cut = tmp_path / "whole.edf", tmp_path / "cut.edf"
    edfio.Edf(signals, data_record_duration=1).write(whole)
    assert len(read_stream(whole)) == 150
    assert not any("MNE" in note for note in read_stream(whole).notes)
    cut.write_bytes(whole.read_bytes()[:-150])
    found = read_stream(cut)
    assert len(found) == 50
    assert any("does not match the file size" in note for note in found.notes)
    cut.write_bytes(whole.read_bytes()[:-290])
    with pytest.raises(InputError, match=r"cut\.edf holds no steps"):
        read_stream(cut)


def test_epochs_are_recordings(tmp_path, stream):
    mne = pytest.importorskip("mne")
    info = mne.create_info(["ax", "ay", "STI 014"], 50.0, ["misc", "misc", "stim"])
    data = stream.values.reshape(8, 30, 2).transpose(0, 2, 1)
    data = np.concatenate([data, np.ones((8, 1, 30))], axis=1)
    events = np.column_stack([np.arange(8), np.zeros(8, int), np.tile([3, 7], 4)])
    made = mne.EpochsArray(data, info, events, event_id={"go": 3, "rest": 7}, verbose="error")
    made.save(tmp_path / "walk-epo.fif", verbose="error", fmt="double")
    for source in (made, tmp_path / "walk-epo.fif"):
        found = read_stream(source, label="event")
        assert found.channels == ("ax", "ay")
        np.testing.assert_array_equal(found.values, stream.values)
        assert found.states.tolist() == np.repeat(["go", "rest"] * 4, 30).tolist()
        assert np.flatnonzero(found.gap_before).tolist() == [*range(30, 240, 30)]
        assert found.usual_step == pytest.approx(0.02)
    twice = read_stream([made, made], label="event")
    assert len(twice) == 480
    with pytest.raises(InputError, match=r"EpochsArray of MNE; give mlat\.read_stream"):
        mlat.Stream(made)
    with pytest.raises(InputError, match="EvokedArray of MNE; give the Raw or the Epochs"):
        read_stream(made.average(picks="all"))
    with pytest.raises(InputError, match="Info of MNE"):
        read_stream(info)


# ------------------------------------------------------------------ XDF


def chunk(tag, content):
    """A chunk of the XDF specification: the length of its length, its length, its tag."""
    body = struct.pack("<H", tag) + content
    return b"\x04" + struct.pack("<I", len(body)) + body


def stream_chunks(number, name, labels, rate, time, rows, kind="double64", called="x"):
    kinds = {"code": "stim"}
    channels = "".join(
        f"<channel><label>{label}</label><type>{kinds.get(label, 'x')}</type></channel>"
        for label in labels
    )
    header = (
        f'<?xml version="1.0"?><info><name>{name}</name><type>{called}</type>'
        f"<channel_count>{max(len(labels), 1)}</channel_count><nominal_srate>{rate}</nominal_srate>"
        f"<channel_format>{kind}</channel_format><created_at>0</created_at>"
        f"<desc><channels>{channels}</channels></desc></info>"
    )
    samples = b""
    for at, row in zip(time, rows, strict=True):
        samples += b"\x08" + struct.pack("<d", at)
        if kind == "string":
            text = row.encode()
            samples += b"\x01" + struct.pack("<B", len(text)) + text
        else:
            samples += struct.pack(f"<{len(row)}d", *row)
    number = struct.pack("<I", number)
    count = b"\x04" + struct.pack("<I", len(time))
    return (
        chunk(2, number + header.encode())
        + chunk(3, number + count + samples)
        + chunk(6, number + b'<?xml version="1.0"?><info></info>')
    )


def write_xdf(path, stream, *more):
    time = 1000 + np.arange(len(stream)) / 50
    begins = np.flatnonzero(np.append(True, stream.codes[1:] != stream.codes[:-1]))
    marks = time[begins] - 0.005
    path.write_bytes(
        b"XDF:"
        + chunk(1, b'<?xml version="1.0"?><info><version>1.0</version></info>')
        + stream_chunks(1, "Watch", stream.channels, 50, time, stream.values)
        + stream_chunks(2, "Marks", ["m"], 0, marks, stream.states[begins], "string")
        + b"".join(more)
    )
    return path


def test_xdf_files(tmp_path, stream):
    pytest.importorskip("pyxdf")
    file = write_xdf(tmp_path / "walk.xdf", stream)
    found = read_stream(file, label="marker")
    same(found, stream)
    assert found.usual_step == pytest.approx(0.02)
    assert not read_stream(file).labelled.any()


def test_what_is_skipped_of_a_damaged_xdf_file_is_said(tmp_path, stream, capfd):
    """pyxdf skips it, and would log lines and tracebacks."""
    pytest.importorskip("pyxdf")
    file = write_xdf(tmp_path / "walk.xdf", stream)
    assert not any("pyxdf" in note for note in read_stream(file).notes)
    content = file.read_bytes()
    at = content.rindex(b"<?xml")
    for place, said in ((at - 11, "Error reading chunk length"), (at + 3, "found likely XDF file")):
        changed = bytearray(content)
        changed[place] = 0x13
        file.write_bytes(bytes(changed))
        try:
            notes = read_stream(file).notes
        except InputError:  # of a pyxdf that skips less
            continue
        assert any(f"pyxdf: {said}" in note for note in notes)
    assert capfd.readouterr() == ("", "")


def test_several_streams_in_an_xdf_file(tmp_path, stream):
    pytest.importorskip("pyxdf")
    other = stream_chunks(3, "Heart", ["pulse"], 1, np.arange(1000, 1009), np.ones((9, 1)))
    file = write_xdf(tmp_path / "walk.xdf", stream, other)
    with pytest.raises(
        InputError, match=r"2 streams of numbers; .*'Watch': ax, ay; 'Heart': pulse"
    ):
        read_stream(file)
    same(read_stream(file, label="marker", channels=["ax", "ay"]), stream)
    (tmp_path / "text.xdf").write_text("ax,ay\n")
    with pytest.raises(InputError, match=r"text\.xdf cannot be read as .xdf"):
        read_stream(tmp_path / "text.xdf")


def test_markers_that_are_numbers_and_triggers_in_an_xdf_file(tmp_path, stream):
    pytest.importorskip("pyxdf")
    time = 1000 + np.arange(len(stream)) / 50
    rows = np.column_stack([stream.values, np.ones((len(stream), 2))])
    names = [*stream.channels, "code", "TRIGGER"]
    file = tmp_path / "walk.xdf"
    file.write_bytes(
        b"XDF:"
        + chunk(1, b'<?xml version="1.0"?><info><version>1.0</version></info>')
        + stream_chunks(1, "Watch", names, 50, time, rows)
        + stream_chunks(2, "Keys", ["k"], 0, [1000.0, 1002.0], [[4.0], [7.0]], called="Markers")
    )
    found = read_stream(file, label="marker")
    assert found.channels == stream.channels
    assert any("code (trigger), TRIGGER (trigger): left out" in note for note in found.notes)
    assert found.states.tolist() == np.repeat(["4", "7"], [100, len(stream) - 100]).tolist()


def test_an_xdf_file_is_played(tmp_path, stream):
    pytest.importorskip("pyxdf")
    from mlat.live.sources.replay import read_recording

    other = stream_chunks(3, "Heart", ["pulse"], 1, np.arange(1000, 1009), np.ones((9, 1)))
    file = write_xdf(tmp_path / "walk.xdf", stream, other)
    steps = read_recording(file, stream.channels)
    np.testing.assert_array_equal(steps.values, stream.values)
    np.testing.assert_allclose(np.diff(steps.time), 0.02)


# ------------------------------------------------------------------ the command


def test_the_command_takes_them_all(tmp_path, stream, frame, monkeypatch):
    from cli_runs import run

    (tmp_path / "walks").mkdir()
    write_parts(tmp_path / "walks", frame)
    model = tmp_path / "walk.mlat"
    quick = ("--metric", "euclidean", "--width", "8", "--label", "state", "-o", model)
    run("fit", tmp_path / "walks", *quick)
    by_folder = mlat.load(model)
    run("fit", tmp_path / "walks" / "a.csv", tmp_path / "walks" / "b.csv", *quick)
    assert mlat.load(model).windows_.start.tolist() == by_folder.windows_.start.tolist()
    expected = by_folder.predict(stream)
    frame.write_ipc(tmp_path / "walk.feather")
    text = frame.to_pandas().to_csv(sep=";", decimal=",", index=False)
    (tmp_path / "walk.txt").write_text(text)
    for file, options in (("walk.feather", ()), ("walk.txt", ("--sep", ";", "--decimal", ","))):
        out, _ = run("predict", model, tmp_path / file, *options)
        assert [line.split(",")[-1] for line in out.splitlines()[1:]] == expected.tolist()


def test_standard_input(tmp_path, stream, frame):
    from typer.testing import CliRunner

    from mlat.cli import app

    model = tmp_path / "walk.mlat"
    StreamClassifier(8, metric="euclidean").fit(stream).save(model)
    expected = mlat.load(model).predict(stream)
    frame.write_parquet(tmp_path / "walk.parquet")
    for given in (frame.write_csv().encode(), (tmp_path / "walk.parquet").read_bytes()):
        result = CliRunner().invoke(app, ["predict", str(model), "-"], input=given)
        assert result.exit_code == 0, result.output
        rows = result.stdout.splitlines()[1:]
        assert [line.split(",")[-1] for line in rows] == expected.tolist()
    result = CliRunner().invoke(app, ["predict", str(model), "-"], input=b"ax,ay\n1,two\n")
    assert result.exit_code == 2
    assert result.stderr.startswith("mlat: standard input, line 2, column 'ay': 'two' is not")
