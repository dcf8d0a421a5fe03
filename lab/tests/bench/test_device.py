"""The benchmark of learning on a device."""

import pytest
from rich.console import Console

pytest.importorskip("torch")

from mlat_lab.bench import device


def test_a_small_problem_is_measured(capsys):
    row = device.measure(100, 4, 3, "cpu")
    assert row.n_windows == 100
    assert row.loss > 0
    assert row.fit > 0
    assert row.n_iter > 0
    search = device.measure_search(100, 50, 4, 3, "cpu")
    assert search.same
    device.show([row], [search], "cpu", 3, Console(width=100))
    said = capsys.readouterr().out
    assert "whole fit" in said
    assert "NO" not in said
