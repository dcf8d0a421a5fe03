"""Many keyed streams on Spark Structured Streaming, which keeps the state of each."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from ..base.errors import InputError, WorkerError, require_package
from ..classifier.classifier import StreamClassifier
from ..classifier.model_file import load, save
from ..live.core.model import LiveModel
from .push import Task, stateful, whole_streams

_REFUSED = re.compile(r"^\s*(?:[\w.]+\.)?InputError: (.+)$", re.MULTILINE)
PREDICTED = ("step", "seq", "time", "state", "proba", "distance", "why", "neighbours", "agreement")


@dataclass(frozen=True, slots=True)
class KeyedColumns:
    """Which columns of a DataFrame are what."""

    keys: tuple[str, ...]
    seq: str | None
    time: str | None
    values: tuple[str, ...]

    @property
    def predicted(self) -> tuple[str, ...]:
        """Those of the predictions."""
        return (*self.keys, *PREDICTED)


def check_columns(
    df: Any, key: Any, time: Any, seq: Any, values: Any, channels: Sequence[str]
) -> KeyedColumns:
    """Refuse names that the DataFrame has not, or with types that cannot be used."""
    keys = (key,) if isinstance(key, str) else tuple(key)
    if not keys:
        raise InputError("key must name the column that tells the streams apart")
    if time is None and seq is None:
        raise InputError("Spark keeps rows in no order; name the column of their seq or their time")
    if isinstance(values, str):
        values = (values,)
    given = tuple(channels if values is None else values)
    if values is None:
        lacks = [name for name in given if name not in df.columns]
        if lacks:
            raise InputError(
                f"the rows have no column {lacks[0]!r}, which the model was learned on (they have "
                f"{_list(df.columns)}); name the columns of its channels in their order with values"
            )
    for what, names in (("key", keys), ("time", (time,)), ("seq", (seq,)), ("values", given)):
        for name in names:
            if name is not None and name not in df.columns:
                raise InputError(
                    f"the rows have no column {name!r} for {what}; they have {_list(df.columns)}"
                )
    _check_channels(given, channels)
    found = KeyedColumns(keys, seq, time, given)
    _check_types(df, found)
    clash = [name for name in keys if name in PREDICTED]
    if clash:
        raise InputError(
            f"the key {clash[0]!r} has the name of a column of the predictions; rename it: "
            f"df.withColumnRenamed({clash[0]!r}, ...)"
        )
    return found


def _check_channels(given: tuple[str, ...], channels: Sequence[str]) -> None:
    if len(given) != len(channels):
        raise InputError(
            f"values names {len(given)} columns, the model was learned on {len(channels)} "
            f"channels: {_list(channels)}; name one for each, in their order"
        )
    if len(set(given)) < len(given):
        raise InputError(f"values names a column twice: {_list(given)}")
    if sorted(given) == sorted(channels) and given != tuple(channels):
        raise InputError(
            "values names the model's channels in another order; theirs is " + _list(channels)
        )


def _check_types(df: Any, columns: KeyedColumns) -> None:
    from pyspark.sql import types as t

    kinds = {field.name: field.dataType for field in df.schema.fields}
    whole = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
    times = (t.NumericType, t.TimestampType, t.TimestampNTZType)
    for name in columns.values:
        if not isinstance(kinds[name], t.NumericType):
            raise InputError(
                f"the column {name!r} of values holds {kinds[name].simpleString()}, not numbers; "
                "cast it"
            )
    if columns.seq is not None and not isinstance(kinds[columns.seq], whole):
        raise InputError(
            f"the column {columns.seq!r} of seq holds {kinds[columns.seq].simpleString()}, not "
            "whole numbers; cast it"
        )
    if columns.time is not None and not isinstance(kinds[columns.time], times):
        raise InputError(
            f"the column {columns.time!r} of time holds {kinds[columns.time].simpleString()}; "
            "cast it to a timestamp, or to seconds"
        )


def time_kind(df: Any, columns: KeyedColumns) -> str:
    """What the time goes to a worker as."""
    from pyspark.sql import types as t

    if columns.time is None:
        return "none"
    kind = df.schema[columns.time].dataType
    if isinstance(kind, t.TimestampType):
        return "micros"
    return "stamp" if isinstance(kind, t.TimestampNTZType) else "seconds"


def rows_for_workers(df: Any, columns: KeyedColumns) -> Any:
    """The key, seq, time and values, as the workers take them, of the rows that have the first
    three."""
    from pyspark.sql import functions as f

    kept = [_column(name).alias(f"key{i}") for i, name in enumerate(columns.keys)]
    there = [_column(name).isNotNull() for name in columns.keys]
    if columns.seq is not None:
        kept.append(_column(columns.seq).cast("long").alias("seq"))
        there.append(_column(columns.seq).isNotNull())
    if columns.time is not None:
        time, kind = _column(columns.time), time_kind(df, columns)
        there.append(time.isNotNull())
        if kind == "seconds":
            time = time.cast("double")
            there.append(f.abs(time) < float("inf"))  # NaN is above all numbers
        kept.append((f.unix_micros(time) if kind == "micros" else time).alias("time"))
    kept.append(f.array(*[_column(name).cast("double") for name in columns.values]).alias("values"))
    for condition in there:
        df = df.where(condition)
    return df.select(*kept)


def schema_predicted(df: Any, columns: KeyedColumns, numbered: bool) -> Any:
    """The schema of the predictions, as the workers give them."""
    from pyspark.sql import types as t

    kind = time_kind(df, columns)
    stamps = {"micros": t.LongType(), "stamp": t.TimestampNTZType()}
    rest = (
        *(t.LongType(), t.LongType(), stamps.get(kind, t.DoubleType())),
        *(t.LongType() if numbered else t.StringType(), t.DoubleType(), t.DoubleType()),
        *(t.StringType(), t.ArrayType(t.LongType()), t.DoubleType()),
    )
    fields = [t.StructField(name, df.schema[name].dataType) for name in columns.keys]
    fields += [t.StructField(name, kind) for name, kind in zip(PREDICTED, rest, strict=True)]
    return t.StructType(fields)


def _column(name: str) -> Any:
    """The column of exactly this name: one with a dot or a space in it is no path."""
    from pyspark.sql import functions as f

    return f.col("`" + name.replace("`", "``") + "`")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)


# Streams on Spark cannot be taught, so what teaching needs is not kept for each of them.
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

    Each stream is classified as :meth:`mlat.live.LiveModel.push` classifies it alone. Spark keeps
    the state of each in the query's checkpoint. After a fault the query continues where it was.
    With a source that can be read again and a sink that takes a batch once, no prediction is lost
    or doubled.

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
        See :class:`~mlat.live.core.options.LiveOptions`. ``order_by`` is by default ``"seq"`` where
        that is given, else ``"time"``.

    Returns
    -------
    predictions : pyspark.sql.DataFrame
        The key's own columns, and ``step``, ``seq``, ``time``, ``state``, ``proba``, ``distance``,
        ``why``, ``neighbours`` and ``agreement`` as in
        :class:`~mlat.live.core.steps.Prediction`; null where there is none. Its output
        mode is append.

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
    # Here, so that an option that is not one is refused before the query begins.
    live = LiveModel(clf, **chosen)
    kind = time_kind(df, columns)
    task = Task(
        df.sparkSession.sparkContext.broadcast(data),
        hashlib.sha256(data).hexdigest(),
        tuple(sorted(live.options.as_dict().items())),
        columns.predicted,
        len(columns.keys),
        seq is not None,
        kind,
    )
    rows, schema = rows_for_workers(df, columns), schema_predicted(df, columns, _numbered(clf))
    grouped = rows.groupBy(*[f"key{i}" for i in range(len(columns.keys))])
    if df.isStreaming:
        predicted = grouped.applyInPandasWithState(
            stateful(task), schema, "state BINARY", "append", "NoTimeout"
        )
    else:
        predicted = grouped.applyInPandas(whole_streams(task), schema)
    if kind == "micros":
        predicted = predicted.withColumn("time", f.timestamp_micros("time"))
    return predicted


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


def import_pyspark(what: str = "spark_classify") -> Any:
    """The package ``pyspark``, imported on use, and pandas, which it needs."""
    require_package("pandas", "spark", what)
    return require_package("pyspark", "spark", what)


def spark_wait(query: Any, timeout: float | None = None) -> bool:
    """Wait until a streaming query ends, or for so many seconds; whether it has ended.

    An `InputError` of a worker is raised here with its own message, without Spark's trace.

    Raises
    ------
    InputError
        If the query ended because of it; any other end is raised as Spark does.
    """
    from pyspark.errors import StreamingQueryException

    try:
        ended = query.awaitTermination(timeout) if timeout is not None else None
        if timeout is None:
            query.awaitTermination()
    except StreamingQueryException as error:
        raise _plain(error) from None
    return ended is not False


def _plain(error: Exception) -> Exception:
    """The error of mlat that Spark's message holds; otherwise Spark's own."""
    refused = _REFUSED.search(str(error))
    if refused is not None:
        return InputError(refused.group(1).strip())
    if "No module named 'mlat'" in str(error):
        return WorkerError(
            "the Python of Spark's workers has no mlat; install it on every executor, or name the "
            "right one with PYSPARK_PYTHON"
        )
    return error
