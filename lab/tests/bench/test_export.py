"""The benchmark of models in C."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from mlat import Stream, StreamClassifier
from mlat.export import PlainModel, write_c
from mlat.synthetic import rotating_states
from mlat_lab.bench import export, export_cycles, export_fuzz
from mlat_lab.bench.harness import Bench


@pytest.mark.skipif(not (shutil.which("cc") or shutil.which("gcc")), reason="no C compiler")
def test_every_choice_is_measured(capsys):
    clf = StreamClassifier(metric="euclidean").fit(rotating_states(run_length=60, random_state=0))
    values = rotating_states(run_length=30, random_state=1).values
    choices = [export.Choice(f, bits) for f in (1.0, 0.25) for bits in (32, 16, 8)]
    choices.append(export.Choice(1.0, 16, fixed=True))
    choices.append(export.Choice(1.0, 16, fixed=True, incremental=True))
    rows = export.measure("small", clf, values, Bench(), choices)
    assert len(rows) == len(choices)
    assert rows[0]["references"] == len(clf.windows_)
    assert rows[0]["same_states"] > 0.98
    assert all(row["tables_kB"] > 0 and row["µs"] >= 0 for row in rows)
    flash = {(r["references"], r["bits"]): r["tables_kB"] for r in rows if not r["kind"]}
    for n in {row["references"] for row in rows}:
        assert flash[n, 8] < flash[n, 16] < flash[n, 32]
    export.show(rows, {"small": 100.0}, Bench())
    said = capsys.readouterr().out
    assert "A model in C" in said
    assert len(export.draw(rows).axes) == 1
    assert np.isfinite(export.python_step(clf, values))


def test_cycles_are_counted_in_an_emulator():
    if not export_cycles.can_count():
        pytest.skip("no compiler for Cortex-M or no emulator (gcc-arm-none-eabi, qemu-user)")
    clf = StreamClassifier(width=3, metric="euclidean").fit(
        rotating_states(run_length=30, random_state=0)
    )
    values = rotating_states(run_length=30, random_state=1).values[:8]
    wanted, known = export.codes_of(clf, Stream(values))
    products = len(clf.windows_) * clf.width_ * values.shape[1]
    for cpu, fixed in (("cortex-m4", False), ("cortex-m0", True)):
        code = write_c(PlainModel.of(clf), bits=16, fixed=fixed)
        counted = export_cycles.counted(code, values, cpu)
        assert (counted.states == wanted)[known].all()
        assert 2 * products < counted.instructions < counted.cycles < 200 * products
        assert counted.flash > code.flash
        again = export_cycles.counted(code, values, cpu)
        assert again.cycles == counted.cycles


def test_bad_streams_have_the_states_of_predict(monkeypatch):
    train, test = (rotating_states(run_length=30, random_state=seed) for seed in (0, 1))
    monkeypatch.setattr(export_fuzz, "streams_of", lambda name, data: (train, test))
    row = export_fuzz.measure("small", Path(), 2000)
    assert row["other_states"] == 0
    assert 1000 < row["decided"] < 2000
    assert row["whole_same"] > 0.8


def test_emlearn_is_beside_it():
    with np.errstate():
        pytest.importorskip("emlearn")
    train = rotating_states(run_length=40, random_state=0)
    fresh = rotating_states(run_length=20, random_state=1)
    clf = StreamClassifier(metric="euclidean").fit(train)
    with np.errstate():  # which emlearn changes for all
        rivals = export.beside_emlearn("small", clf, train, fresh, Bench())
    assert [one["in_C"].split(",")[0] for one in rivals] == ["mlat", "mlat", "mlat", "emlearn"]
    assert all(one["as_in_Python"] > 0.9 for one in rivals)
