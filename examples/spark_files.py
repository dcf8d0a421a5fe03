"""Predictions for sensor rows that arrive as Parquet files in a folder, one stream for each wearer.

    python examples/spark_files.py rows/ model.safetensors told/

The rows have the columns ``wearer``, ``seq``, ``time`` and one for each channel of the model, by
its name. Stop it with Ctrl-C, or kill it: started again, it goes on where it was.
"""

import sys
from typing import Any

from mlat.cluster import spark_classify, spark_wait


def classify_files(spark: Any, rows: str, model: str, told: str, **trigger: Any) -> Any:
    """The running query."""
    schema = spark.read.parquet(rows).schema  # of the files that are there already
    arriving = spark.readStream.schema(schema).option("maxFilesPerTrigger", 100).parquet(rows)
    predictions = spark_classify(
        arriving,
        model,
        key="wearer",
        time="time",
        seq="seq",
        reorder=50,  # so many rows of a wearer wait for one that comes late
    )
    return (
        predictions.writeStream.format("parquet")  # this sink takes each batch once
        .option("path", told)
        .option("checkpointLocation", f"{told}.checkpoint")
        .trigger(**(trigger or {"processingTime": "10 seconds"}))
        .start()
    )


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    session = SparkSession.builder.appName("mlat files").getOrCreate()
    spark_wait(classify_files(session, *sys.argv[1:4]))
