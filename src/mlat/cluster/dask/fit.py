"""Learning a metric on a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeVar

from sklearn.base import clone
from threadpoolctl import threadpool_limits

from ...base.errors import InputError
from ...metric.estimators import MarginMetric
from ...stream.stream import Stream
from ...stream.windows import Windows
from .client import check_client
from .problem import DaskProblem
from .sources import WindowSource, source_of_folder, source_of_streams, source_of_windows

Metric = TypeVar("Metric", bound=MarginMetric)


def fit(
    client: Any,
    metric: Metric,
    windows: Windows | Stream | Sequence[Stream] | str | os.PathLike[str],
    *,
    shards: int | None = None,
    stride: int = 1,
    **columns: Any,
) -> Metric:
    """Learn a metric from windows that are divided among the workers of a Dask client.

    The result is that of ``metric.fit`` on one machine, up to rounding: the loss is the same sum in
    another order. Each evaluation sends the parameters to the workers and partial losses and
    gradients back. The windows are sent once.

    Parameters
    ----------
    client : distributed.Client
        Of a cluster that runs already.
    metric : MLAT or LMNN
        It is not changed; a fitted copy is returned.
    windows : Windows, Streams or a folder
        Windows, a list of labelled streams (then the metric needs a ``width``), or a folder of
        Parquet files, one recording or more in each, which the workers read.
    shards : int, optional
        Parts that the windows are divided into; default one for each thread of the workers.
    stride : int, default=1
        For streams and folders: keep every ``stride``-th window of each run.
    **columns
        For a folder: ``label``, ``recording``, ``time``, ``channels``, ``unlabelled`` and
        ``max_gap`` as for :func:`mlat.read_stream`.

    Returns
    -------
    metric : MLAT or LMNN
        A fitted copy.
    """
    check_client(client)
    if not isinstance(metric, MarginMetric):
        raise InputError(f"metric must be MLAT or LMNN, not {type(metric).__name__}")
    fitted: Metric = clone(metric)
    fitted.check_parameters()
    source = _source(client, fitted, windows, stride, columns)
    index = source.index
    if fitted.width is not None and fitted.width != index.width:
        raise InputError(
            f"windows have {index.width} steps but the metric's width is {fitted.width}"
        )
    problem = DaskProblem(
        client,
        source,
        _n_shards(client, shards, len(index)),
        n_targets=fitted.n_targets_for(index.codes),
        gap=fitted.target_gap,
        push_weight=float(fitted.push_weight),
        shrinkage=float(fitted.shrinkage),
    )
    try:
        # What is left to do here is short: threads would cost more than they save.
        with threadpool_limits(1):
            fitted.n_features_in_ = index.width * index.n_channels
            fitted.fit_problem(problem, index.unit.exponent)
    finally:
        problem.release()
    return fitted


def _source(
    client: Any, metric: MarginMetric, windows: Any, stride: int, columns: dict[str, Any]
) -> WindowSource:
    if isinstance(windows, str | os.PathLike):
        return source_of_folder(client, windows, metric.width, stride, columns)
    if columns:
        raise InputError(f"{', '.join(columns)}: only a folder of files has columns to name")
    if isinstance(windows, Windows):
        if stride != 1:
            raise InputError("stride is for streams and folders; take the windows with that stride")
        return source_of_windows(windows)
    streams = [windows] if isinstance(windows, Stream) else list(windows)
    if not all(isinstance(stream, Stream) for stream in streams):
        raise InputError("windows must be Windows, Streams, or the path of a folder")
    return source_of_streams(streams, metric.width, stride)


def _n_shards(client: Any, shards: int | None, n: int) -> int:
    if shards is None:
        return max(1, min(sum(client.nthreads().values()), n))
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= n:
        raise InputError(f"shards must be a whole number from 1 to the {n} windows, not {shards!r}")
    return shards
