"""What an earlier commit took, beside what this tree takes, for what is small: ratios in one run.

    python lab/benchmarks/compare.py 51c6b8b [--rounds 5] [--only fit] [--alarm 20]

Each probe runs in a process of its own, by turns in either tree, and counts CPU seconds of one
thread after everything is compiled. A ratio is that of the least times; above 1 is slower. With
--alarm the run fails where this tree takes so many per cent more.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FIT = """
from mlat import LMNN, MLAT
from mlat_lab.bench.fit import SIZES, make_windows
w = {name: make_windows(size) for name, size in SIZES.items()}
def probe():
    for windows in w.values():
        for make in (MLAT, LMNN):
            more = {"start": windows.start, "run": windows.run}
            make(max_iter=6, tol=0.0).fit(windows.X, windows.y, **more)
"""
LIVE = """
from mlat_lab.bench.live import model, recording
clf = model(10, None)
values = recording(400, seed=2).values
def probe():
    session = clf.live()
    for i in range(len(values)):
        session.push(values[i : i + 1])
"""
PREDICT = """
from mlat_lab.bench.live import model, recording
clf = model(10, None)
stream = recording(800, seed=2)
def probe():
    clf.predict(stream)
"""
DTW = """
import numpy as np
from mlat_lab.rivals.dtw import nearest
X = np.random.default_rng(0).normal(size=(300, 40, 3)).cumsum(axis=1)
def probe():
    nearest(X[:100], X[100:], band=8)
"""
PROBES = {"fit": FIT, "live": LIVE, "predict": PREDICT, "dtw": DTW}
TIMED = """
import time, warnings
warnings.simplefilter("ignore")
probe()
began = time.process_time()
probe()
times = round(0.2 / (time.process_time() - began)) or 1  # what is short is too noisy alone
taken = []
for _ in range(3):
    began = time.process_time()
    for _ in range(times):
        probe()
    taken.append((time.process_time() - began) / times)
print(min(taken))
"""


def measure(tree: Path, probe: str) -> float:
    """CPU seconds of a probe in a tree, the best of three."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    places = [str(tree / "src"), str(tree / "lab" / "src")]
    env = os.environ | one | {"PYTHONPATH": os.pathsep.join(places)}
    code = PROBES[probe] + TIMED
    if not (tree / "lab").exists():  # as it was before the laboratory had a package of its own
        code = code.replace("mlat_lab", "mlat.lab")
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{probe} in {tree}:\n{done.stderr}")
    return float(done.stdout.split()[-1])


def main() -> None:
    """Measure, and print the ratios."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("commit")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--only", choices=PROBES, action="append")
    options.add_argument("--alarm", type=float, metavar="PER_CENT", default=float("inf"))
    given = options.parse_args()
    slower = []
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder, "before")
        subprocess.run(["git", "worktree", "add", "--detach", before, given.commit], cwd=ROOT,
                       check=True, capture_output=True)  # fmt: skip
        try:
            for probe in given.only or PROBES:
                taken = [
                    (measure(before, probe), measure(ROOT, probe)) for _ in range(given.rounds)
                ]
                old, new = (min(column) for column in zip(*taken, strict=True))
                each = " ".join(f"{b / a:.2f}" for a, b in taken)
                print(f"{probe}: {new / old:.2f} ({old:.3f} s before, {new:.3f} s now; {each})",
                      flush=True)  # fmt: skip
                if new / old > 1 + given.alarm / 100:
                    slower.append(probe)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", before], cwd=ROOT, check=True)
    if slower:
        raise SystemExit(f"more than {given.alarm:g} % slower: {', '.join(slower)}")


if __name__ == "__main__":
    main()
