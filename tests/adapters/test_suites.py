"""The adapters pass the suites of their ecosystems, each in an environment of its own."""

import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("ecosystem", ["aeon", "sktime", "river"])
def test_suite(ecosystem):
    python = os.environ.get(f"MLAT_{ecosystem.upper()}_PYTHON")
    if not python:
        pytest.skip(f"MLAT_{ecosystem.upper()}_PYTHON names no Python that has {ecosystem}")
    source, cache = str(HERE.parents[1] / "src"), Path(python).parents[1] / "numba"
    programs = [("run_suites.py", ecosystem), ("run_snippets.py", ecosystem)]
    for program in [*programs, *([("run_river.py",)] if ecosystem == "river" else [])]:
        done = subprocess.run(
            [python, str(HERE / program[0]), *program[1:]],
            # Another numba: in one place each would discard the other's compiled code.
            env={**os.environ, "PYTHONPATH": source, "NUMBA_CACHE_DIR": str(cache)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-3000:]
