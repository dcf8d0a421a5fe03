"""Learning on a Dask cluster of this machine against learning in one process.

Measured on real worker processes of one thread each: seconds per iteration, the CPU seconds of the
busiest worker, bytes moved per iteration, memory per worker. On a machine that is busy with other
things the CPU seconds are the steadier figure.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from threadpoolctl import threadpool_limits

from mlat.base import progress
from mlat.base.errors import InputError
from mlat.cluster.dask.client import connect, import_distributed
from mlat.cluster.dask.fit import fit
from mlat.metric.estimators import LMNN, MLAT
from mlat.stream.windows import Windows

from .fit import Size, make_windows
from .output import bench_console, peak_mb, table, write_json

# Within Linux's tcp_info: acknowledged and received bytes.
_ACKED = 120
_LENGTH = 136


def bytes_moved() -> int:
    """Bytes sent and received by this process's open TCP connections, both ways together."""
    if sys.platform != "linux":
        raise InputError(
            f"bytes are counted by Linux's counters of connections, which {sys.platform} has not; "
            "measure on Linux"
        )
    total = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                if connection.type != socket.SOCK_STREAM or connection.family == socket.AF_UNIX:
                    continue
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LENGTH)
                if len(info) == _LENGTH:
                    total += sum(struct.unpack_from("<QQ", info, _ACKED))
        except OSError:  # gone in the meantime
            continue
    return total


SYSTEMS: dict[str, Callable[..., Any]] = {"filter": MLAT, "lmnn": LMNN}


@dataclass(frozen=True)
class ClusterFit:
    """One fit, here or on workers; times are of one iteration but for ``begin``, memory in MB.

    Attributes
    ----------
    begin : float
        Seconds before the first iteration was done: windows sent, targets found.
    cpu : float
        CPU seconds of the process, or of the busiest worker.
    moved : float
        Bytes between client and scheduler; through the scheduler as many again go to the workers.
    parameters : int
        Bytes of the parameters.
    peak : float
        The largest memory of a worker, or of the process.
    off : float
        How far the metric is from that of one process, relative to it, where both are known.
    """

    problem: str
    system: str
    where: str
    n_iter: int
    begin: float
    seconds: float
    cpu: float
    moved: float
    parameters: int
    peak: float
    loss: float
    off: float | None = None


class Clock:
    """Notes at every iteration the time, the CPU time and the bytes moved.

    ``at_first`` is called when the first iteration is done, before the time is taken.
    """

    def __init__(self, at_first: Callable[[], Any] = lambda: None) -> None:
        self.began = time.perf_counter()
        self.at_first = at_first
        self.notes: list[tuple[float, float, float]] = []

    def __call__(self, report: progress.Report) -> None:
        if not self.notes:
            self.first = self.at_first()
        self.notes.append((time.perf_counter(), time.process_time(), bytes_moved()))

    def per_iteration(self) -> tuple[float, float, float]:
        first, last = self.notes[0], self.notes[-1]
        n = max(len(self.notes) - 1, 1)
        seconds, cpu, moved = ((b - a) / n for a, b in zip(first, last, strict=True))
        return seconds, cpu, moved


def measure_here(system: str, windows: Windows, n_iter: int, name: str) -> tuple[ClusterFit, Any]:
    """The fit in this process, on one thread."""
    metric = SYSTEMS[system](max_iter=n_iter, tol=0.0)
    clock = Clock()
    with progress.listen(clock), threadpool_limits(1):
        metric.fit(windows.X, windows.y, start=windows.start, run=windows.run)
    seconds, cpu, _ = clock.per_iteration()
    row = ClusterFit(
        name,
        system,
        "local",
        metric.n_iter_,
        clock.notes[0][0] - clock.began,
        seconds,
        cpu,
        0.0,
        _parameters(metric),
        peak_mb(),
        metric.loss_,
    )
    return row, metric


