"""Many keyed streams on Spark Structured Streaming, which keeps the state of each."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from ..classifier import StreamClassifier
from ..errors import InputError
from ..files.model_file import load, save
from ..live.model import LiveModel
from .spark_columns import check_columns, rows_for_workers, schema_told, time_kind
from .spark_push import Task, stateful, whole
from .spark_sessions import import_pyspark

# Nobody teaches here, so what teaching would need is not kept for each of the streams.
DEFAULTS = {"teachable": 1, "max_taught": 0}


def spark_classify(
    df: Any,
    model: StreamClassifier | str | os.PathLike[str],
    *,
    key: str | Sequence[str],
    time: str | None = None,
    values: Sequence[str] | None = None,
    seq: str | None = None,
    **options: Any,
) -> Any:
    """Predictions for the sensor rows of a DataFrame, each key a stream of its own.

    Each stream is told as :meth:`mlat.live.LiveModel.push` would tell it alone. The state of each
    is kept by Spark, with the query's checkpoint: after a fault it goes on where it was, and with
    a source that can be read again and a sink that takes a batch once no prediction is lost and
    none is doubled.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Streaming, from any source; or a batch, of which every key is then a whole stream.
    model : fitted StreamClassifier, or the path of a model file
        It is sent to each executor once.
    key : str or sequence of str
        The columns that tell the streams apart.
    time : str, optional
        A timestamp, or seconds.
    values : sequence of str, optional
        The columns of the model's channels, in their order; default the columns of their names.
        A null is a missing value.
    seq : str, optional
        The source's own whole numbers of the rows of a key. One of ``seq`` and ``time`` is needed.
    **options
        See :class:`~mlat.live.options.LiveOptions`. ``order_by`` is by default ``"seq"`` where
        that is given, else ``"time"``.

    Returns
    -------
    predictions : pyspark.sql.DataFrame
        The key's own columns, and ``step``, ``seq``, ``time``, ``state``, ``proba``, ``distance``,
        ``why`` and ``neighbours`` as in :class:`~mlat.live.prediction.Prediction`; null where there
        is none. Its output mode is append.

    Notes
    -----
    Rows without a key, or without the seq or the time that was named, are left out.
    """
    import_pyspark()
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as f

    if not isinstance(df, DataFrame):
        raise InputError(f"df must be a Spark DataFrame, not {type(df).__name__}")
    if not hasattr(df, "_jdf"):
        raise InputError("a Spark Connect session cannot send the model; use a classic one")
    clf, data = _read(model)
    columns = check_columns(df, key, time, seq, values, clf.channels_)
    chosen = {**DEFAULTS, "order_by": "time" if seq is None else "seq", **options}
    _check_order(chosen["order_by"], seq, time)
    # Here, so that an option that is not one is told before the query begins.
    live = LiveModel(clf, **chosen)
    kind = time_kind(df, columns)
    task = Task(
        df.sparkSession.sparkContext.broadcast(data),
        hashlib.sha256(data).hexdigest(),
        tuple(sorted(live.options.as_dict().items())),
        columns.told,
        len(columns.keys),
        seq is not None,
        kind,
    )
    rows, schema = rows_for_workers(df, columns), schema_told(df, columns, _numbered(clf))
    grouped = rows.groupBy(*[f"key{i}" for i in range(len(columns.keys))])
    if df.isStreaming:
        told = grouped.applyInPandasWithState(
            stateful(task), schema, "state BINARY", "append", "NoTimeout"
        )
    else:
        told = grouped.applyInPandas(whole(task), schema)
    return told.withColumn("time", f.timestamp_micros("time")) if kind == "micros" else told


def _read(model: Any) -> tuple[StreamClassifier, bytes]:
    """The classifier, and the bytes of its file."""
    if isinstance(model, str | os.PathLike):
        return load(model), Path(model).read_bytes()
    if not isinstance(model, StreamClassifier):
        raise InputError(
            "model must be a fitted StreamClassifier or the path of a model file, not "
            + type(model).__name__
        )
    check_is_fitted(model, "features_")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model"
        save(model, file)
        return model, file.read_bytes()


def _check_order(order_by: Any, seq: str | None, time: str | None) -> None:
    if order_by == "none":
        raise InputError('Spark keeps rows in no order; give order_by="seq" or order_by="time"')
    for name, column in (("seq", seq), ("time", time)):
        if order_by == name and column is None:
            raise InputError(f'order_by="{name}" needs the column of it; name it with {name}=')


def _numbered(clf: StreamClassifier) -> bool:
    return clf.classes_.dtype.kind != "U"
