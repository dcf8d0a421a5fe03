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
from contextlib import ExitStack
from typing import Annotated, Any

import numpy as np
import typer
from threadpoolctl import threadpool_limits

from mlat.base import progress
from mlat.base.errors import InputError
from mlat.cluster.dask.client import connect, import_distributed
from mlat.cluster.dask.fit import fit
from mlat.metric.estimators import LMNN, MLAT
from mlat.stream.windows import Windows

from .fit import Size, make_windows
from .harness import Bench, Row, add_ratio, peak_mb

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


def measure_here(system: str, windows: Windows, n_iter: int) -> tuple[Row, Any]:
    """The fit in this process, on one thread."""
    metric = SYSTEMS[system](max_iter=n_iter, tol=0.0)
    clock = Clock()
    with progress.listen(clock), threadpool_limits(1):
        metric.fit(windows)
    return _row(system, "local", clock, clock.per_iteration()[1], peak_mb(), metric), metric


def measure_there(
    client: Any, system: str, windows: Windows, n_iter: int, shards: int | None, here: Any
) -> Row:
    """The fit on the workers of a client."""
    metric = SYSTEMS[system](max_iter=n_iter, tol=0.0)
    client.run(_warm)
    clock = Clock(lambda: client.run(time.process_time))
    with progress.listen(clock):
        fitted = fit(client, metric, windows, shards=shards)
    after = client.run(time.process_time)
    busiest = max(after[worker] - clock.first.get(worker, 0.0) for worker in after)
    where = f"{len(after)} workers" if len(after) > 1 else "1 worker"
    # After the first iteration the others, and the loss at the end.
    cpu, peak = busiest / fitted.n_iter_, max(client.run(peak_mb).values())
    row = _row(system, where, clock, cpu, peak, fitted)
    if here is not None:
        apart = np.linalg.norm(fitted.metric_ - here.metric_)
        row["off"] = float(apart / np.linalg.norm(here.metric_))
    return row


def _row(system: str, where: str, clock: Clock, cpu: float, peak: float, metric: Any) -> Row:
    """One fit; times are of one iteration but for the beginning.

    ``begin`` is until the first iteration was done: windows sent, targets found. CPU seconds are of
    the process or of the busiest worker, and so is the memory. Bytes are between client and
    scheduler, also as a multiple of the parameters; through the scheduler as many again go to the
    workers. ``off`` is how far the metric is from that of one process, relative to it.
    """
    array = metric.taps_ if hasattr(metric, "taps_") else metric.components_
    seconds, _, moved = clock.per_iteration()
    is_there = where != "local"
    return {
        "system": system,
        "where": where,
        "begin_s": clock.notes[0][0] - clock.began,
        "s": seconds,
        "CPU_s": cpu,
        "kB": moved / 1e3 if is_there else None,
        "x_pars": moved / array.nbytes if is_there else None,
        "MB": peak,
        "_loss": metric.loss_,
        "off": None,
    }


def _warm() -> None:
    """Compile, or load what was compiled: an installation does it once."""
    windows = make_windows(Size(2, 40, 2, 3))
    for make in SYSTEMS.values():
        make(max_iter=2).fit(windows)


def on_workers(
    bench: Bench,
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
) -> None:
    """Learning beyond one machine: seconds, bytes and memory on 1 and 2 workers."""
    distributed = import_distributed()
    size = Size(5, n // 5, channels, width)
    windows, name = make_windows(size), str(size)
    rows: list[Row] = []
    for one in system or list(SYSTEMS):
        if one not in SYSTEMS:
            raise InputError(f"no system {one!r}; there are {', '.join(SYSTEMS)}")
        here = None
        if local:
            _warm()
            row, here = measure_here(one, windows, iterations)
            rows.append(row)
        for count in [0] if scheduler else workers or [1, 2]:
            bench.say(f"{name}: {one}, {scheduler or count}")
            with ExitStack() as stack:
                if scheduler is not None:
                    client = stack.enter_context(connect(scheduler))
                else:
                    cluster = distributed.LocalCluster(
                        n_workers=count,
                        threads_per_worker=1,
                        dashboard_address=":0",
                        memory_limit=0,
                    )
                    stack.enter_context(cluster)
                    client = stack.enter_context(distributed.Client(cluster, set_as_default=False))
                rows.append(measure_there(client, one, windows, iterations, shards, here))
    add_ratio(rows, "x_local", "s", ("where", "local"), ["system"])
    bench.table(f"Learning on a Dask cluster, per iteration: {name}", rows, left=2)
    bench.keep(rows)
