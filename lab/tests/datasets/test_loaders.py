"""The loaders on small files that imitate UCI's, quirks included, and on UCI's own if present."""

from __future__ import annotations

import numpy as np
import pytest

from mlat import InputError, sliding_windows
from mlat_lab.datasets import (
    PAPER_ACTIVITIES,
    SETS,
    load,
    load_arem,
    load_emg,
    load_scma,
    load_vicon,
)
from mlat_lab.datasets.files import manifest
from mlat_lab.datasets.loaders import SCMA_ACTIVITIES, bridge_short_losses, lost_to_nan
from uci_copies import EMG, SCMA, write

# ---------------------------------------------------------------- SCMA


def test_scma_label_zero_is_unlabelled_and_the_sequence_number_is_not_used(tmp_path):
    rows = ["99999,1,2,3,1", "1e+05,4,5,6,1", "1.0001e+05,7,8,9,5", "1.0001e+05,7,8,9,0"]
    write(tmp_path, {f"{SCMA}/4.csv": "\n".join(rows) + "\n"})
    stream = load_scma(tmp_path, complete=False)["4"]
    assert stream.channels == ("x", "y", "z")
    assert stream.states.tolist() == ["working at computer"] * 2 + ["going up/down stairs", ""]
    assert stream.time is None
    np.testing.assert_array_equal(stream.values[:3], [[1, 2, 3], [4, 5, 6], [7, 8, 9]])


def test_scma_unknown_label(tmp_path):
    write(tmp_path, {f"{SCMA}/1.csv": "0,1,2,3,1\n1,1,2,3,8\n"})
    with pytest.raises(InputError, match=r"1\.csv, row 2: label 8 is not one of 0 … 7"):
        load_scma(tmp_path, complete=False)


# ---------------------------------------------------------------- AReM

HEAD = (
    "# Task: bending1\n# Frequency (Hz): 20\n# Clock (millisecond): 250\n"
    "# Duration (seconds): 120\n"
    "# Columns: time,avg_rss12,var_rss12,avg_rss13,var_rss13,avg_rss23,var_rss23\n"
)


def arem_file(seed: int, n: int = 20, separator: str = ",", end: str = "\n") -> str:
    values = np.random.default_rng(seed).integers(0, 60, (n, 6))
    return HEAD + end.join(
        separator.join([str(250 * i), *(f"{v:.2f}" for v in row)]) for i, row in enumerate(values)
    )


def test_arem_comments_separators_and_the_two_bendings(tmp_path):
    write(
        tmp_path / "AReM",
        {
            "bending1/dataset1.csv": arem_file(1),
            "bending2/dataset10.csv": arem_file(2, separator=" "),
            "bending2/dataset4.csv": arem_file(3, separator=", ", end=" \n"),
            "cycling/dataset9.csv": arem_file(4, end=",\n") + ",\n",
            "standing/dataset5.csv": arem_file(5, end="\t\n"),
            "bendingType.pdf": "%PDF",
        },
    )
    (stream,) = load_arem(tmp_path, complete=False).values()
    assert stream.classes.tolist() == ["bending", "cycling", "standing"]
    names = list(dict.fromkeys(stream.recordings.tolist()))
    assert names == [
        "bending1/dataset1",
        "bending2/dataset4",
        "bending2/dataset10",
        "cycling/dataset9",
        "standing/dataset5",
    ]
    assert len(stream.runs) == 5
    assert stream.channels[0] == "avg_rss12"
    np.testing.assert_array_equal(
        stream.values[20:40], np.random.default_rng(3).integers(0, 60, (20, 6))
    )


def test_arem_a_lost_row_is_a_gap_that_no_window_crosses(tmp_path):
    lines = arem_file(8, n=20).split("\n")
    del lines[5 + 8]  # after five comments, the row of 2000 ms
    write(tmp_path / "AReM", {"sitting/dataset8.csv": "\n".join(lines)})
    (stream,) = load_arem(tmp_path, complete=False).values()
    assert [(a, b) for a, b, _ in stream.runs] == [(0, 8), (8, 19)]
    assert len(sliding_windows(stream, 5)) == 4 + 7


