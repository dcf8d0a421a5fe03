"""A driver that is killed: rows from JSON files into predictions in JSON files, with a checkpoint.

``python spark_driver.py FOLDER`` with ``rows/`` and ``model`` in the folder; it ends when all rows
that were there at its beginning are told.
"""

import os
import runpy
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import mlat

EXAMPLES = Path(__file__).parents[1] / "examples"
recipe = runpy.run_path(str(EXAMPLES / "spark_streams.py"), run_name="recipe")
# Nothing listens beyond this machine; a JVM that lives for seconds is quicker without its best
# compiler.
SETTINGS = {
    "driver.memory": "1g",
    "driver.bindAddress": "127.0.0.1",
    "driver.host": "127.0.0.1",
    "ui.enabled": "false",
    "ui.showConsoleProgress": "false",
    "sql.shuffle.partitions": "2",
    "driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "log.level": "ERROR",
}


def session(cores: int):
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}]").appName("mlat")
    for name, value in SETTINGS.items():
        builder = builder.config(f"spark.{name}", value)
    return builder.getOrCreate()


def start(spark, folder: Path, columns: str, **options):
    rows = (
        spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).json(str(folder / "rows"))
    )
    told = recipe["classify"](rows, mlat.load(folder / "model"), **options)
    return (
        told.writeStream.format("json")
        .option("path", str(folder / "told"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


if __name__ == "__main__":
    given = Path(sys.argv[1])
    channels = ", ".join(f"`{name}` double" for name in mlat.load(given / "model").channels_)
    columns = f"wearer string, seq long, time double, {channels}"
    start(session(1), given, columns, reorder=10).awaitTermination()
