"""The examples for users of LSL run, with outlets that are found by loopback only."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CONFIG = """
[ports]
IPv6 = disable
[multicast]
ResolveScope = machine
[lab]
KnownPeers = {127.0.0.1}
[log]
level = -3
"""


def test_lsl_examples(tmp_path):
    pytest.importorskip("pylsl")
    config = tmp_path / "lsl_api.cfg"
    config.write_text(CONFIG)
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
