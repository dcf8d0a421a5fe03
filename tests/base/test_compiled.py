"""Loops are compiled with a cache on disk, and without one where there is no place for it."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from mlat.base.compiled import NO_CACHE, jit

PROGRAM = """
import warnings
from numba.core import caching
caching.CacheImpl._locator_classes = []  # as where no folder can be written to
warnings.simplefilter("always")
import mlat
from mlat.synthetic import rotating_states
stream = rotating_states(n_channels=2, run_length=30)
clf = mlat.StreamClassifier(4, metric="euclidean").fit(stream)
print(int((clf.predict(stream) == stream.states).sum()))
"""


@jit()
def total(values):
    out = 0.0
    for value in values:
        out += value
    return out


def test_a_loop_is_compiled():
    assert total(np.arange(5.0)) == 10.0
    assert total.signatures, "it ran compiled"


@pytest.mark.slow
def test_without_a_cache_it_works_and_says_so_once():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env={k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"},
    )
    assert int(run.stdout) > 60
    assert run.stderr.count(NO_CACHE) == 1
    assert "Traceback" not in run.stderr


@pytest.mark.slow
def test_the_command_says_it_in_one_line(tmp_path):
    program = PROGRAM.split("warnings.simplefilter")[0] + (
        "import sys\nfrom mlat.cli import main\nsys.argv = ['mlat', *sys.argv[1:]]\nmain()\n"
    )
    for arguments in (["--help"], ["inspect", str(tmp_path / "none.mlat")]):
        run = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True
        )
        assert "Traceback" not in run.stderr
        assert run.returncode == (0 if arguments == ["--help"] else 2)
        assert run.stderr.count("NUMBA_CACHE_DIR") <= 1


@pytest.mark.slow
def test_compiling_is_said_before_and_after_and_loading_is_not(tmp_path):
    code = (
        "import sys, time, numpy as np\n"
        "from mlat.base.compiled import say_compiling\n"
        "from mlat.neighbours.votes import vote\n"
        "import numba.core.compiler as compiler\n"
        "with say_compiling(print):\n"
        "    print('begin'); vote(np.zeros((1, 1), int), np.ones((1, 1)), 1); print('end')\n"
    )
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for said in (
        r"begin\ncompiling, once; this takes up to a minute or two\nend\ncompiled in \d+ s\n",
        r"begin\nend\n",  # from the cache
    ):
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        assert re.fullmatch(said, done.stdout)
