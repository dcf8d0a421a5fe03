"""Many windows: learning from a working set against the plain way, and searching them live.

CPU seconds within one run, of one thread unless more are given; a fit also by the clock. The
windows are those of a stream whose states turn at speeds of their own; a live step is one window
after the other of another stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from threadpoolctl import threadpool_limits

from mlat.base.checks import Floats, Ints
from mlat.base.errors import InputError
from mlat.metric.estimators import MLAT
from mlat.neighbours.search import ClassDistances
from mlat.stream.windows import Windows

from .fit import Size, make_windows
from .output import bench_console, peak_mb, table, write_json

SIZES = (2_000, 10_000, 50_000, 360_000)
N_STATES = 5
N_QUERIES = 200
WARM_UP = 20  # windows before the clock runs: a search begins where the last one ended
PLAIN = 10_000  # windows; beyond, every pair takes too long


@dataclass(frozen=True)
class Learned:
    """One fit: CPU seconds and those of the clock, the loss over all windows, how many were used.

    ``peak`` is the most memory that the process had taken until its end, in MB.
    """

    n_windows: int
    way: str
    seconds: float
    clock: float
    peak: float
    loss: float
    n_used: int
    bound: float


@dataclass(frozen=True)
class Searched:
    """One search: milliseconds a step, the share of references looked at, right nearest ones.

    ``share`` is None where a search does not tell; ``build`` are seconds.
    """

    n_references: int
    search: str
    build: float
    step: float
    share: float | None
    same: float


def measure_fit(windows: Windows, way: str) -> Learned:
    """Learn a metric in one way: working set, plain, or a device of PyTorch."""
    metric = MLAT(working_set=way == "working set")
    more = {} if way in ("working set", "plain") else {"device": way}
    began = time.process_time(), time.perf_counter()
    metric.fit(windows.X, windows.y, start=windows.start, run=windows.run, **more)
    return Learned(
        len(windows),
        way,
        time.process_time() - began[0],
        time.perf_counter() - began[1],
        peak_mb(),
        metric.loss_,
        metric.n_windows_used_ or len(windows),
        float(metric.loss_bound_ or 0.0),
    )


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
                   truth: Ints | None) -> tuple[Searched, Ints]:  # fmt: skip
    """Build one search, and ask it for one window after the other."""
    began = time.process_time()
    search = build()
    for q in queries[:WARM_UP]:
        search(q[None])
    built = time.process_time() - began
    clusters = getattr(getattr(search, "search", None), "clusters", None)
    before = 0 if clusters is None else clusters.n_looked_at
    taken, rows = [], []
    for q in queries[WARM_UP:]:
        began = time.process_time()
        rows.append(int(search(q[None])))
        taken.append(time.process_time() - began)
    share = None
    if name == "mlat":
        looked = 0 if clusters is None else clusters.n_looked_at - before
        share = looked / (n * len(taken)) if looked else 1.0  # a product with all of them
    found = np.array(rows)
    same = 1.0 if truth is None else float((found == truth).mean())
    return Searched(n, name, built, 1e3 * float(np.median(taken)), share, same), found


def show(learned: list[Learned], searched: list[Searched], size: str, console: Console) -> None:
    """Print the tables."""
    plain = {row.n_windows: row for row in learned if row.way == "plain"}
    cells: list[tuple[str, ...]] = [
        (
            f"{r.n_windows:,}",
            r.way,
            f"{r.seconds:.1f}",
            f"{r.clock:.1f}",
            f"{r.peak:,.0f}",
            f"{r.loss:.5g}",
            f"{r.loss / plain[r.n_windows].loss - 1:+.2%}" if r.n_windows in plain else "",
            f"{r.n_used:,}",
            f"{r.bound:.2%}",
        )
        for r in learned
    ]
    headings = ["windows", "way", "CPU s", "clock s", "MB", "loss", "to plain", "used", "bound"]
    if cells:
        console.print(table(f"Learning from many windows, {size}", headings, cells, left=2))
    steps = {r.n_references: r.step for r in searched if r.search == "mlat"}
    cells = [
        (
            f"{r.n_references:,}",
            r.search,
            f"{r.build:.1f}",
            f"{r.step:.3f}",
            f"{r.step / steps[r.n_references]:.1f}x" if r.n_references in steps else "",
            "" if r.share is None else f"{r.share:.1%}",
            f"{r.same:.1%}",
        )
        for r in searched
    ]
    headings = ["references", "search", "build s", "step ms", "x mlat", "looked at", "same nearest"]
    if cells:
        console.print(table(f"A live step among many references, {size}", headings, cells, left=2))


def main(
    windows: Annotated[list[int] | None, typer.Option(help="How many; several times.")] = None,
    channels: Annotated[int, typer.Option(min=1)] = 27,
    width: Annotated[int, typer.Option(min=1)] = 10,
    plain: Annotated[int, typer.Option(help="The most windows for the plain way.")] = PLAIN,
    learn: Annotated[bool, typer.Option(help="Measure learning.")] = True,
    search: Annotated[bool, typer.Option(help="Measure searching.")] = True,
    threads: Annotated[int, typer.Option(min=1, help="Of the libraries of linear algebra.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Write the figures to this JSON file.")] = None,
    dask: Annotated[
        bool, typer.Option("--dask", help="Learning on a Dask cluster instead; --dask --help.")
    ] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Many live streams on Spark instead; --spark --help.")
    ] = False,
) -> None:
    """Many windows: learning from them, and searching them at every live step."""
    console = bench_console()
    learned: list[Learned] = []
    searched: list[Searched] = []
    ways = ["working set", "plain", *_devices()]
    if search and find_spec("faiss") is None:
        console.print("without faiss, which is not installed (pip install faiss-cpu)")
    if dask or spark:  # the command takes them out, and starts the other benchmarks
        raise InputError("call main of mlat_lab.bench.scale or mlat_lab.bench.scale_spark")

    def keep() -> None:
        """What was measured so far: the largest sizes take long."""
        rows = {"learned": [asdict(r) for r in learned], "searched": [asdict(r) for r in searched]}
        write_json(out, rows)

    with threadpool_limits(threads):
        if learn:
            measure_fit(make_windows(Size(2, 60, 2, 3)), "plain")  # compile
        for n in windows or SIZES:
            some = make_windows(Size(N_STATES, n // N_STATES, channels, width))
            for way in ways if learn else ():
                if way != "plain" or n <= plain:
                    console.print(f"{len(some):,} windows: {way}")
                    learned.append(measure_fit(some, way))
                    keep()
            asked = Size(N_STATES, N_QUERIES, channels, width)
            for row in _search(some, asked, console) if search else ():
                searched.append(row)
                keep()
    show(learned, searched, f"d={channels}, w={width}", console)


def _search(some: Windows, asked: Size, console: Console) -> Iterator[Searched]:
    points = some.X.reshape(len(some), -1)
    queries = make_windows(asked, seed=2).X[:N_QUERIES].reshape(N_QUERIES, -1)
    codes = np.unique(some.y, return_inverse=True)[1]
    truth = None
    for name, build in searches(points, codes).items():
        console.print(f"{len(points):,} references: {name}")
        row, found = measure_search(name, build, len(points), queries, truth)
        truth = found if truth is None else truth
        yield row


def _devices() -> list[str]:
    """The GPU, where there is one."""
    if find_spec("torch") is None:
        return []
    import torch

    return ["cuda"] if torch.cuda.is_available() else []
