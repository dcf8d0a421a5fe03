"""
Ten thousand streams on Spark
=============================

Many devices and one model: Spark keeps a state for each of them, and the rows of each are
classified as in a live session. This small run has 200 streams; the page about `more than one
machine <../live/cluster.html>`_ says what was measured with a thousand, and what ten thousand take.

Needs ``pip install pyspark pandas pyarrow`` and Java 17 or later.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import mlat
from mlat.live import LiveModel, Steps
from mlat.plots.figure import state_colours
from mlat.synthetic import rotating_states

N_STREAMS, N_STEPS = 200, 60

# %%
# Everyone wears the same sensors, and begins somewhere else.

train = rotating_states(n_channels=4, noise=0.3, random_state=0)
clf = mlat.StreamClassifier(width=16, metric="euclidean").fit(train)
recording = rotating_states(n_channels=4, noise=0.3, random_state=1)
begins = np.sort(np.random.default_rng(0).integers(0, len(recording) - N_STEPS, N_STREAMS))
steps = begins[:, None] + np.arange(N_STEPS)
truth = recording.states[steps]

# %%
# Spark calls this for each wearer of a batch, with the rows that are new and with what it keeps:
# the state of the stream as bytes. The page has the same with times, rows that come late, and one
# model for all streams of a task.


def push(key, frames, kept):
    model = LiveModel(clf, order_by="seq", search="exact", teachable=1, max_taught=0)
    state = model.state_from_bytes(bytes(kept.get[0])) if kept.exists else model.start()
    new = pd.concat(frames).sort_values("seq")
    state, predictions = model.push(state, Steps(np.stack(new["values"]), new["seq"].to_numpy()))
    kept.update((state.to_bytes(),))
    found = [(*key, p.seq, p.state) for p in predictions]
    yield pd.DataFrame(found, columns=["wearer", "seq", "state"])


# %%
# Rows of all wearers arrive in two files, which become two batches: the second begins in the middle
# of everyone's stream.

folder = Path(tempfile.mkdtemp())
(folder / "rows").mkdir()
rows = pd.DataFrame(recording.values[steps.ravel()], columns=list(recording.channels))
rows["wearer"] = np.repeat([f"wearer {i}" for i in range(N_STREAMS)], N_STEPS)
rows["seq"] = np.tile(np.arange(N_STEPS), N_STREAMS)
for second in (False, True):
    file = folder / "rows" / f"{second:d}.parquet"
    rows[(rows["seq"] >= N_STEPS // 2) == second].to_parquet(file, index=False)
    os.utime(file, (1e9 + second, 1e9 + second))  # Spark takes the older file first

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # whose packages the workers have
settings = {
    "driver.bindAddress": "127.0.0.1",  # nothing listens beyond this machine
    "driver.host": "127.0.0.1",
    "ui.enabled": "false",
    "sql.shuffle.partitions": "2",
    "log.level": "ERROR",
}
builder = SparkSession.builder.master("local[1]").appName("mlat")
for name, value in settings.items():
    builder = builder.config(f"spark.{name}", value)
spark = builder.getOrCreate()
schema = spark.read.parquet(str(folder / "rows")).schema
arriving = (
    spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "rows"))
)
values = f.array(*[f"`{name}`" for name in clf.channels_]).alias("values")
query = (
    arriving.select("wearer", "seq", values)
    .groupBy("wearer")
    .applyInPandasWithState(
        push, "wearer string, seq long, state string", "state BINARY", "append", "NoTimeout"
    )
    .writeStream.format("parquet")
    .option("path", str(folder / "states"))
    .option("checkpointLocation", str(folder / "checkpoint"))
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
batches = [each["numInputRows"] for each in query.recentProgress]
told = spark.read.parquet(str(folder / "states")).toPandas()
spark.stop()
print(f"{len(told)} predictions for {told['wearer'].nunique()} streams, in batches of {batches}")

# %%
# A row of the picture for each stream, sorted by where it begins, so that a switch of states is a
# slanted edge. The state is unknown until the first window is full, and nothing is to be seen of
# the border between the batches.

told["row"] = told["wearer"].str.removeprefix("wearer ").astype(int)
states = told.sort_values(["row", "seq"])["state"].to_numpy().reshape(N_STREAMS, N_STEPS)
known = states != ""
print(f"{np.mean(states[known] == truth[known]):.1%} of the states are right")
colours = np.vstack([state_colours(len(clf.classes_)), [[0.85, 0.85, 0.85]]])
codes = np.where(known, np.searchsorted(clf.classes_, states), len(clf.classes_))
figure = Figure(figsize=(8, 4.5), layout="constrained")
ax = figure.subplots()
ax.imshow(colours[codes], aspect="auto", interpolation="nearest")
ax.axvline(N_STEPS / 2 - 0.5, color="black", linestyle="--", linewidth=1)
ax.text(N_STEPS / 2, -4, "second batch", va="bottom")
ax.set(xlabel="step of the stream", ylabel="stream")
names = [*clf.classes_, "not yet known"]
for code, name in enumerate(names):
    ax.plot([], [], "s", color=colours[code], label=name)
ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
# sphinx_gallery_thumbnail_path = 'images/gallery/13_many_streams_on_spark-1.png'
