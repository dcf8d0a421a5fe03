"""The recipe for Spark: real sessions, its programs, and a driver that is killed."""

import json
import os
import runpy
import shutil
import subprocess
import time

import numpy as np
import pandas as pd
import pytest

import mlat
from mlat.base.errors import InputError
from mlat.live import LiveModel, Steps
from mlat.synthetic import rotating_states

pytest.importorskip("pyspark")
from pyspark.errors import StreamingQueryException

import spark_driver
from spark_driver import EXAMPLES, recipe
from spark_rows import Driver, as_rows, by_key, check_against_predict, streams, write_files

SECONDS = 400  # for a driver to be killed or to end, on however busy a machine
COLUMNS = "wearer string, seq long, time %s, `sensor 1` float, `sensor 2` double"


@pytest.fixture(scope="session")
def spark():
    session = spark_driver.session(2)
    process = session.sparkContext._gateway.proc
    yield session
    try:
        session.stop()
    finally:
        process.stdin.close()  # the JVM ends with it
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


@pytest.fixture(scope="session")
def clf():
    return mlat.StreamClassifier(8, metric="euclidean").fit(
        rotating_states(n_channels=2, random_state=9)
    )


def wait(query):
    try:
        assert query.awaitTermination(SECONDS)
    finally:
        query.stop()


def test_recordings_have_the_states_of_predict(spark, clf, tmp_path):
    files = [tmp_path / f"{name}.parquet" for name in ("monday", "friday", "sunday")]
    for file, values in zip(files, streams(3, length=60).values(), strict=True):
        pd.DataFrame(values, columns=clf.channels_).to_parquet(file)
    for model in (clf, numbered()):
        found = recipe["predict_files"](spark, files, model).orderBy("file", "step").toPandas()
        assert set(found["file"]) == {*map(str, files)}
        for file, told in found.groupby("file"):
            assert told["step"].tolist() == [*range(60)]
            wanted = model.predict(mlat.read_stream(file))
            assert told["state"].tolist() == wanted.astype(str).tolist()


def numbered():
    """Its states are numbers, and it has several experts."""
    train = rotating_states(n_channels=2, random_state=9)
    codes = np.unique(train.states, return_inverse=True)[1]
    clf = mlat.StreamClassifier(8, reach=6).fit(
        mlat.Stream(train.values, codes, channels=train.channels)
    )
    assert len(clf.experts_) > 1
    return clf


@pytest.mark.parametrize("several", [False, True])
def test_every_policy_is_that_of_the_pure_step(spark, clf, tmp_path, several):
    """With timestamps: held values, gaps, rows too late to be taken, rows twice, rows of nobody."""
    clf = numbered() if several else clf
    made = streams(2, length=80)
    made["wearer 0"] = np.delete(made["wearer 0"], slice(30, 36), axis=0)
    rows = as_rows(made, np.random.default_rng(1), delay=12)
    for row in rows:
        row["seq"] += 6 if row["wearer"] == "wearer 0" and row["seq"] >= 30 else 0
        row["time"] = f"2026-03-29T00:59:5{row['seq'] // 100}.{row['seq'] % 100:02}0001Z"
    files = write_files(rows, 6, tmp_path / "rows")
    nobody = [{"seq": 3, "sensor 1": 0.0}, {"wearer": "wearer 1", "time": rows[0]["time"]}]
    written = files[1].stat().st_mtime
    with files[1].open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in nobody)
    os.utime(files[1], (written, written))
    clf.save(tmp_path / "model")
    options = {"rate": 100.0, "reorder": 3, "missing": "hold"}
    wait(spark_driver.start(spark, tmp_path, COLUMNS % "timestamp", **options))
    found = by_key(spark.read.schema(recipe["STREAMED"]).json(str(tmp_path / "told")))
    model = LiveModel(clf, order_by="seq", **options)
    for who in made:
        state, wanted = model.start(), []
        for file in files:
            batch = [json.loads(line) for line in file.read_text().splitlines()]
            batch = [row for row in batch if row.get("wearer") == who and "seq" in row]
            batch.sort(key=lambda row: row["seq"])
            values = [[np.float32(row.get("sensor 1", np.nan)), row["sensor 2"]] for row in batch]
            micros = np.array([r["time"][:-1] for r in batch], "datetime64[us]").astype(np.int64)
            seq = np.array([row["seq"] for row in batch])
            state, more = model.push(state, Steps(np.array(values, float), seq, micros / 1e6))
            wanted += more
        for name in ("step", "why", "seq", "time"):
            assert [row[name] for row in found[who]] == [getattr(p, name) for p in wanted]
        assert [row.state or "" for row in found[who]] == [str(p.state) for p in wanted]
        proba = np.array([row.proba for row in found[who]], float)
        np.testing.assert_array_equal(proba, [p.proba for p in wanted])
        assert {"late", "duplicate"} <= {name for name, n in state.counters.items() if n}
        assert state.counters["gaps"] or who != "wearer 0"
        assert state.counters["held"] or who != "wearer 1"


