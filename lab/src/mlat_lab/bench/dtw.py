"""Speed of the DTW rivals against other libraries, on the same windows in one run.

CPU time, one thread: what is compared is the work, not the number of processors.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.lib.stride_tricks import sliding_window_view
from scipy.signal import lfilter
from threadpoolctl import threadpool_limits

from mlat import __version__
from mlat.base.checks import Floats
from mlat.base.errors import InputError

from ..rivals.knn import MDTW
from ..rivals.ldmlt import LDMLT
from ..rivals.lmnn_dtw import LMNNDTW, Problem, nearest_targets
from .apart import SEARCHES as PEERS
from .harness import Bench, Row, Stopwatch, cpu_seconds, peak_mb, run_apart

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
    peers: tuple[str, ...] = tuple(PEERS),
    *,
    n_test: int = 2000,
    sizes: dict[int, int] | None = None,
    peer_python: str | None = None,
    seed: int = 0,
) -> Iterator[Row]:
    """The measurements, one after the other.

    ``times_ours`` is a system's time over ours; ``same`` says whether every nearest distance is.

    Parameters
    ----------
    cases : names among ``CASES``
    peers : names among ``PEERS``
    n_test : int
    sizes : channels to training windows, default ``SIZES``
    peer_python : path of the Python that has the peers, default this one
    """
    for kind, given, known in (("case", cases, CASES), ("peer", peers, PEERS)):
        for name in given:
            if name not in known:
                raise InputError(f"no {kind} named {name!r}; choose among {', '.join(known)}")
    for case in cases:
        for channels, n_train in (sizes or SIZES).items():
            train, test = make_windows(case, n_train, n_test, channels, seed)
            where = {"case": case, "d": channels, "windows": f"{n_test} × {n_train}"}
            labels = np.zeros(n_train, dtype=int)
            with threadpool_limits(1):
                taken = cpu_seconds(lambda: MDTW().fit(train, labels).kneighbors(test))  # noqa: B023
                ours = MDTW().fit(train, labels).kneighbors(test)[0][:, 0]
            seconds = float(np.median(taken))
            ours_row = {"CPU_s": seconds, "times_ours": 1.0, "same": True}
            yield {"system": f"mlat MDTW {__version__}", **where, **ours_row}
            for peer in peers:
                found = run_apart(peer, {"train": train, "test": test}, peer_python)
                if isinstance(found, str):
                    yield {"system": peer, **where, "CPU_s": None, "_note": found}
                    continue
                theirs = float(found["seconds"])
                agrees = bool(np.allclose(found["distances"], ours, rtol=1e-6, atol=1e-9))
                row = {"CPU_s": theirs, "times_ours": theirs / seconds, "same": agrees}
                yield {"system": f"{peer} {found['version']}", **where, **row}


def run_ldmlt(n: int = 700, channels: int = 27, seed: int = 0) -> Row:
    """Learning time of LDMLT on ``n`` random windows of seven states."""
    X, _ = make_windows("stream", 7 * RUN, 7, channels, seed)
    rows = np.sort(np.random.default_rng(seed).choice(len(X), n, replace=False))
    # No tolerance: every cycle is run, which is the longest it can take.
    model = LDMLT(tol=0.0)
    with threadpool_limits(1):
        (seconds,) = cpu_seconds(lambda: model.fit(X[rows], rows // RUN), repeats=1)
    cycles = f"{len(model.history_) - 1} cycles"
    where = {"case": f"fit, {cycles}", "d": channels, "windows": str(n)}
    return {"system": f"mlat LDMLT {__version__}", **where, "CPU_s": seconds}


def searching(
    bench: Bench,
    case: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(CASES)}; default stream.")
    ] = None,
    peer: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(PEERS)}; default all.")
    ] = None,
    test: Annotated[int, typer.Option(min=1, help="Test windows.")] = 2000,
    peer_python: Annotated[
        Path | None, typer.Option(help="The Python that has the peers; default this one.")
    ] = None,
    ldmlt: Annotated[bool, typer.Option(help="Time LDMLT on 700 windows too.")] = True,
) -> None:
    """Nearest neighbours under DTW: CPU seconds and ratios, against the peers that are there."""
    python = None if peer_python is None else str(peer_python)
    peers = tuple(PEERS) if peer is None else tuple(peer)
    rows = []
    for row in run(tuple(case or ["stream"]), peers, n_test=test, peer_python=python):
        rows.append(row)
        took = row["_note"] if row["CPU_s"] is None else f"{row['CPU_s']:.3f} s"
        bench.say(f"[dim]{row['case']} d={row['d']} {row['system']}: {took}")
    if ldmlt:
        rows.append(run_ldmlt())
    title = "1-NN under dependent multivariate DTW, w=10, CPU time, one thread"
    bench.table(title, rows, left=2)
    bench.keep(rows)


def aligning(
    bench: Bench,
    case: Annotated[str, typer.Argument(help=", ".join(CASES))] = "stream",
    channels: Annotated[int, typer.Argument(help="3 or 27.")] = 3,
) -> None:
    """LMNN-DTW: one alignment, and a whole fit, in CPU seconds on one thread.

    An alignment decides on every pair of windows of different labels and gives the paths of those
    within a margin; beside it stands MDTW's search for one nearest window.
    """
    if case not in CASES or channels not in SIZES:
        raise InputError(f"no case {case} {channels}; there are {', '.join(CASES)}, 3 and 27")
    n, n_test = SIZES[channels], 2000
    train, test = make_windows(case, n, n_test, channels)
    codes = np.arange(n) // RUN
    rows: list[Row] = []
    with threadpool_limits(1):
        searched = MDTW().fit(train, codes)
        seconds = min(cpu_seconds(lambda: searched.kneighbors(test)))
        pace = f"{n_test * n / seconds / 1e6:.1f} M pairs/s"
        rows.append({"what": f"MDTW, 1-NN of {n_test}", "CPU_s": seconds, "about": pace})
        targets = nearest_targets(train, codes, 3, band=WIDTH, start=np.arange(n), run=codes)
        problem = Problem(train, codes, targets, 0.5, WIDTH)
        pairs = int((codes[:, None] < codes).sum())

        def align(when: str, L: Floats) -> None:
            aligned = problem.align(L)
            seconds = min(cpu_seconds(lambda: problem.align(L)))
            paths = 0 if aligned is None else len(aligned.loss.push.left)
            about = f"{pairs / seconds / 1e6:.1f} M pairs/s, {paths} paths of {pairs} pairs"
            what = f"LMNN-DTW, one alignment at the {when}"
            rows.append({"what": what, "CPU_s": seconds, "about": about})

        align("start", problem.start())
        for name, model in (("default", LMNNDTW()), ("as in paper", LMNNDTW.as_in_paper())):
            with Stopwatch() as spent:
                model.fit(train, codes)
            paths = max(r.n_listed for r in model.history_)
            about = f"{model.n_iter_} rounds, at most {paths} paths, peak {peak_mb():.0f} MB"
            about = f"{about}, {model.message_}"
            rows.append({"what": f"LMNN-DTW, fit {name}", "CPU_s": spent.cpu, "about": about})
        align("end", model.components_)
    title = f"{case}, d={channels}, {n} windows of {WIDTH} steps"
    bench.table(title, rows)
    bench.keep(rows)
