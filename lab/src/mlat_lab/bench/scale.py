"""Many windows: learning from a working set against the plain way, and searching them live.

CPU seconds within one run, of one thread unless more are given; a fit also by the clock. The
windows are those of a stream whose states turn at speeds of their own; a live step is one window
after the other of another stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
import typer
from threadpoolctl import threadpool_limits

from mlat.base.checks import Floats, Ints
from mlat.metric.estimators import MLAT
from mlat.neighbours.search import ClassDistances
from mlat.stream.windows import Windows

from .fit import Size, make_windows
from .harness import Bench, Row, Stopwatch, add_ratio, peak_mb

SIZES = (2_000, 10_000, 50_000, 360_000)
N_STATES = 5
N_QUERIES = 200
WARM_UP = 20  # windows before the clock runs: a search begins where the last one ended
PLAIN = 10_000  # windows; beyond, every pair takes too long


def measure_fit(windows: Windows, way: str) -> Row:
    """Learn a metric in one way: working set, plain, or a device of PyTorch."""
    metric = MLAT(working_set=way == "working set")
    more = {} if way in ("working set", "plain") else {"device": way}
    with Stopwatch() as spent:
        metric.fit(windows, **more)
    return {
        "windows": len(windows),
        "way": way,
        "CPU_s": spent.cpu,
        "clock_s": spent.clock,
        "MB": peak_mb(),  # the most that the process had taken until now
        "loss": metric.loss_,
        "used": metric.n_windows_used_ or len(windows),
        "bound": float(metric.loss_bound_ or 0.0),
    }


Search = Callable[[Floats], Any]  # from a point (1, r) to the row of its nearest reference


def searches(points: Floats, codes: Ints) -> dict[str, Callable[[], Search]]:
    """Every search that is there, to be built: ours, brute force, scikit-learn's, faiss's."""

    def ours() -> Search:
        search = ClassDistances(points, codes, int(codes.max()) + 1)

        def nearest(q: Floats) -> Any:
            distances, rows = search.query_rows(q)
            return rows[0, distances[0].argmin()]

        nearest.search = search  # type: ignore[attr-defined]
        return nearest

    def brute() -> Search:
        squares = np.einsum("ij,ij->i", points, points)
        return lambda q: (squares - 2 * (points @ q[0])).argmin()

    def tree(kind: str) -> Search:
        import sklearn.neighbors

        built = getattr(sklearn.neighbors, kind)(points)
        return lambda q: built.query(q, k=1)[1][0, 0]

    def of_faiss(exact: bool) -> Search:
        faiss: Any = import_module("faiss")  # not always there

        faiss.omp_set_num_threads(1)
        single, d = points.astype(np.float32), points.shape[1]
        index = faiss.IndexFlatL2(d) if exact else faiss.index_factory(d, "HNSW32")
        index.add(single)
        return lambda q: index.search(q.astype(np.float32), 1)[1][0, 0]

    found: dict[str, Callable[[], Search]] = {
        "mlat": ours,
        "numpy, all": brute,
        "scikit-learn BallTree": lambda: tree("BallTree"),
        "scikit-learn KDTree": lambda: tree("KDTree"),
    }
    if find_spec("faiss") is not None:
        found["faiss flat"] = lambda: of_faiss(True)
        found["faiss HNSW (approximate)"] = lambda: of_faiss(False)
    return found


def measure_search(name: str, build: Callable[[], Search], n: int, queries: Floats,
                   truth: Ints | None) -> tuple[Row, Ints]:  # fmt: skip
    """Build one search, and ask it for one window after the other."""
    with Stopwatch() as built:
        search = build()
        for q in queries[:WARM_UP]:
            search(q[None])
    clusters = getattr(getattr(search, "search", None), "clusters", None)
    before = 0 if clusters is None else clusters.n_looked_at
    taken, rows = [], []
    for q in queries[WARM_UP:]:
        with Stopwatch() as spent:
            rows.append(int(search(q[None])))
        taken.append(spent.cpu)
    share = None
    if name == "mlat":
        looked = 0 if clusters is None else clusters.n_looked_at - before
        share = looked / (n * len(taken)) if looked else 1.0  # a product with all of them
    found = np.array(rows)
    same = 1.0 if truth is None else float((found == truth).mean())
    row = {
        "references": n,
        "search": name,
        "build_s": built.cpu,
        "step_ms": 1e3 * float(np.median(taken)),
        "looked_at": share,  # None where a search does not tell
        "same_nearest": same,
    }
    return row, found


def many_windows(
    bench: Bench,
    windows: Annotated[list[int] | None, typer.Option(help="How many; several times.")] = None,
    channels: Annotated[int, typer.Option(min=1)] = 27,
    width: Annotated[int, typer.Option(min=1)] = 10,
    plain: Annotated[int, typer.Option(help="The most windows for the plain way.")] = PLAIN,
    learn: Annotated[bool, typer.Option(help="Measure learning.")] = True,
    search: Annotated[bool, typer.Option(help="Measure searching.")] = True,
    threads: Annotated[int, typer.Option(min=1, help="Of the libraries of linear algebra.")] = 1,
) -> None:
    """Many windows: learning from them, and searching them at every live step."""
    learned: list[Row] = []
    searched: list[Row] = []
    figures = {"learned": learned, "searched": searched}
    ways = ["working set", "plain", *_devices()]
    if search and find_spec("faiss") is None:
        bench.say("without faiss, which is not installed (pip install faiss-cpu)")
    with threadpool_limits(threads):
        if learn:
            measure_fit(make_windows(Size(2, 60, 2, 3)), "plain")  # compile
        for n in windows or SIZES:
            some = make_windows(Size(N_STATES, n // N_STATES, channels, width))
            for way in ways if learn else ():
                if way != "plain" or n <= plain:
                    bench.say(f"{len(some):,} windows: {way}")
                    learned.append(measure_fit(some, way))
                    bench.keep(figures)  # what was measured so far: the largest take long
            asked = Size(N_STATES, N_QUERIES, channels, width)
            for row in _search(some, asked, bench) if search else ():
                searched.append(row)
                bench.keep(figures)
    add_ratio(learned, "loss_of_plain", "loss", ("way", "plain"), ["windows"])
    add_ratio(searched, "x_mlat", "step_ms", ("search", "mlat"), ["references"])
    size, digits = f"d={channels}, w={width}", {"loss": 5, "loss_of_plain": 5}
    title = f"Learning from many windows, {size}"
    bench.table(title, learned, left=2, percent=("bound",), digits=digits)
    title = f"A live step among many references, {size}"
    bench.table(title, searched, left=2, percent=("looked_at", "same_nearest"))


def _search(some: Windows, asked: Size, bench: Bench) -> Iterator[Row]:
    points = some.X.reshape(len(some), -1)
    queries = make_windows(asked, seed=2).X[:N_QUERIES].reshape(N_QUERIES, -1)
    codes = np.unique(some.y, return_inverse=True)[1]
    truth = None
    for name, build in searches(points, codes).items():
        bench.say(f"{len(points):,} references: {name}")
        row, found = measure_search(name, build, len(points), queries, truth)
        truth = found if truth is None else truth
        yield row


def _devices() -> list[str]:
    """The GPU, where there is one."""
    if find_spec("torch") is None:
        return []
    import torch

    return ["cuda"] if torch.cuda.is_available() else []