def measure_there(
    client: Any,
    system: str,
    windows: Windows,
    n_iter: int,
    name: str,
    shards: int | None,
    here: Any,
) -> ClusterFit:
    """The fit on the workers of a client."""
    metric = SYSTEMS[system](max_iter=n_iter, tol=0.0)
    client.run(_warm)
    clock = Clock(lambda: client.run(time.process_time))
    with progress.listen(clock):
        fitted = fit(client, metric, windows, shards=shards)
    after = client.run(time.process_time)
    seconds, _, moved = clock.per_iteration()
    busiest = max(after[worker] - clock.first.get(worker, 0.0) for worker in after)
    off = None
    if here is not None:
        apart = np.linalg.norm(fitted.metric_ - here.metric_)
        off = float(apart / np.linalg.norm(here.metric_))
    return ClusterFit(
        name,
        system,
        f"{len(after)} workers" if len(after) > 1 else "1 worker",
        fitted.n_iter_,
        clock.notes[0][0] - clock.began,
        seconds,
        busiest / fitted.n_iter_,  # after the first iteration the others, and the loss at the end
        moved,
        _parameters(fitted),
        max(client.run(peak_mb).values()),
        fitted.loss_,
        off,
    )


def _parameters(metric: Any) -> int:
    array = metric.taps_ if hasattr(metric, "taps_") else metric.components_
    return int(array.nbytes)


def _warm() -> None:
    """Compile, or load what was compiled: an installation does it once."""
    windows = make_windows(Size(2, 40, 2, 3))
    for make in SYSTEMS.values():
        make(max_iter=2).fit(windows.X, windows.y, start=windows.start, run=windows.run)


def show(rows: list[ClusterFit], console: Console) -> None:
    local = {r.system: r.seconds for r in rows if r.where == "local"}
    cells = [
        (
            r.system,
            r.where,
            f"{r.begin:.1f}",
            f"{r.seconds:.2f}",
            f"{r.seconds / local[r.system]:.2f}" if r.system in local else "",
            f"{r.cpu:.2f}",
            f"{r.moved / 1e3:.0f}" if r.moved else "",
            f"{r.moved / r.parameters:.1f}" if r.moved else "",
            f"{r.peak:.0f}",
            "" if r.off is None else f"{r.off:.0e}",
        )
        for r in rows
    ]
    title = f"Learning on a Dask cluster, per iteration: {rows[0].problem}"
    headings = ("system", "where", "begin s", "s", "x local", "CPU s", "kB", "x pars", "MB", "off")
    console.print(table(title, headings, cells, left=2))


def main(
    n: Annotated[int, typer.Option(min=100, help="Windows.")] = 20_000,
    channels: Annotated[int, typer.Option(min=1)] = 8,
    width: Annotated[int, typer.Option(min=1)] = 10,
    iterations: Annotated[int, typer.Option(min=2)] = 10,
    system: Annotated[list[str] | None, typer.Option(help="filter, lmnn; default both.")] = None,
    workers: Annotated[list[int] | None, typer.Option(help="Default 1 and 2.")] = None,
    shards: Annotated[int | None, typer.Option(min=1, help="Default one for each worker.")] = None,
    local: Annotated[bool, typer.Option(help="Also in this process, to compare with.")] = True,
    scheduler: Annotated[
        str | None, typer.Option(help="Measure on the workers of this Dask scheduler instead.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the figures to this JSON file.")] = None,
) -> None:
    """Learning beyond one machine: seconds, bytes and memory on 1 and 2 workers."""
    console = bench_console()
    distributed = import_distributed()
    size = Size(5, n // 5, channels, width)
    windows, name = make_windows(size), str(size)
    rows: list[ClusterFit] = []
    for one in system or list(SYSTEMS):
        if one not in SYSTEMS:
            raise InputError(f"no system {one!r}; there are {', '.join(SYSTEMS)}")
        here = None
        if local:
            _warm()
            row, here = measure_here(one, windows, iterations, name)
            rows.append(row)
        for count in [0] if scheduler else workers or [1, 2]:
            console.print(f"{name}: {one}, {scheduler or count}")
            what = (one, windows, iterations, name, shards, here)
            if scheduler is not None:
                with connect(scheduler) as client:
                    rows.append(measure_there(client, *what))
                continue
            with (
                distributed.LocalCluster(
                    n_workers=count,
                    threads_per_worker=1,
                    dashboard_address=":0",
                    memory_limit=0,
                ) as cluster,
                distributed.Client(cluster, set_as_default=False) as client,
            ):
                rows.append(measure_there(client, *what))
    show(rows, console)
    write_json(out, [asdict(row) for row in rows])
