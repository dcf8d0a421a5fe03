"""The benchmark of learning on a device."""

import pytest

pytest.importorskip("torch")

from mlat_lab.bench import device
from mlat_lab.bench.harness import Bench


def test_a_small_problem_is_measured(capsys):
    bench = Bench()
    device.on_device(bench, "cpu", windows=[100], widths=[4], channels=3)
    (row,) = bench.figures["rows"]
    assert row["windows"] == 100
    assert min(row["one_loss_ms"], row["whole_fit_s"], row["iterations"]) > 0
    assert "Learning on cpu" in capsys.readouterr().out
