"""``mlat-lab reproduce --table beyond``, on small imitations of people."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from imitations import BEYOND, beyond_experiments, table_below, thin
from mlat import InputError
from mlat_lab.cli.commands import app
from mlat_lab.cli.reproduce import QUICK_PEOPLE
from mlat_lab.cli.tables import aligned
from mlat_lab.experiments.experiment import ALL, System
from mlat_lab.experiments.journal import read_results
from mlat_lab.experiments.systems import AUTO


def call(*arguments):
    asked = ["reproduce", "--table", "beyond", "--jobs", 1, *arguments]
    return CliRunner().invoke(app, list(map(str, asked)))


NO_AEON = "python has no aeon (no module); install it and give its Python"


@pytest.fixture
def imitated(monkeypatch):
    """The command on imitations, with an aeon that is there or not."""
    monkeypatch.setattr("mlat_lab.experiments.people.uci_people", lambda sets, people, data: {})
    monkeypatch.setattr("mlat_lab.cli.tables.beyond_experiments", beyond_experiments)
    has = SimpleNamespace(aeon=True, torch="2.0")

    def aeon_versions(python):
        if not has.aeon:
            raise InputError(NO_AEON)
        return {"aeon": "1.0", "torch": has.torch}

    monkeypatch.setattr("mlat_lab.cli.tables.aeon_versions", aeon_versions)
    return has


def systems_in(folder, width):
    path = folder / f"journal-{width}.jsonl"
    return Counter(r["system"] for r in read_results(path).values())


def test_the_command(imitated, tmp_path):
    out, report = tmp_path / "new" / "out", tmp_path / "doc.md"
    result = call("--out", out, "--runs", 2, "--report", report)
    assert result.exit_code == 0, result.output
    assert "ten steps: 64 jobs, 0 of them done before" in result.stderr
    assert "one second: 32 jobs, 0 of them done before" in result.stderr
    assert systems_in(out, "ten-steps") == dict.fromkeys(BEYOND, 8)
    assert systems_in(out, "one-second") == dict.fromkeys(BEYOND, 4)
    assert aligned((out / "headline.md").read_text(encoding="utf-8")) in result.stdout
    assert report.read_text(encoding="utf-8").startswith("# Beyond the paper's tables")
    again = call("--out", out, "--runs", 2)
    assert "ten steps: 64 jobs, 64 of them done before" in again.stderr
    assert again.stdout.partition("\n\n")[2] == result.stdout.partition("\n\n")[2]


def test_some_systems_first_and_others_later(imitated, tmp_path):
    first = call("--out", tmp_path, "--runs", 1, "--runs-second", 0, "--systems", "LMNN,ED")
    assert first.exit_code == 0, first.output
    assert systems_in(tmp_path, "ten-steps") == {"ED": 4, "LMNN": 4}
    assert not (tmp_path / "journal-one-second.jsonl").exists()
    call("--out", tmp_path, "--runs", 2, "--runs-second", 0, "--systems", AUTO)
    assert systems_in(tmp_path, "ten-steps") == {"ED": 4, "LMNN": 4, AUTO: 8}
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert [row[0] for row in table_below(text, "## Windows of ten steps")] == [
        "ED",
        "LMNN",
        "MLAT, auto",
    ]
    assert "1 run of 4 people" in text
    assert "4 results are not in these figures" in text


@pytest.mark.slow
def test_only_the_report(imitated, tmp_path, monkeypatch):
    call("--out", tmp_path, "--runs", 2)
    journal = tmp_path / "journal-ten-steps.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-3]) + lines[-3][:40])
    before = journal.read_bytes()
    monkeypatch.setattr("mlat_lab.cli.tables.do_jobs", None)
    imitated.aeon = False
    result = call("--out", tmp_path, "--only-report", "--report", tmp_path / "doc.md")
    assert result.exit_code == 0, result.output
    assert journal.read_bytes() == before
    text = (tmp_path / "doc.md").read_text(encoding="utf-8")
    assert "1 run of 4 people" in text, "the second is not everyone's any more"
    call("--out", tmp_path, "--only-report", "--runs", 1)
    assert "are not in these figures" not in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_results_of_other_settings_are_not_reported_and_said(imitated, tmp_path, monkeypatch):
    call("--out", tmp_path, "--runs", 1, "--runs-second", 0, "--systems", "ED,LMNN")
    changed = {**BEYOND, "LMNN": System("LMNN", thin, (ALL,))}
    other = {name: replace(e, systems=changed) for name, e in beyond_experiments().items()}
    monkeypatch.setattr("mlat_lab.cli.tables.beyond_experiments", lambda people, python: other)
    result = call("--out", tmp_path, "--only-report")
    assert "another --peer-python: 4 of LMNN" in result.stderr
    assert "LMNN" not in (tmp_path / "headline.md").read_text(encoding="utf-8")


def test_quick_is_one_run_of_ten_steps_without_aeon(imitated, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "mlat_lab.experiments.people.uci_people", lambda *args: asked.append(args) or {}
    )
    monkeypatch.chdir(tmp_path)
    imitated.aeon = False
    result = call("--quick")
    assert result.exit_code == 0, result.output
    assert "aeon" not in result.stderr
    assert asked == [(None, list(QUICK_PEOPLE), None)]
    others = {name: 4 for name in BEYOND if "QUANT" not in name}
    assert systems_in(tmp_path / "beyond-quick", "ten-steps") == others
    text = (tmp_path / "beyond-quick" / "report.md").read_text(encoding="utf-8")
    assert "Not run: QUANT, same past; QUANT." in text


@pytest.mark.parametrize("lacks", ["aeon", "torch"])
def test_without_aeon_the_others_go_on(imitated, tmp_path, lacks):
    imitated.aeon, imitated.torch = lacks != "aeon", None
    result = call("--out", tmp_path, "--runs", 1, "--runs-second", 0)
    assert result.exit_code == 0, result.output
    why = f"{NO_AEON} as --peer-python" if lacks == "aeon" else "they need torch beside aeon"
    said = f"without QUANT-past, QUANT: {why}"
    assert result.stderr.splitlines()[0] == said
    assert "QUANT" not in systems_in(tmp_path, "ten-steps")
    assert "Not run: QUANT, same past; QUANT." in (tmp_path / "report.md").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--systems", "ED,Rocket"], "no system 'Rocket'; there are QUANT-past, Forest-features"),
        (["--systems", "QUANT"], NO_AEON),
        (["--peer-python", "nowhere/python"], NO_AEON),
        (["--only-report"], "no results in"),
        (["--protocol", "both"], "--table beyond knows no --protocol both"),
        (["--runs", "0"], "--runs"),
        (["--runs-second", "-1"], "--runs-second"),
        (["--table", "2", "--only-report"], "--only-report is for --table beyond"),
        (["--table", "both", "--systems", "ED"], "--systems is for --table beyond"),
        (["--table", "3", "--runs-second", "1"], "--runs-second is for --table beyond"),
        (["--table", "3", "--peer-python", "x"], "--peer-python is for --table beyond"),
    ],
)
def test_bad_input_is_one_line(imitated, tmp_path, arguments, line):
    imitated.aeon = False
    result = call("--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert line in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_is_one_line(imitated, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for option, where in (("--out", "file"), ("--report", "file/report.md")):
        result = call("--out", tmp_path / "out", option, tmp_path / where)
        assert result.exit_code == 2
        assert len(result.stderr.strip().splitlines()) == 1
        assert str(tmp_path / "file") in result.stderr


def test_the_peer_python_is_one_from_whichever_folder(imitated, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "mlat_lab.cli.tables.beyond_experiments",
        lambda people, python: asked.append(python) or beyond_experiments(),
    )
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    for folder, name in ((tmp_path, "bin/python"), (tmp_path / "bin", "../bin/python")):
        monkeypatch.chdir(folder)
        call("--out", tmp_path / "out", "--peer-python", name, "--only-report")
    assert asked == [str(python)] * 2
