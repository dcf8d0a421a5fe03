"""Very many windows of a real stream, Vicon's: learning from them, and live steps among them.

The windows are those of ten steps. For learning they are of all recordings, of which the first are
taken until there are as many as wanted. For live steps the last two seconds of each recording are
held out: some of them give a session some steps, one at a time, after what a window needs. The
distance is the Euclidean one there, which both searches know, and a time the CPU time of one
thread in the mean over steps, from raw channels to a prediction.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer
from threadpoolctl import threadpool_limits

from mlat.classifier.classifier import StreamClassifier
from mlat.metric.estimators import MLAT
from mlat.stream.stream import Stream
from mlat.stream.windows import sliding_windows

from ..datasets.loaders import load_vicon
from .harness import Bench, Row, Stopwatch, peak_mb

WIDTH, HELD_OUT, STEPS = 10, 400, 20
SEARCHES = {"exact": "clusters", "incremental": "running sums"}


def recordings(data: str) -> list[Stream]:
    """Whole recordings of all people, those without a lost marker at their end."""
    found = []
    for person, stream in load_vicon(data).items():
        assert stream.recordings is not None
        for name in dict.fromkeys(stream.recordings.tolist()):
            one = stream[np.flatnonzero(stream.recordings == name)]
            if len(one) > 2 * HELD_OUT and not np.isnan(one.values[-HELD_OUT:]).any():
                names = [f"{person} {name}"] * len(one)
                found.append(
                    Stream(one.values, one.states, recordings=names, channels=one.channels)
                )
    return found


def first(whole: list[Stream], most: int) -> Stream:
    """The first recordings that have so many windows together, or all."""
    total, given = 0, []
    for one in whole:
        if total < most:
            given.append(one)
            total += len(one) - WIDTH + 1
    return Stream.join(given)


def learn(stream: Stream) -> Row:
    windows = sliding_windows(stream, WIDTH)
    with Stopwatch() as spent:
        metric = MLAT().fit(windows)
    return {
        "windows": len(windows),
        "states": len(set(windows.y.tolist())),
        "clock_s": spent.clock,
        "CPU_s": spent.cpu,
        "peak_MB": peak_mb(),
        "loss": metric.loss_,
        "used": metric.n_windows_used_ or len(windows),
        "bound": float(metric.loss_bound_ or 0.0),
    }


def step_ms(clf: StreamClassifier, tests: list[Any], search: str) -> float:
    """Milliseconds of a step, the mean over some of every recording."""
    live = clf.live(search=search)
    taken = []
    for values in tests:
        live.push(np.full((1, values.shape[1]), np.nan))  # a gap: another recording begins
        live.push(values[: 2 * WIDTH])
        for one in values[2 * WIDTH : 2 * WIDTH + STEPS]:
            with Stopwatch() as spent:
                live.push(one[None])
            taken.append(spent.cpu)
    return 1e3 * float(np.mean(taken))


def many_steps(
    bench: Bench,
    data: Annotated[str, typer.Argument(help="A folder or zip with the Vicon set.")],
    windows: Annotated[
        list[int] | None, typer.Option(help="How many; several times; default 16000, 50000, all.")
    ] = None,
    learning: Annotated[bool, typer.Option(help="Learn from windows.")] = True,
    live: Annotated[bool, typer.Option(help="Take live steps among references.")] = True,
) -> None:
    """Very many windows of a real stream: learning from them, and live steps among them."""
    whole = recordings(data)
    figures: dict[str, list[Row]] = {"learned": [], "stepped": []}
    if learning:
        small = sliding_windows(Stream.join(whole[:2]), WIDTH)
        MLAT(max_iter=2, working_set=True).fit(small.X, small.y)  # compile
        for n in windows or [16_000, 50_000, 10**9]:
            figures["learned"].append(learn(first(whole, n)))
            bench.keep(figures)
    title = "Learning from many windows of Vicon"
    bench.table(title, figures["learned"], left=0, percent=("bound",))
    tests = [one.values[-HELD_OUT:] for one in whole[:: max(1, len(whole) // 20)]]
    given = [one[: len(one) - HELD_OUT] for one in whole]
    with threadpool_limits(1):
        for n in (windows or [20_000, 50_000, 10**9]) if live else ():
            clf = StreamClassifier(WIDTH, metric="euclidean").fit(first(given, n))
            (expert,) = clf.experts_
            row: Row = {"references": len(clf.references_), "read": expert.by_class.share_left}
            row |= {f"{name}, ms": step_ms(clf, tests, search) for search, name in SEARCHES.items()}
            figures["stepped"].append({**row, "chosen": SEARCHES[clf.live().model.search]})
            bench.keep(figures)
    title = "A live step among many references of Vicon"
    bench.table(title, figures["stepped"], left=0, percent=("read",))
