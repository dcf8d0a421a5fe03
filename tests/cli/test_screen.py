"""What the commands print: bars, sizes, names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlat
from cli_runs import run, write_csv
from mlat.base.work import report
from mlat.cli import screen


def test_a_bar_on_a_terminal_and_nothing_elsewhere(monkeypatch, capsys):
    def work() -> None:
        with screen.working("learning"):
            for step in range(3):
                report("MLAT", step, 3, {"objective": 0.125})

    work()
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    work()
    shown = capsys.readouterr().err
    assert "learning, MLAT" in shown
    assert "loss 0.125" in shown
    monkeypatch.setenv("TERM", "dumb")
    work()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("n_bytes", "said"), [(999, "999 bytes"), (52_100, "52.1 kB"), (3_000_000_000, "3.0 GB")]
)
def test_sizes(n_bytes, said):
    assert screen.size_of(n_bytes) == said


def test_names_are_not_markup(in_folder):
    values = np.random.default_rng(0).normal(size=(40, 1))
    stream = mlat.Stream(values, ["[bold]a[/bold]"] * 20 + [":cat:"] * 20, channels=["[x"])
    write_csv(Path("s.csv"), stream)
    out, _ = run("fit", "s.csv", "--label", "state", "-o", "m.mlat", "--metric", "euclidean")
    assert "[bold]a[/bold]" in out
    assert ":cat:" in out
    assert "1 channels: [x" in out
