"""A driver that is killed: rows from JSON files into predictions in JSON files, with a checkpoint.

``python spark_driver.py FOLDER`` with ``rows/``, ``model`` and ``columns`` in the folder; it ends
when all rows that were there at its beginning are told.
"""

import sys
from pathlib import Path

from mlat.cluster import spark_classify, spark_wait
from mlat.cluster.spark.sessions import local_spark

# A JVM that lives for seconds is quicker without its best compiler.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session(cores: int):
    return local_spark(
        cores,
        spark_driver_extraJavaOptions=QUICK,
        spark_sql_shuffle_partitions=2,
        spark_log_level="ERROR",
    )


def start(spark, folder: Path):
    rows = (
        spark.readStream.schema((folder / "columns").read_text())
        .option("maxFilesPerTrigger", 1)
        .json(str(folder / "rows"))
    )
    told = spark_classify(
        rows, folder / "model", key="who", time="t", seq="n", values=["a", "b"], reorder=10
    )
    return (
        told.writeStream.format("json")
        .option("path", str(folder / "told"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


if __name__ == "__main__":
    spark_wait(start(session(1), Path(sys.argv[1])))
