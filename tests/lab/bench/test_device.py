"""The benchmark of learning on a device."""

import pytest
from rich.console import Console

pytest.importorskip("torch")

from mlat.lab.bench import device


def test_a_small_problem_is_measured(capsys):
    row = device.measure(100, 4, 3, "cpu")
    assert row.n_windows == 100
    assert row.loss > 0
    assert row.fit > 0
    assert row.n_iter > 0
    device.show([row], "cpu", 3, Console(width=100))
    assert "whole fit" in capsys.readouterr().out
