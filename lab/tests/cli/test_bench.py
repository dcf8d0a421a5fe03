"""``mlat-lab bench``."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from functools import partial

import cli_runs
from mlat.base.errors import MissingPackageError
from mlat_lab.bench import BENCHMARKS
from mlat_lab.cli.bench import benchmark_command
from mlat_lab.cli.commands import app

run = partial(cli_runs.run, command=app)
refused = partial(cli_runs.refused, command=app)


def test_bench_hands_everything_on(monkeypatch):
    assert "--peer-python" in run("bench", "dtw", "--help")[0]
    assert "no case named 'x'" in refused("bench", "dtw", "--case", "x")
    assert "No such option: --nope" in refused("bench", "dtw", "--nope")
    monkeypatch.setitem(sys.modules, "mlat_lab.bench.dtw", None)
    assert "the benchmark dtw lacks itself" in refused("bench", "dtw")


def test_process_of_a_benchmark_interrupted(tmp_path):
    ready = tmp_path / "ready"
    code = (
        "import pathlib, sys, time, mlat_lab.cli\n"
        "from mlat_lab.bench import dtw\n"
        "def stuck(bench):\n"
        f"    pathlib.Path({str(ready)!r}).touch(); time.sleep(60)\n"
        "dtw.searching = stuck\n"
        "sys.argv = ['mlat-lab', 'bench', 'dtw']\n"
        "mlat_lab.cli.main()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], text=True, stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + 120
        while not ready.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        _, error = run.communicate(timeout=60)
    assert (run.returncode, error) == (130, "mlat: interrupted\n")


def test_what_help_promises_is_known():
    listed = run("bench", "--help")[0]
    for name in BENCHMARKS:
        assert f" {name} " in listed
        with contextlib.suppress(MissingPackageError):  # that it compares with
            benchmark_command(name)
            assert "--json" in run("bench", name, "--help")[0]
