"""The benchmark of models in C."""

import shutil

import numpy as np
import pytest
from rich.console import Console

from mlat import StreamClassifier
from mlat.lab.bench import export
from mlat.synthetic import rotating_states


@pytest.mark.skipif(not (shutil.which("cc") or shutil.which("gcc")), reason="no C compiler")
def test_every_choice_is_measured(capsys):
    clf = StreamClassifier(metric="euclidean").fit(rotating_states(run_length=60, random_state=0))
    values = rotating_states(run_length=30, random_state=1).values
    rows = export.measure("small", clf, values, Console())
    assert len(rows) == len(export.BITS) * len(export.FRACTIONS)
    assert rows[0].n_references == len(clf.windows_)
    assert rows[0].same > 0.98
    assert all(row.flash > 0 and row.microseconds >= 0 for row in rows)
    flash = {(row.n_references, row.bits): row.flash for row in rows}
    for n in {row.n_references for row in rows}:
        assert flash[n, 8] < flash[n, 16] < flash[n, 32]
    export.show(rows, {"small": 100.0}, Console(width=100))
    assert "same states" in capsys.readouterr().out
    assert np.isfinite(export.python_step(clf, values))
