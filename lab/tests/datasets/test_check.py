"""A copy compared with UCI's checksums, by function and by command."""

from __future__ import annotations

from typer.testing import CliRunner

from mlat_lab.cli.data import app
from mlat_lab.datasets import SETS, STREAM_SETS, load_scma
from mlat_lab.datasets.check import check
from uci_copies import SCMA


def test_a_complete_copy_loads_and_checks(whole):
    assert len(load_scma(whole)) == 15
    result = check("scma", whole)
    assert result.all_right
    assert [len(p.ok) for p in result.people] == [1] * 15


def test_other_line_ends_are_the_same_content(whole):
    path = whole / SCMA / "1.csv"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert check("scma", whole).all_right


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_check_command(whole):
    good = run("check", "scma", "emg", "--data", str(whole))
    assert good.exit_code == 0
    assert "sub4" in good.stdout
    (whole / SCMA / "3.csv").write_text("0,7,8,9,4\n")
    (whole / SCMA / "4.csv").unlink()
    bad = run("check", "scma", "--data", str(whole))
    assert bad.exit_code == 2
    assert bad.stderr.count("\n") == 1
    assert "1 file missing (first: 4.csv), 1 file with a wrong checksum (first: 3.csv)" in (
        bad.stderr
    )
    nothing = run("check", "vicon", "--data", str(whole / "nowhere"))
    assert nothing.exit_code == 2
    assert "no data at" in nothing.stderr
    unknown = run("check", "mnist", "--data", str(whole))
    assert unknown.exit_code == 2
    there = ", ".join([*SETS, *STREAM_SETS])
    assert unknown.stderr == f"mlat: unknown data set 'mnist'; there are {there}\n"


def test_real_copy_checks(uci):
    for name in SETS:
        assert check(name, uci).problem == ""


def test_real_streams_check(streams_data):
    for name in STREAM_SETS:
        assert check(name, streams_data).problem == ""


def test_streams_check(gestures):
    assert check("gesture_phase", gestures).all_right
    result = run("check", "gesture_phase", "--data", str(gestures))
    assert result.exit_code == 0
    assert "personb_story3" in result.stdout


def test_streams_are_checked_and_not_downloaded(tmp_path):
    missing = run("check", "room_occupancy", "--data", str(tmp_path))
    assert missing.exit_code == 2
    assert "put room_occupancy.zip there (UCI 864;" in missing.stderr
    assert run("fetch", "room_occupancy", "--data", str(tmp_path)).exit_code == 2