def test_a_checkpoint_of_another_model_is_refused(spark, clf, tmp_path):
    rows = as_rows(streams(1, length=20), np.random.default_rng(3))
    write_files(rows[:10], 1, tmp_path / "rows")
    clf.save(tmp_path / "model")
    wait(spark_driver.start(spark, tmp_path, COLUMNS % "double"))
    (tmp_path / "rows" / "more.json").write_text("".join(json.dumps(r) + "\n" for r in rows[10:]))
    other = rotating_states(n_channels=2, random_state=10)
    mlat.StreamClassifier(8, metric="euclidean").fit(other).save(tmp_path / "model")
    with pytest.raises(
        StreamingQueryException, match="InputError: the snapshot is of another model"
    ):
        wait(spark_driver.start(spark, tmp_path, COLUMNS % "double"))
    with pytest.raises(InputError, match="there is no option colour"):
        spark_driver.start(spark, tmp_path, COLUMNS % "double", colour=1)


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server")
def test_the_example_with_a_redis_stream(spark, clf, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)  # as where the program is started
    redis = pytest.importorskip("redis")
    socket = tmp_path / "redis.sock"
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", ""],
        stdout=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    try:
        url = f"unix://{socket}"
        while not socket.exists():
            assert server.poll() is None
            time.sleep(0.01)
        client = redis.Redis.from_url(url)
        clf.save(tmp_path / "model")
        made = streams(2, length=40)
        rows = as_rows(made, np.random.default_rng(4))
        classify = runpy.run_path(str(EXAMPLES / "spark_redis.py"), run_name="example")[
            "classify_redis"
        ]
        for half in (rows[:50], rows[50:]):
            for row in half:
                client.xadd("sensors", row)
            told = (url, "sensors", str(tmp_path / "model"), str(tmp_path / "told"))
            query = classify(spark, *told, processingTime="0 seconds")
            try:
                query.processAllAvailable()
            finally:
                query.stop()
        found = spark.read.json(str(tmp_path / "told"))
        check_against_predict(by_key(found), made, clf)
    finally:
        server.terminate()
        server.wait(SECONDS)


def test_a_driver_killed_again_and_again_loses_none_and_doubles_none(spark, clf, tmp_path):
    made = streams(3)
    clf.save(tmp_path / "model")
    write_files(as_rows(made, np.random.default_rng(0)), 6, tmp_path / "rows")
    checkpoint = tmp_path / "checkpoint"
    moments = [
        (0, "offsets/0", checkpoint),  # the first batch is begun
        (1, "_spark_metadata/1", tmp_path / "told"),  # the sink has one, the checkpoint does not
        (2, "state/0/*/3.delta", checkpoint),  # the state of a partition is written, no more
    ]
    in_mid_batch = 0
    for batch, sign, place in moments:
        driver = Driver(tmp_path)
        try:
            driver.kill_when_there(place, sign)
        finally:
            driver.close()
        in_mid_batch += not (checkpoint / "commits" / str(batch)).exists()
    assert in_mid_batch >= 2
    driver = Driver(tmp_path)
    try:
        assert driver.process.wait(SECONDS) == 0, driver.said.read_text()[-2000:]
    finally:
        driver.close()
    assert (checkpoint / "commits" / "5").exists()
    check_against_predict(by_key(spark.read.json(str(tmp_path / "told"))), made, clf)
