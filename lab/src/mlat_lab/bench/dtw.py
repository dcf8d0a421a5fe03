"""Speed of the DTW rivals against other libraries, on the same windows in one run.

CPU time, one thread: what is compared is the work, not the number of processors.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.lib.stride_tricks import sliding_window_view
from rich.console import Console
from scipy.signal import lfilter
from threadpoolctl import threadpool_limits

from mlat import __version__
from mlat.base.checks import Floats
from mlat.base.errors import InputError

from ..rivals.knn import MDTW
from ..rivals.ldmlt import LDMLT
from . import dtw_peers
from .output import bench_console, table, write_json

WIDTH = 10
# Channels and training windows: the sizes of the paper's single accelerometer and of its motion
# capture, seven and five states of about 500 windows.
SIZES = {3: 3500, 27: 2500}
RUN = 500
CASES = {
    "stream": "test windows follow each other as in a stream",
    "random": "test windows drawn at random from a stream",
    "noise": "unrelated windows of noise: nothing overlaps and nothing can be skipped",
}
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


@dataclass(frozen=True)
class Search:
    """The search of one system on one set of windows.

    ``ratio`` is its time over ours; ``agrees`` says whether every nearest distance is the same.
    """

    case: str
    channels: int
    n_train: int
    n_test: int
    system: str
    version: str
    seconds: float | None
    ratio: float | None
    agrees: bool | None
    note: str = ""


def make_windows(
    case: str, n_train: int, n_test: int, channels: int, seed: int = 0
) -> tuple[Floats, Floats]:
    """Training and test windows, (n, w, d): about 500 windows per state, tests from later steps.

    A state is a periodic movement of its own over a slow drift, so that, as in recordings, most
    windows are far from most others and some states are close.
    """
    rng = np.random.default_rng(seed)
    if case == "noise":
        shape = (WIDTH, channels)
        return rng.normal(size=(n_train, *shape)), rng.normal(size=(n_test, *shape))
    n_states = max(1, round(n_train / RUN))
    train, test = [], []
    for state in range(n_states):
        n = n_train * (state + 1) // n_states - n_train * state // n_states
        m = n_test * (state + 1) // n_states - n_test * state // n_states
        # Random test windows are spread thinly, so that hardly any two follow each other.
        length = 20 * m if case == "random" else m
        values = _movement(rng, n + length + 3 * WIDTH, channels)
        windows = sliding_window_view(values, WIDTH, axis=0).transpose(0, 2, 1)
        train.append(windows[:n])
        later = windows[n + WIDTH : n + WIDTH + length]
        rows = np.sort(rng.choice(length, m, replace=False)) if case == "random" else slice(None)
        test.append(later[rows])
    return np.concatenate(train), np.concatenate(test)


def _movement(rng: np.random.Generator, length: int, channels: int) -> Floats:
    time_ = np.arange(length)[:, None, None]
    frequency = rng.uniform(0.005, 0.12, (1, 3, 1))
    phase = rng.uniform(0, 2 * np.pi, (1, 3, channels))
    size = rng.gamma(1.0, 0.5, (1, 3, channels))
    values = (size * np.sin(2 * np.pi * frequency * time_ + phase)).sum(axis=1)
    # A drift that stays within bounds, with a memory of 500 steps.
    drift = lfilter([0.03], [1.0, -0.998], rng.normal(size=(length, channels)), axis=0)
    level = rng.normal(size=channels) * 0.7
    result: Floats = values + drift + level + rng.normal(size=(length, channels)) * 0.15
    return result


def run(
    cases: tuple[str, ...] = ("stream",),
    peers: tuple[str, ...] = tuple(dtw_peers.PEERS),
    *,
    n_test: int = 2000,
    sizes: dict[int, int] | None = None,
    peer_python: str | None = None,
    seed: int = 0,
) -> Iterator[Search]:
    """The measurements, one after the other.

    Parameters
    ----------
    cases : names among ``CASES``
    peers : names among ``dtw_peers.PEERS``
    n_test : int
    sizes : channels to training windows, default ``SIZES``
    peer_python : path of the Python that has the peers, default this one
    """
    for kind, given, known in (("case", cases, CASES), ("peer", peers, dtw_peers.PEERS)):
        for name in given:
            if name not in known:
                raise InputError(f"no {kind} named {name!r}; choose among {', '.join(known)}")
    for case in cases:
        for channels, n_train in (sizes or SIZES).items():
            train, test = make_windows(case, n_train, n_test, channels, seed)
            where = (case, channels, n_train, n_test)
            labels = np.zeros(n_train, dtype=int)
            with threadpool_limits(1):
                seconds = _timed(lambda: MDTW().fit(train, labels).kneighbors(test))  # noqa: B023
                ours = MDTW().fit(train, labels).kneighbors(test)[0][:, 0]
            yield Search(*where, "mlat MDTW", __version__, seconds, 1.0, True)
            for peer in peers:
                yield _peer_row(where, peer, train, test, ours, seconds, peer_python)


def run_ldmlt(n: int = 700, channels: int = 27, seed: int = 0) -> Search:
    """Learning time of LDMLT on ``n`` random windows of seven states."""
    X, _ = make_windows("stream", 7 * RUN, 7, channels, seed)
    rows = np.sort(np.random.default_rng(seed).choice(len(X), n, replace=False))
    # No tolerance: every cycle is run, which is the longest it can take.
    model = LDMLT(tol=0.0)
    with threadpool_limits(1):
        seconds = _timed(lambda: model.fit(X[rows], rows // RUN), repeats=1)
    cycles = f"{len(model.history_) - 1} cycles"
    return Search("fit", channels, n, 0, "mlat LDMLT", __version__, seconds, None, None, cycles)


def _timed(work: Callable[[], object], repeats: int = 3) -> float:
    """The median CPU time of some calls after a first one, which may compile."""
    times = []
    for _ in range(repeats + 1):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return float(np.median(times[1:]))


def _peer_row(
    where: tuple[str, int, int, int],
    peer: str,
    train: Floats,
    test: Floats,
    ours: Floats,
    seconds: float,
    python: str | None,
) -> Search:
    with tempfile.TemporaryDirectory() as folder:
        windows, result = Path(folder, "windows.npz"), Path(folder, "result.npz")
        np.savez(windows, train=train, test=test)
        command = [python or sys.executable, dtw_peers.__file__, peer, str(windows), str(result)]
        try:
            done = subprocess.run(
                command, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise InputError(f"cannot run {command[0]}: {error.strerror}") from None
        if done.returncode:
            why = (done.stderr.strip() or "failed").splitlines()[-1]
            return Search(*where, peer, "", None, None, None, why)
        found = np.load(result)
        theirs = float(found["seconds"])
        agrees = bool(np.allclose(found["distances"], ours, rtol=1e-6, atol=1e-9))
        return Search(*where, peer, str(found["version"]), theirs, theirs / seconds, agrees)


def main(
    case: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(CASES)}; default stream.")
    ] = None,
    peer: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(dtw_peers.PEERS)}; default all.")
    ] = None,
    test: Annotated[int, typer.Option(min=1, help="Test windows.")] = 2000,
    peer_python: Annotated[
        Path | None, typer.Option(help="The Python that has the peers; default this one.")
    ] = None,
    ldmlt: Annotated[bool, typer.Option(help="Time LDMLT on 700 windows too.")] = True,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Also write JSON here.")] = None,
) -> None:
    """Nearest neighbours under DTW: CPU seconds and ratios, against the peers that are there."""
    console = bench_console()
    python = None if peer_python is None else str(peer_python)
    peers = tuple(dtw_peers.PEERS) if peer is None else tuple(peer)
    rows = []
    for row in run(tuple(case or ["stream"]), peers, n_test=test, peer_python=python):
        rows.append(row)
        console.print(f"[dim]{row.case} d={row.channels} {row.system}: {_seconds(row)}")
    if ldmlt:
        rows.append(run_ldmlt())
    _show(rows, console)
    write_json(out, [asdict(row) for row in rows])


def _seconds(row: Search) -> str:
    return row.note if row.seconds is None else f"{row.seconds:.3f} s"


def _show(rows: list[Search], console: Console) -> None:
    cells = [
        (
            row.case,
            f"{row.system} {row.version}",
            str(row.channels),
            f"{row.n_test} × {row.n_train}" if row.n_test else str(row.n_train),
            "" if row.seconds is None else f"{row.seconds:.3f}",
            "" if row.ratio is None else f"{row.ratio:.1f}",
            {True: "yes", False: "no", None: ""}[row.agrees],
        )
        for row in rows
    ]
    title = "1-NN under dependent multivariate DTW, w=10, CPU time, one thread"
    headings = ("case", "system", "d", "windows", "CPU s", "times ours", "same")
    console.print(table(title, headings, cells, left=2))


if __name__ == "__main__":
    typer.run(main)