def test_arem_copies_are_dropped_once(tmp_path):
    almost = arem_file(1).replace("\n250,", "\n250,9", 1)  # one row of twenty differs
    write(
        tmp_path / "AReM",
        {
            "lying/dataset1.csv": arem_file(1),
            "lying/dataset2.csv": arem_file(2),
            "lying/dataset10.csv": almost,
            "lying/dataset15.csv": arem_file(1),
            "sitting/dataset1.csv": arem_file(1),  # the same values, another activity
        },
    )
    (stream,) = load_arem(tmp_path, complete=False).values()
    kept = list(dict.fromkeys(stream.recordings.tolist()))
    assert kept == ["lying/dataset1", "lying/dataset2", "sitting/dataset1"]
    (stream,) = load_arem(tmp_path, complete=False, drop_copies=False).values()
    assert len(stream) == 100


# ---------------------------------------------------------------- EMG


def test_emg_line_ends_tabs_and_joins(tmp_path):
    row = "\t".join(["-4000", "4000", "1", "2", "3", "4", "5", "6"])
    write(
        tmp_path / EMG,
        {
            "sub3/Normal/txt/Walking.txt": (row + "\r\n") * 5 + "\t\t\t\t\t\t\t\r\n",
            "sub3/Normal/txt/Bowing.txt": (row + "\r\n") * 4,
            "sub3/Aggressive/txt/Hamering.txt": (row + "\r\n") * 3,
            "sub3/Aggressive/log/Hamering.log": "Delsys",
            "readme.txt": "words",
        },
    )
    stream = load_emg(tmp_path, people=["3"], complete=False)["sub3"]
    assert stream.values.shape == (12, 8)
    assert stream.states.tolist() == ["Bowing"] * 4 + ["Walking"] * 5 + ["Hamering"] * 3
    assert dict.fromkeys(stream.recordings.tolist()).keys() == {
        "Normal/Bowing",
        "Normal/Walking",
        "Aggressive/Hamering",
    }
    assert len(sliding_windows(stream, 3, labelled=False)) == 2 + 3 + 1  # none crosses a join


def test_only_the_activities_asked_for_are_read(tmp_path):
    write(
        tmp_path / EMG,
        {
            "sub1/Normal/txt/Bowing.txt": "1 2 3 4 5 6 7 8\n",
            "sub1/Normal/txt/Running.txt": "not read",
            "sub2/Normal/txt/Running.txt": "1 2 3 4 5 6 7 8\n",
        },
    )
    five = PAPER_ACTIVITIES["emg"]
    stream = load("EMG", tmp_path, [1], activities=five, complete=False)["sub1"]
    assert stream.classes.tolist() == ["Bowing"]
    with pytest.raises(InputError, match="emg person sub2 has no recording of Bowing, Clapping"):
        load_emg(tmp_path, [2], activities=five, complete=False)


# ---------------------------------------------------------------- Vicon

VICON = SETS["vicon"].folder


def vicon_rows(n: int) -> np.ndarray:
    return 100.0 + np.arange(n)[:, None] + 10.0 * np.arange(27)


def vicon_file(values: np.ndarray) -> str:
    # A counter, one space between markers, two within, no line end after the last row.
    lines = []
    for i, row in enumerate(values):
        marker = ["  ".join(f"{v:.3f}" for v in row[j : j + 3]) for j in range(0, 27, 3)]
        lines.append(" ".join([str(i), *marker]))
    return "\n".join(lines)


def test_vicon_lost_markers(tmp_path):
    values = vicon_rows(60)
    values[5:15, 3:6] = 0  # ten steps: bridged
    values[30:41, 3:6] = 0  # eleven: stay lost
    values[57:, 6:9] = 0  # at the end: nothing to draw a line to
    write(tmp_path / VICON, {"sub2/normal/Running.txt": vicon_file(values)})
    write(tmp_path / VICON, {"sub2/normal/Walking.txt": vicon_file(vicon_rows(20))})
    stream = load_vicon(tmp_path, people=[2], complete=False)["sub2"]
    assert stream.channels[:4] == ("head_x", "head_y", "head_z", "left_elbow_x")
    np.testing.assert_allclose(stream.values[:30], vicon_rows(30))
    assert np.isnan(stream.values[30:41, 3:6]).all()
    assert np.isnan(stream.values[57:60, 6:9]).all()
    assert np.isnan(stream.values).sum() == 3 * (11 + 3)
    windows = sliding_windows(stream, 10)
    assert len(windows) == (30 - 9) + (57 - 41 - 9) + (20 - 9)
    assert not np.isnan(windows.X).any()
    none = load_vicon(tmp_path, people=[2], max_lost=0, complete=False)["sub2"]
    assert np.isnan(none.values[5:15, 3:6]).all()


