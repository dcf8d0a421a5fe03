"""``mlat-lab reproduce`` for the paper's tables, on small imitations of people."""

import json

import pytest
from typer.testing import CliRunner

from imitations import SMALL, experiment
from mlat_lab.cli.commands import app
from mlat_lab.experiments.experiment import Experiment


def call(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


@pytest.fixture
def imitated(monkeypatch):
    """The command on imitations, with few windows."""
    exp = experiment()
    monkeypatch.setattr(
        "mlat_lab.experiments.people.uci_people", lambda sets, people, data: exp.people
    )
    monkeypatch.setattr(
        "mlat_lab.cli.tables.Experiment",
        lambda people, systems: Experiment(people, SMALL, width=4, n_few=10, n_test=15),
    )


def test_the_command(imitated, tmp_path):
    out, report = tmp_path / "new" / "out", tmp_path / "doc.md"
    result = call("--out", out, "--runs", 1, "--jobs", 1, "--report", report)
    assert result.exit_code == 0, result.output
    assert "40 jobs, 0 of them done before" in result.output
    assert "40/40" in result.output
    assert report.read_text(encoding="utf-8").startswith("# The paper's tables, run again")
    # The figures themselves, not only the names of the files that have them.
    shown = [line for line in result.stdout.splitlines() if line.startswith("|")]
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    for protocol, part in summary["parts"].items():
        for footing in part["everyone"]["footings"].values():
            for by_system in footing["accuracy"].values():
                for figure in by_system.values():
                    assert any(f"{figure['mean']:.1f}" in line for line in shown), protocol
    assert len({line.count("|") for line in shown}) == 1
    again = call("--out", out, "--runs", 1, "--jobs", 1)
    assert "40 jobs, 40 of them done before" in again.output


@pytest.mark.slow
def test_what_other_settings_made_is_said(imitated, tmp_path, monkeypatch):
    call("--out", tmp_path, "--runs", 1, "--jobs", 1, "--table", 2)
    monkeypatch.setattr("mlat_lab.experiments.experiment.__version__", "99")
    result = call("--out", tmp_path, "--runs", 1, "--jobs", 1, "--table", 2)
    assert "24 results in" in result.output
    assert "are of another version or other settings; they are computed anew" in result.output


def test_an_interrupt_keeps_what_is_done(imitated, tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("mlat_lab.cli.jobs.run_jobs", interrupt)
    result = call("--out", tmp_path, "--runs", 1)
    assert result.exit_code == 130
    assert "the same command goes on" in result.output


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--sets", "uci"], "unknown data set 'uci'; there are scma, arem, emg, vicon"),
        (["--people", "sub99"], "no person 'sub99' in the chosen sets"),
        (
            ["--sets", "emg", "--people", "sub7"],
            "no person 'sub7' in the chosen sets: emg has sub1",
        ),
        (["--protocol", "leaky"], "leaky"),
        (["--runs", "0"], "--runs"),
        (["--data", "nowhere"], "no data at nowhere"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, arguments, line):
    monkeypatch.chdir(tmp_path)
    result = call("--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert line in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_folder_that_cannot_be_written_is_one_line(imitated, tmp_path, place):
    (tmp_path / "file").write_text("in the way")
    for option in ("--out", "--report"):
        where = tmp_path / place / "report.md" if option == "--report" else tmp_path / place
        result = call("--out", tmp_path / "out", option, where)
        assert result.exit_code == 2
        assert len(result.stderr.strip().splitlines()) == 1
        assert str(tmp_path / "file") in result.stderr
