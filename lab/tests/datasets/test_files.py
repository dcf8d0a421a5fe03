"""Rows of UCI's text files, where a copy is found, and what counts as complete."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlat import InputError
from mlat_lab.datasets import SETS, load, load_arem, load_emg, load_scma, load_vicon
from mlat_lab.datasets.files import describe, manifest, parse_rows, tidy
from uci_copies import EMG, ONE, SCMA, imitation_scma, one_line, zipped

# ---------------------------------------------------------------- rows


@settings(deadline=None)  # the first call to Arrow warms it up
@given(
    st.lists(
        st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=3, max_size=3),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([",", ", ", "\t", " ", "  ", ",\t "]),
    st.sampled_from(["\n", "\r\n", " \n", ",\n", "\t\r\n", "\n\n"]),
    st.booleans(),
)
def test_separators_and_line_ends_carry_no_meaning(rows, separator, end, last_end):
    text = end.join(separator.join(repr(v) for v in row) for row in rows) + end * last_end
    np.testing.assert_array_equal(parse_rows(text.encode(), 3, "f"), rows)
    plain = "\n".join(" ".join(repr(v) for v in row) for row in rows).encode()
    assert tidy(text.encode()) == plain
    assert describe(text.encode()).rows == len(rows)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1,2,3\n4,5\n", "f.csv, line 2: 2 fields where UCI's file has 3"),
        ("1,2\n", "f.csv, line 1: 2 fields"),
        ("1,2,3\n\n4,5,6,7\n", "f.csv, line 3: 4 fields"),
        ("# a b\n1,2,3\n4,x5,6\n", "f.csv, line 3, field 2: 'x5' is not a number"),
        ("1,2,3\n4,nan,6\n", "f.csv, line 2, field 2: 'nan' is not a number"),
        ("1,2,3\n4,inf,6\n", "f.csv, line 2, field 2: 'inf' is not a number"),
        ("1,2,3\n4,,6\n", "f.csv, line 2: 2 fields"),
        ('1,2,3\n"4",5,6\n', "f.csv, line 2, field 1: '\"4\"' is not a number"),
        ("", "f.csv has no rows"),
        ("# only\n# comments\n", "f.csv has no rows"),
        ("1,2,3\n4,5,6\n\x00\x00\x00", "f.csv, line 3: 1 fields"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(text, says):
    with pytest.raises(InputError) as error:
        parse_rows(text.encode(), 3, "f.csv")
    assert says in one_line(error)


# ---------------------------------------------------------------- where the data is


def assert_is_one(streams):
    np.testing.assert_array_equal(streams["1"].values[1], [1667, 2072, 2047])


def test_a_folder_its_parent_and_a_zip_are_the_same(tmp_path, monkeypatch):
    imitation_scma(tmp_path / "a")
    assert_is_one(load_scma(tmp_path / "a", complete=False))
    assert_is_one(load_scma(tmp_path / "a" / SCMA, complete=False))
    (tmp_path / "b").mkdir()
    packed = zipped(tmp_path / "b" / "scma.zip", {f"{SCMA}/1.csv": ONE}, zipfile.ZIP_LZMA)
    assert_is_one(load_scma(packed, complete=False))
    assert_is_one(load_scma(str(tmp_path / "b"), complete=False))
    monkeypatch.setenv("MLAT_DATA", str(tmp_path / "b"))
    assert_is_one(load_scma(complete=False))
    monkeypatch.delenv("MLAT_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    (tmp_path / "mlat").mkdir()
    (tmp_path / "b").rename(tmp_path / "mlat" / "uci")
    assert_is_one(load_scma(complete=False))


def test_uci_own_archive_names_and_folders(tmp_path):
    name = "activity+recognition+system+based+on+multisensor+data+fusion+arem.zip"
    zipped(tmp_path / name, {"lying/dataset1.csv": "0,1,2,3,4,5,6\n"})  # no AReM/ at the top
    assert len(load_arem(tmp_path, complete=False)["all"]) == 1


def test_only_the_people_asked_for_are_read(tmp_path):
    imitation_scma(tmp_path)
    (tmp_path / SCMA / "2.csv").write_text("not numbers at all")
    assert list(load_scma(tmp_path, people=[1], complete=False)) == ["1"]
    assert list(load_scma(tmp_path, people="1", complete=False)) == ["1"]
    with pytest.raises(InputError, match=r"2\.csv, line 1"):
        load_scma(tmp_path, people=["2"], complete=False)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda p: load("uci-har", p), "unknown data set 'uci-har'; there are scma, arem, emg"),
        (lambda p: load_scma(p, people=["16"]), "scma has no person '16'; it has 1, 2"),
        (lambda p: load_emg(p, people=["sub9"]), "emg has no person 'sub9'"),
        (lambda p: load_arem(p, people=["sub1"]), "arem has no person 'sub1'; it has all"),
        (lambda p: load_scma(p, people=[]), "no people asked for"),
        (lambda p: load_scma(p, people=[7]), "has no files of scma person 7"),
        (lambda p: load_scma(p), "has no files of scma person 3"),
        (lambda p: load_scma(p, people=[1]), "3 rows where UCI's file has 162501: it is cut short"),
        (lambda p: load_emg(p), "holds neither emg.zip nor the files of 'EMG Physical Action"),
        (lambda p: load_scma(p / "nowhere"), "no data at"),
        (lambda p: load_scma(p / SCMA / "1.csv"), "is not a readable zip file"),
        (lambda p: load_emg(p, activities=["Dancing"]), "emg has no activity 'Dancing'"),
        (lambda p: load_vicon(p, max_lost=-1), "max_lost must be a number of steps, 0 or more"),
    ],
)
def test_bad_input_gets_one_clear_line(tmp_path, call, says):
    imitation_scma(tmp_path)
    with pytest.raises(InputError) as error:
        call(tmp_path)
    assert says in one_line(error)


def test_a_zip_of_something_else_or_of_a_rar_only(tmp_path):
    with pytest.raises(InputError, match="holds no files of 'AReM'"):
        load_arem(zipped(tmp_path / "x.zip", {f"{SCMA}/1.csv": ONE}))
    with pytest.raises(InputError, match=r"holds only 'EMG\.rar': unpack that"):
        load_emg(zipped(tmp_path / "y.zip", {"EMG.rar": "Rar!"}))


def test_a_damaged_zip_member_is_named(tmp_path):
    path = zipped(tmp_path / "scma.zip", {f"{SCMA}/1.csv": ONE * 50}, zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"1667", b"1668", 1))
    with pytest.raises(InputError) as error:
        load_scma(tmp_path, complete=False)
    assert "1.csv is damaged in the zip" in one_line(error)


# ---------------------------------------------------------------- complete copies


def test_a_file_cut_at_a_line_end_is_found(whole):
    path = whole / SCMA / "1.csv"
    path.write_text("".join(ONE.splitlines(keepends=True)[:2]))
    with pytest.raises(InputError) as error:
        load_scma(whole)
    assert "1.csv has 2 rows where UCI's file has 3: it is cut short" in one_line(error)
    assert len(load_scma(whole, complete=False)["1"]) == 2


def test_a_missing_recording_is_named(whole):
    (whole / EMG / "sub2/Normal/txt/Bowing.txt").rename(whole / EMG / "sub2/Normal/txt/Waving.txt")
    with pytest.raises(InputError, match=r"lacks sub2/Normal/txt/Bowing\.txt"):
        load_emg(whole)
    assert list(load_emg(whole, people=["sub1"])) == ["sub1"]


def test_the_shipped_manifest_covers_the_sets():
    counts = {name: len(manifest(uci)) for name, uci in SETS.items()}
    assert counts == {"scma": 15, "arem": 88, "emg": 80, "vicon": 200}
    for uci in SETS.values():
        assert {uci.person_of(file) for file in manifest(uci)} == set(uci.people)
        assert all(uci.file_of(f"some/folder/{file}") == file for file in manifest(uci))