def test_vicon_half_written_steps_beside_a_loss_are_lost_too():
    values = vicon_rows(9)[:, :6].copy()
    values[4:6, :3] = 0
    values[3, 0] = 0  # going: x is gone already
    values[6, 1:3] = 0  # coming back: y and z not yet there
    values[1, 4] = 0  # a position: nothing lost beside it
    result = lost_to_nan(values)
    assert np.isnan(result[3:7, :3]).all()
    assert np.isnan(result).sum() == 12
    assert result[1, 4] == 0
    np.testing.assert_allclose(bridge_short_losses(result, 4)[:, :3], vicon_rows(9)[:, :3])
    assert np.isnan(bridge_short_losses(result, 3)).sum() == 12


def test_vicon_a_loss_is_never_bridged_across_a_join(tmp_path):
    first, second = vicon_rows(10), vicon_rows(10)
    first[8:, :3] = 0
    second[:2, :3] = 0
    write(
        tmp_path / VICON,
        {
            "sub1/normal/Bowing.txt": vicon_file(first),
            "sub1/normal/Clapping.txt": vicon_file(second),
        },
    )
    stream = load_vicon(tmp_path, complete=False)["sub1"]
    assert np.isnan(stream.values[8:12, :3]).all()


def test_vicon_sub10_lacks_waving_and_its_worse_take_is_left_out(tmp_path):
    write(
        tmp_path / VICON,
        {
            "sub10/normal/Running.txt": vicon_file(vicon_rows(12)),
            "sub10/normal/Running  [worse].txt": vicon_file(vicon_rows(13)),
        },
    )
    five = PAPER_ACTIVITIES["vicon"]
    stream = load_vicon(tmp_path, activities=five, complete=False)["sub10"]
    assert len(stream) == 12
    assert stream.classes.tolist() == ["Running"]


# ---------------------------------------------------------------- UCI's own files


def test_real_scma(uci):
    streams = load_scma(uci)
    assert len(streams) == 15
    assert sum(len(s) for s in streams.values()) == 1_926_896
    assert sum(int((~s.labelled).sum()) for s in streams.values()) == 3_719
    assert all(len(s.classes) == 7 for s in streams.values())
    assert all(s.states[-1] == "" for s in streams.values())
    for stream in streams.values():
        order = [SCMA_ACTIVITIES.index(stream.classes[code]) for _, _, code in stream.runs]
        assert order == [1, 2, 3, 4, 3, 5, 3, 6, 7]


def test_real_arem(uci):
    (stream,) = load_arem(uci, drop_copies=False).values()
    assert len(stream) == 87 * 480 + 479
    assert len(set(stream.recordings.tolist())) == 88
    (stream,) = load_arem(uci).values()
    names = set(stream.recordings.tolist())
    assert len(names) == 81
    dropped = {"cycling/dataset15", *(f"lying/dataset{i}" for i in range(10, 16))}
    assert not names & dropped
    assert stream.classes.tolist() == [
        "bending",
        "cycling",
        "lying",
        "sitting",
        "standing",
        "walking",
    ]
    assert len(stream.runs) == 81 + 1  # the row lost from sitting 8 cuts it in two


def test_real_emg(uci):
    streams = load_emg(uci)
    assert sum(len(set(s.recordings.tolist())) for s in streams.values()) == 80
    assert sum(len(s) for s in streams.values()) == 797_426
    assert max(np.abs(s.values).max() for s in streams.values()) == 4000
    assert all(len(s.classes) == 20 for s in streams.values())


def test_real_vicon(uci):
    streams = load_vicon(uci, max_lost=0)
    assert sum(len(set(s.recordings.tolist())) for s in streams.values()) == 199
    worse = manifest(SETS["vicon"])["sub10/normal/Running  [worse].txt"].rows
    assert sum(len(s) for s in streams.values()) + worse == 605_381
    assert "Waving" not in streams["sub10"].classes
    lost = sum(int(np.isnan(s.values[:, ::3]).sum()) for s in streams.values())
    markers = 9 * sum(len(s) for s in streams.values())
    assert 0.013 < lost / markers < 0.015
    # No half-written step is left: a coordinate of exactly 0 is a position in two files only.
    zeros = sum(int((s.values == 0).sum()) for s in streams.values())
    assert zeros == 8
    bridged = load_vicon(uci, people=["sub1"])["sub1"]
    before, after = streams["sub1"].missing.sum(), bridged.missing.sum()
    assert 0 < after < before
