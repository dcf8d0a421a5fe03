"""Predictions for sensor rows from a Redis stream, one stream of states for each wearer.

    redis-cli XADD sensors '*' wearer w1 seq 0 time 0.0 acc_x 0.1 acc_y 9.8
    python examples/spark_redis.py redis://localhost:6379 sensors model.safetensors told/

Spark's offsets are the ids of the entries and stand in the query's checkpoint, so no consumer
group is needed: after a kill the same entries are read again. Hence the stream must keep what has
not been told yet; what has is trimmed here (``trim``), and the query must be the only reader then.
It needs Spark 4.2.
"""

import sys
from typing import Any

import spark_streams
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

import mlat

MOST = 10_000  # entries of one batch


class RedisStream(DataSource):
    """The format ``redis_stream``, with the options ``url``, ``stream`` and ``trim``."""

    @classmethod
    def name(cls) -> str:
        return "redis_stream"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return RedisReader(self.options, schema)


class RedisReader(DataSourceStreamReader):
    def __init__(self, options: Any, schema: Any) -> None:
        self.url, self.stream = options["url"], options["stream"]
        self.trim = options.get("trim", "false") == "true"
        self.fields = [(field.name, field.dataType.typeName()) for field in schema.fields]

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        return {"id": "0-0"}

    def latestOffset(self, start: dict[str, str], limit: Any) -> dict[str, str]:  # noqa: N802
        entries = self._redis().xrange(self.stream, f"({start['id']}", "+", MOST)
        return {"id": entries[-1][0].decode()} if entries else start

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        return [InputPartition((start["id"], end["id"]))]

    def read(self, partition: InputPartition) -> Any:
        after, last = partition.value
        for _, entry in self._redis().xrange(self.stream, f"({after}", last):
            yield tuple(_as(entry.get(name.encode()), kind) for name, kind in self.fields)

    def commit(self, end: dict[str, str]) -> None:
        if self.trim:  # all up to here is in the sink, the entry itself stays
            self._redis().xtrim(self.stream, minid=end["id"])

    def _redis(self) -> Any:
        import redis  # here and in the workers: a connection cannot be sent

        return redis.Redis.from_url(self.url)


def _as(text: bytes | None, kind: str) -> Any:
    """A field as what the schema says; one that is not there, or is not that, is missing."""
    try:
        made = {"string": bytes.decode, "long": int}.get(kind, float)
        return None if text is None else made(text)
    except ValueError:
        return None


def classify_redis(spark: Any, url: str, stream: str, model: str, told: str, **trigger: Any) -> Any:
    """The running query."""
    clf = mlat.load(model)
    columns = ", ".join(f"`{name}` double" for name in clf.channels_)
    spark.sparkContext.addPyFile(spark_streams.__file__)  # the workers import it, too
    spark.dataSource.register(RedisStream)
    rows = (
        spark.readStream.format("redis_stream")
        .schema(f"wearer string, seq long, time double, {columns}")
        .option("url", url)
        .option("stream", stream)
        .option("trim", "true")
        .load()
    )
    return (
        spark_streams.classify(rows, clf, reorder=50)
        .writeStream.format("json")
        .option("path", told)
        .option("checkpointLocation", f"{told}.checkpoint")
        .trigger(**(trigger or {"processingTime": "1 second"}))
        .start()
    )


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    session = SparkSession.builder.appName("mlat redis").getOrCreate()
    classify_redis(session, *sys.argv[1:5]).awaitTermination()
