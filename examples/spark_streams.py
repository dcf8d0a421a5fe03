"""A model on Spark: the states of many recordings, and of many streams as their rows arrive.

    python examples/spark_streams.py rows/ model.mlat states/

classifies the rows of Parquet files as these appear in a folder. Their columns are ``wearer`` (the
rows of one are a stream), ``seq`` (which numbers them), ``time`` and the channels of the model.
Killed and started again, the program goes on where it was. Take what you need, and change it.
"""

import sys

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import mlat
from mlat.live import LiveModel, Steps

RECORDED = "file string, step long, state string"
STREAMED = "wearer string, step long, seq long, time double, state string, proba double, why string"


def predict_files(spark, files, clf):
    """The state of each step of whole recordings, as ``clf.predict`` says it."""
    model = spark.sparkContext.broadcast(clf)

    def predict(frames):
        for file in (file for frame in frames for file in frame["file"]):
            states = model.value.predict(mlat.read_stream(file, channels=model.value.channels_))
            steps = np.arange(len(states))
            yield pd.DataFrame({"file": file, "step": steps, "state": states.astype(str)})

    names = spark.createDataFrame([(str(file),) for file in files], "file string")
    return names.repartition(len(files)).mapInPandas(predict, RECORDED)


def classify(rows, clf, **options):
    """Predictions for a streaming DataFrame; the options are those of a live session."""
    # Nothing is taught here, so what teaching needs is not kept for each stream.
    options = dict(order_by="seq", teachable=1, max_taught=0, **options)
    LiveModel(clf, **options)  # an option that is not one is refused here, not in a worker
    model, made = rows.sparkSession.sparkContext.broadcast(clf), []

    def push(key, frames, kept):
        if not made:  # once for all streams of a task
            made.append(LiveModel(model.value, **options))
        data = bytes(kept.get[0]) if kept.exists else b""
        live = made[0].for_snapshot(data) if data else made[0]
        state = live.state_from_bytes(data) if data else live.start()
        new = pd.concat(frames)
        seq, time, values = new["seq"].to_numpy(), new["time"].to_numpy(), np.stack(new["values"])
        # Rows come in any order, and in another one when a batch is done again.
        order = np.lexsort([*values.T, time, seq])
        state, told = live.push(state, Steps(values[order], seq[order], time[order]))
        kept.update((state.to_bytes(),))
        found = [(*key, p.step, p.seq, p.time, str(p.state), p.proba, p.why) for p in told]
        if found:
            yield pd.DataFrame(found, columns=[name.split()[0] for name in STREAMED.split(", ")])

    values = f.array(*[f.col(f"`{name}`").cast("double") for name in clf.channels_])
    numbers = f.col("seq").cast("long").alias("seq"), f.col("time").cast("double").alias("time")
    return (
        rows.dropna(subset=["wearer", "seq", "time"])
        .select("wearer", *numbers, values.alias("values"))
        .groupBy("wearer")
        .applyInPandasWithState(push, STREAMED, "state BINARY", "append", "NoTimeout")
    )


if __name__ == "__main__":
    rows, model, states = sys.argv[1:]
    spark = SparkSession.builder.appName("mlat").getOrCreate()
    arriving = spark.readStream.schema(spark.read.parquet(rows).schema).parquet(rows)
    # So many rows of a wearer wait for one that comes late.
    told = classify(arriving, mlat.load(model), reorder=50).writeStream.format("parquet")
    told = told.option("path", states).option("checkpointLocation", f"{states}.checkpoint")
    told.start().awaitTermination()
