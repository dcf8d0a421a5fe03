"""Many keyed streams on Spark, on this machine: rows a second, state bytes, bytes of a checkpoint.

The source is a folder of Parquet files with one micro-batch in each, the sink takes everything and
keeps nothing, so what is measured is the state function with what Spark does around it. The same
steps pushed in one process without Spark are the yardstick. The state function is that of
``examples/spark_streams.py``.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from pyarrow import parquet

from mlat.base.errors import InputError, MissingPackageError, require_package
from mlat.classifier.classifier import StreamClassifier
from mlat.live.core.model import LiveModel
from mlat.live.core.steps import Steps
from mlat.metric.estimators import MLAT
from mlat.synthetic import rotating_states

from .harness import Bench, Row

STORES = {
    "memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
STORE = "spark.sql.streaming.stateStore."
RECIPE = Path("examples/spark_streams.py")


def local_session(cores: int, memory: str) -> Any:
    """A session on this machine, in which nothing listens beyond it."""
    require_package("pyspark", "spark", "the benchmark", of="mlat-lab")
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{home}/bin" if home else None) is None:
        raise MissingPackageError("Spark needs Java 17 or later; install one, or set JAVA_HOME")
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Else the workers are the first python3 of the PATH, which may not have what this one has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given = {
        "driver.memory": memory,
        "driver.bindAddress": "127.0.0.1",
        "driver.host": "127.0.0.1",
        "ui.enabled": "false",
        "ui.showConsoleProgress": "false",
        "sql.shuffle.partitions": str(2 * cores),
        "log.level": "ERROR",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("mlat")
    for name, value in given.items():
        builder = builder.config(f"spark.{name}", value)
    return builder.getOrCreate()


def make_model(channels: int, width: int) -> StreamClassifier:
    train = rotating_states(n_channels=channels, random_state=0)
    return StreamClassifier(width, metric=MLAT(max_iter=5)).fit(train)


def write_batches(folder: Path, keys: int, rows: int, batches: range, channels: int) -> None:
    """One file for each batch, with ``rows`` rows of every key."""
    stream = rotating_states(n_channels=channels, random_state=1)
    values = stream.values
    for batch in batches:
        n = np.tile(np.arange(batch * rows, (batch + 1) * rows), keys)
        key = np.repeat(np.arange(keys), rows)
        steps = values[(n + 7 * key) % len(values)]  # each key at another place of the stream
        wearer = np.char.add("wearer ", key.astype(str))
        columns = {"wearer": wearer, "seq": n, "time": n / 50.0}
        columns |= dict(zip(stream.channels, steps.T, strict=True))
        parquet.write_table(pa.table(columns), folder / f"{batch:04}.parquet")


def push_alone(clf: StreamClassifier, search: str, rows: int) -> tuple[float, bytes]:
    """Rows a second of pushes of one stream in this process, and its last state as bytes."""
    model = LiveModel(clf, order_by="seq", search=search, teachable=1, max_taught=0)
    stream = rotating_states(n_channels=len(clf.channels_), random_state=1)
    values = stream.values.astype(np.float64)
    state, seconds = model.start(), []
    for batch in range(50):
        n = np.arange(batch * rows, (batch + 1) * rows)
        began = time.perf_counter()
        state, _ = model.push(state, Steps(values[n % len(values)], n, n / 50.0))
        seconds.append(time.perf_counter() - began)
    return rows / float(np.median(seconds)), state.to_bytes()


def measure(
    spark: Any,
    classify: Any,
    clf: StreamClassifier,
    store: str,
    search: str,
    keys: int,
    rows: int,
    batches: int,
) -> Row:
    """One query over so many keys; the first batch, which starts the workers, is not in the times.

    A batch has so many rows of each key and took so many seconds, the middle one of them;
    ``alone`` are the rows a second of the same pushes in one process without Spark, states not kept
    as bytes. CPU milliseconds and kB are for each key: of its state, what Spark's store says it
    needs, and what a batch adds to the checkpoint.
    """
    channels = len(clf.channels_)
    pushed, state = push_alone(clf, search, rows)
    spark.conf.set(STORE + "providerClass", STORES[store])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rows").mkdir()
        # The first batch starts the workers and compiles; what follows goes on from its checkpoint.
        write_batches(folder / "rows", keys, rows, range(1), channels)
        _run(spark, classify, clf, search, folder)
        write_batches(folder / "rows", keys, rows, range(1, batches + 1), channels)
        before = _cpu(spark)
        progress = _run(spark, classify, clf, search, folder)
        cpu = _cpu(spark) - before
        files = (folder / "checkpoint" / "state").rglob("*")
        written = sum(file.stat().st_size for file in files if file.is_file())
    seconds = float(np.median([p["durationMs"]["triggerExecution"] for p in progress])) / 1e3
    held = progress[-1]["stateOperators"][0]["memoryUsedBytes"] / keys
    jvm, python = 1e3 * cpu / batches / keys
    return {
        "search": LiveModel(clf, search=search).search,
        "store": store,
        "keys": keys,
        "rows": rows,
        "batch_s": seconds,
        "rows_/s": keys * rows / seconds,
        "alone_/s": pushed,
        "python_ms": float(python),
        "jvm_ms": float(jvm),
        "state_kB": len(state) / 1e3,
        "held_kB": held / 1e3,
        "written_kB": written / keys / (batches + 1) / 1e3,
    }


def _run(
    spark: Any, classify: Any, clf: StreamClassifier, search: str, folder: Path
) -> list[dict[str, Any]]:
    """What Spark says of each batch of all files that have not been read yet."""
    source = str(folder / "rows")
    df = spark.readStream.schema(spark.read.parquet(source).schema)
    rows = df.option("maxFilesPerTrigger", 1).parquet(source)
    query = (
        classify(rows, clf, search=search)
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return [p for p in query.recentProgress if p["numInputRows"]]


def _cpu(spark: Any) -> Any:
    """CPU seconds so far of the JVM and of its Python workers."""
    parent, used = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in brackets, may hold anything.
            fields = file.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # gone in the meantime
            continue
        pid = int(file.parent.name)
        parent[pid], used[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    jvm = spark.sparkContext._gateway.proc.pid
    found = {jvm}
    while True:
        more = {pid for pid, above in parent.items() if above in found} - found
        if not more:
            break
        found |= more
    workers = sum(used[pid] for pid in found - {jvm})
    return np.array([used.get(jvm, 0), workers]) / os.sysconf("SC_CLK_TCK")


def on_spark(
    bench: Bench,
    keys: Annotated[list[int] | None, typer.Option(help="Default 100 and 1000.")] = None,
    rows: Annotated[list[int] | None, typer.Option(help="Of a key in a batch: 10, 100.")] = None,
    batches: Annotated[int, typer.Option(min=1, help="After the first.")] = 4,
    channels: Annotated[int, typer.Option(min=1)] = 8,
    width: Annotated[int, typer.Option(min=1)] = 10,
    cores: Annotated[int, typer.Option(min=1)] = 2,
    memory: Annotated[str, typer.Option(help="Of the JVM.")] = "1g",
    store: Annotated[list[str] | None, typer.Option(help="memory, rocksdb; default both.")] = None,
    search: Annotated[list[str] | None, typer.Option(help="auto, exact, incremental.")] = None,
    recipe: Annotated[Path, typer.Option(exists=True, help="Whose classify is measured.")] = RECIPE,
) -> None:
    """Many keyed streams on Spark in local mode."""
    for one in store or []:
        if one not in STORES:
            raise InputError(f"no state store {one!r}; there are {', '.join(STORES)}")
    clf = make_model(channels, width)
    found: list[Row] = []
    spark = local_session(cores, memory)
    try:
        classify = runpy.run_path(str(recipe), run_name="recipe")["classify"]
        spark.conf.set(STORE + "rocksdb.changelogCheckpointing.enabled", "true")
        for kept in store or list(STORES):
            for way in search or ["auto"]:
                for n_keys in keys or [100, 1000]:
                    for n_rows in rows or [10, 100]:
                        bench.say(f"{kept}, {way}: {n_keys} keys of {n_rows} rows")
                        found.append(
                            measure(spark, classify, clf, kept, way, n_keys, n_rows, batches)
                        )
    finally:
        spark.stop()
    title = f"Keyed streams on Spark, {cores} cores: d={channels}, w={width}, "
    bench.table(title + f"{len(clf.windows_)} references", found, left=2)
    bench.keep(found)
