"""The package itself: what it shows, and what importing it costs."""

import subprocess
import sys

import pytest

import mlat


def test_names_are_there_and_found():
    for name in mlat.__all__:
        assert getattr(mlat, name) is not None
    assert dir(mlat) == sorted(mlat.__all__)


def test_rooms_are_attributes():
    code = "import mlat; print(mlat.live.Steps, mlat.explain.explain, mlat.plots.plot_blocks)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'mlat' has no attribute 'lives'"):
        _ = mlat.lives


def test_importing_it_imports_nothing_heavy():
    heavy = ("numpy", "numba", "sklearn", "scipy", "pyarrow", "matplotlib", "pandas", "typer")
    code = f"import sys, mlat; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "[]"
