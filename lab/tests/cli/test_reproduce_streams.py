"""``mlat-lab reproduce --table streams`` and ``--table synthetic``."""

from collections import Counter
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from imitations import BEYOND, streams_experiments, streams_people
from mlat_lab.cli.commands import app
from mlat_lab.cli.reproduce import QUICK_STREAMS
from mlat_lab.datasets import STREAM_SETS
from mlat_lab.experiments.journal import read_results
from mlat_lab.experiments.people import stream_people
from mlat_lab.experiments.suite import KINDS


def call(*arguments, table="streams"):
    asked = ["reproduce", "--table", table, "--jobs", 1, *arguments]
    return CliRunner().invoke(app, list(map(str, asked)))


SETS = ["phone_watch", "scma"]


@pytest.fixture
def imitated(monkeypatch):
    """The command on imitations; ``asked`` is who it asked for."""
    asked = []

    def people(*arguments):
        asked.append(arguments)
        return streams_people()

    place = "mlat_lab.experiments.people"
    monkeypatch.setattr(f"{place}.stream_people", people)
    monkeypatch.setattr(f"{place}.whole_sets", lambda data: (SETS, {"ecg_rhythm": "no data"}))
    monkeypatch.setattr("mlat_lab.cli.tables.streams_experiments", streams_experiments)
    versions = {"aeon": "1.0", "torch": "2.0"}
    monkeypatch.setattr("mlat_lab.cli.tables.aeon_versions", lambda python: versions)
    return SimpleNamespace(asked=asked)


def systems_in(folder, protocol):
    path = folder / f"journal-{protocol}.jsonl"
    return Counter(r["system"] for r in read_results(path).values())


def test_the_command_and_going_on(imitated, tmp_path):
    out, report = tmp_path / "out", tmp_path / "doc.md"
    first = call("--out", out, "--systems", "ED,MLAT-auto", "--report", report)
    assert first.exit_code == 0, first.output
    assert "without ecg_rhythm: no data" in first.stderr
    assert imitated.asked == [(SETS, None, None)]
    assert systems_in(out, "stream") == {"ED": 5, "MLAT-auto": 5}
    assert systems_in(out, "second") == {"ED": 3, "MLAT-auto": 3}
    assert report.read_text(encoding="utf-8").startswith("# Whole streams, with every switch")
    assert "mean of sets" in first.stdout
    again = call("--out", out)
    assert "stream: 45 jobs, 10 of them done before" in again.stderr
    assert systems_in(out, "stream") == dict.fromkeys([*BEYOND, "ED-filtered"], 5)
    only = call("--out", out, "--only-report")
    assert only.stdout == again.stdout


def test_quick_looks_at_nobody_but_the_development(imitated, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("--quick").exit_code == 0
    (asked,) = imitated.asked
    assert asked == (SETS, ["phone_watch:s01"], None)
    assert "QUANT" not in systems_in(tmp_path / "streams-quick", "stream")
    for who in QUICK_STREAMS:
        name, file = who.split(":")
        assert file in STREAM_SETS[name].development


def test_development_names_all_of_its_files(imitated, tmp_path):
    call("--out", tmp_path, "--people", "development,scma:3", "--systems", "ED")
    (asked,) = imitated.asked
    files = [f"phone_watch:{who}" for who in STREAM_SETS["phone_watch"].development]
    assert asked[1] == ["scma:3", *files, "scma:1", "scma:2"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--runs", "2"], "--runs is for --table"),
        (["--protocol", "within"], "--table streams knows no --protocol within"),
        (["--only-report"], "no results in"),
        (["--systems", "Rocket"], "no system 'Rocket'; there are QUANT-past"),
        (["--runs-second", "1"], "--runs-second is for --table beyond; add that"),
    ],
)
def test_bad_input_is_one_line(imitated, tmp_path, arguments, line):
    result = call("--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert line in result.stderr.splitlines()[-1]


def test_where_nothing_is_it_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("--data", tmp_path)
    assert result.exit_code == 2
    assert "none of the sets of streams is there" in result.stderr.splitlines()[-1]
    named = call("--data", tmp_path, "--sets", "ecg_rhythm")
    assert named.stderr.splitlines()[-1].endswith(
        "(PhysioNet; docs/evidence/datasets.md has its layout)"
    )
    unknown = call("--sets", "ecg")
    assert "unknown set of streams 'ecg'; there are emg_gestures" in unknown.stderr


def test_people_by_protocol(gestures):
    everyone = stream_people(["gesture_phase"], None, gestures)
    assert everyone["stream"]["gesture_phase"].names == STREAM_SETS["gesture_phase"].people
    assert everyone["second"]["gesture_phase"].names == ("persona", "personb", "personc")
    some = stream_people(["gesture_phase"], ["persona_story1"], gestures)
    assert some["stream"]["gesture_phase"].names == ("persona_story1",)
    assert some["second"] == {}
    both = everyone["second"]["gesture_phase"].load("persona")
    assert len(both) == 2 * 840
    assert len(set(both.recordings.tolist())) == 2


@pytest.mark.slow
def test_a_person_in_a_file(gestures, tmp_path):
    result = call(
        "--data", gestures, "--sets", "gesture_phase", "--people", "persona_story1",
        "--systems", "ED,ED-filtered,MLAT-auto", "--out", tmp_path,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "| ED + filter |" in (tmp_path / "headline.md").read_text(encoding="utf-8")


def test_the_suite(tmp_path):
    arguments = ["--sets", "level", "--runs", 1, "--quick", "--out", tmp_path]
    result = call(*arguments, table="synthetic")
    assert result.exit_code == 0, result.output
    assert "| level | 25 |" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert {r["person"] for r in read_results(tmp_path / "journal.jsonl").values()} == {"100"}
    again = call(*arguments, table="synthetic")
    assert "7 jobs, 7 of them done before" in again.stderr
    unknown = call("--sets", "levels", table="synthetic")
    assert f"no kind of stream 'levels'; there are {', '.join(KINDS)}" in unknown.stderr
    people = call("--people", "1", table="synthetic")
    assert "--people is for --table" in people.stderr
