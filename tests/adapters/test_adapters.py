"""The adapters pass the suites of their ecosystems, each in its own environment; examples run."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Outlets of LSL are found by loopback only.
LSL_CONFIG = """
[ports]
IPv6 = disable
[multicast]
ResolveScope = machine
[lab]
KnownPeers = {127.0.0.1}
[log]
level = -3
"""


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


def test_lsl_examples(tmp_path):
    pytest.importorskip("pylsl")
    config = tmp_path / "lsl_api.cfg"
    config.write_text(LSL_CONFIG)
    done = subprocess.run(
        [sys.executable, str(HERE / "run_snippets.py"), "LSL"],
        env={**os.environ, "LSLAPICFG": str(config)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "LSL: " in done.stdout


def test_mne_examples():
    pytest.importorskip("mne")
    snippets = runpy.run_path(str(Path(__file__).parent / "run_snippets.py"))
    assert snippets["main"]("MNE") == 0
