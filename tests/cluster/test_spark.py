"""Keyed streams on Spark: real sessions, a driver that is killed, and lines that say what to do."""

import json
import re
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlat
from mlat.base.errors import InputError
from mlat.cluster import spark_classify, spark_wait
from mlat.cluster.push import Task, steps_of
from mlat.live import LiveModel, Steps
from mlat.synthetic import rotating_states

pytest.importorskip("pyspark")
import spark_driver
from spark_rows import Driver, as_rows, by_key, check_against_predict, streams, write_files

SECONDS = 400  # for a driver to be killed or to end, on however busy a machine
COLUMNS = "who string, n long, t double, a double, b double"


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


def run(query):
    try:
        spark_wait(query, SECONDS)
    finally:
        query.stop()


@pytest.mark.parametrize("experts", [1, 4])
def test_every_policy_is_that_of_the_pure_step(spark, clf, tmp_path, experts):
    """By time, with timestamps: held values, gaps, rows too late to be taken, rows twice."""
    if experts > 1:
        clf = mlat.StreamClassifier(8, reach=6).fit(rotating_states(n_channels=2, random_state=9))
    assert len(clf.experts_) == experts
    made = streams(2, length=80)
    made["wearer 0"] = np.delete(made["wearer 0"], slice(30, 36), axis=0)
    rows = as_rows(made, np.random.default_rng(1), delay=12)
    for row in rows:
        n = row.pop("n")
        stamp = n + (6 if row["who"] == "wearer 0" and n >= 30 else 0)
        row["t"] = f"2026-03-29T00:59:5{stamp // 100}.{stamp % 100:02}0001Z"
    write_files(rows, 3, tmp_path / "rows")
    options = {"rate": 100.0, "reorder": 3, "missing": "hold"}
    told = spark_classify(
        spark.readStream.schema("who string, t timestamp, a float, b double")
        .option("maxFilesPerTrigger", 1)
        .json(str(tmp_path / "rows")),
        clf,
        key="who",
        time="t",
        values=["a", "b"],
        **options,
    )
    run(
        told.writeStream.format("memory")
        .queryName(f"policies_{experts}")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    asked = f"select *, unix_micros(time) as micros from policies_{experts} order by step"
    found = spark.sql(asked).collect()
    model = LiveModel(clf, order_by="time", **options)
    for who in made:
        state, wanted = model.start(), []
        for file in sorted((tmp_path / "rows").iterdir()):
            batch = [json.loads(line) for line in file.read_text().splitlines()]
            batch = sorted((row for row in batch if row["who"] == who), key=lambda row: row["t"])
            values = [[np.float32(row.get("a", np.nan)), row["b"]] for row in batch]
            micros = np.array([row["t"][:-1] for row in batch], "datetime64[us]").astype(np.int64)
            state, more = model.push(state, Steps(np.array(values, float), None, micros / 1e6))
            wanted += more
        mine = [row for row in found if row.who == who]
        for name in ("step", "state", "why", "seq"):
            assert [row[name] for row in mine] == [getattr(p, name) for p in wanted]
        assert [tuple(row.neighbours) for row in mine] == [p.neighbours for p in wanted]
        assert [row.micros for row in mine] == [round(p.time * 1e6) for p in wanted]
        for name in ("proba", "distance", "agreement"):
            got = np.array([row[name] for row in mine], float)
            np.testing.assert_array_equal(got, [getattr(p, name) for p in wanted])
        assert {"late", "duplicate"} <= {name for name, n in state.counters.items() if n}
        assert state.counters["gaps"] or who != "wearer 0"
        assert state.counters["held"] or who != "wearer 1"


def test_a_batch_is_whole_streams(spark, tmp_path):
    """Two columns as the key, numbered states, times without a zone; what waits is let through."""
    train = rotating_states(n_channels=2, random_state=9)
    codes = np.unique(train.states, return_inverse=True)[1]
    clf = mlat.StreamClassifier(8, metric="euclidean").fit(mlat.Stream(train.values, codes))
    made = streams(2, length=60)
    first = 1_800_000_000_000_000
    rows = [
        ("ward", i, np.datetime64(first + 1000 * n, "us").item(), *map(float, row))
        for i, values in enumerate(made.values())
        for n, row in enumerate(values)
    ]
    rows += [("ward", None, rows[0][2], 0.0, 0.0), ("ward", 1, None, 0.0, 0.0)]  # of no stream
    rng = np.random.default_rng(2)
    df = spark.createDataFrame(
        [rows[i] for i in rng.permutation(len(rows))],
        "place string, `the device` int, at timestamp_ntz, `x.1` double, x2 double",
    )
    told = spark_classify(
        df, clf, key=["place", "the device"], time="at", values=["x.1", "x2"], reorder=5
    )
    assert dict(told.dtypes)["time"] == "timestamp_ntz"
    found = told.orderBy("the device", "step").collect()
    assert len(found) == 120
    for i, values in enumerate(made.values()):
        mine = [row for row in found if row["the device"] == i]
        assert [row.state for row in mine] == clf.predict(values).tolist()
        assert [row.time for row in mine] == [row[2] for row in rows[60 * i : 60 * i + 60]]


@settings(max_examples=50)
@given(st.data())
def test_rows_are_put_in_order_whatever_order_and_pieces_they_come_in(data):
    """Rows of one number but other values, too: a batch done again must keep the same one."""
    n = data.draw(st.integers(1, 12))
    numbers = st.lists(st.integers(0, 4), min_size=n, max_size=n)
    frame = pd.DataFrame(
        {
            "key": "k",
            "seq": data.draw(numbers),
            "time": np.array(data.draw(numbers), float),
            "values": [np.array([a, 0.0]) for a in data.draw(numbers)],
        }
    )
    task = Task(None, "", (("order_by", "seq"),), (), 1, True, "seconds")
    shuffled = frame.iloc[data.draw(st.permutations(range(n)))]
    cut = data.draw(st.integers(0, n))
    one, other = steps_of(task, [frame]), steps_of(task, [shuffled[:cut], shuffled[cut:]])
    assert (np.diff(one.seq) >= 0).all()
    for name in ("seq", "time", "values"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_checkpoint_of_another_model_is_refused_in_one_line(spark, clf, tmp_path):
    (tmp_path / "columns").write_text(COLUMNS)
    rows = as_rows(streams(1, length=20), np.random.default_rng(3))
    write_files(rows[:10], 1, tmp_path / "rows")
    clf.save(tmp_path / "model")
    run(spark_driver.start(spark, tmp_path))
    (tmp_path / "rows" / "more.json").write_text("".join(json.dumps(r) + "\n" for r in rows[10:]))
    other = rotating_states(n_channels=2, random_state=10)
    mlat.StreamClassifier(8, metric="euclidean").fit(other).save(tmp_path / "model")
    with pytest.raises(InputError, match=r"another model; .* a new checkpointLocation$") as error:
        run(spark_driver.start(spark, tmp_path))
    assert "wearer 0" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"key": "wearer"}, "no column 'wearer' for key; they have who, n, t, a, b, text"),
        ({"values": ["a", "c"]}, "no column 'c' for values; they have"),
        ({"values": ["a", "text"]}, "'text' of values holds string, not numbers"),
        ({"values": ["a"]}, "values names 1 columns, the model was learned on 2 channels: sensor"),
        ({"values": ["a", "a"]}, "names a column twice"),
        ({"values": None}, "no column 'sensor 1', which the model was learned on"),
        ({"time": "text"}, "'text' of time holds string; cast it to a timestamp, or to seconds"),
        ({"seq": "t"}, "'t' of seq holds double, not whole numbers"),
        ({"seq": None, "time": None}, "in no order; name the column of their seq or their time"),
        ({"order_by": "none"}, "Spark keeps rows in no order"),
        ({"time": None, "order_by": "time"}, 'order_by="time" needs the column of it'),
        ({"reorder": -1}, "reorder must be a whole number"),
        ({"colour": 1}, "there is no option colour"),
        ({"model": 3}, "a fitted StreamClassifier or the path of a model file, not int"),
        ({"df": [1, 2]}, "df must be a Spark DataFrame, not list"),
    ],
)
def test_one_line_says_what_is_wrong(spark, clf, given, line):
    df = spark.createDataFrame([], COLUMNS + ", text string")
    told = {"key": "who", "time": "t", "seq": "n", "values": ["a", "b"], "model": clf, "df": df}
    told |= given
    with pytest.raises(InputError, match=re.escape(line)) as error:
        spark_classify(told.pop("df"), told.pop("model"), **told)
    assert "\n" not in str(error.value)


def test_a_key_named_as_a_column_of_predictions(spark, clf):
    df = spark.createDataFrame([], COLUMNS.replace("who", "state"))
    with pytest.raises(InputError, match=r"rename it: df\.withColumnRenamed"):
        spark_classify(df, clf, key="state", seq="n", values=["a", "b"])


def test_neither_engine_is_imported_before_it_is_used_and_without_pyspark_it_says_so():
    program = """
import sys
import mlat.cluster
print({"dask", "distributed", "pyspark"} & {*sys.modules})
sys.modules["pyspark"] = None
mlat.cluster.spark_classify(None, None, key="who")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS
    )
    assert ended.stdout == "set()\n"
    line = ended.stderr.strip().splitlines()[-1]
    assert line.endswith("spark_classify needs pyspark; install it: pip install 'mlat[spark]'")


def example(name):
    return runpy.run_path(str(Path(__file__).parents[2] / "examples" / name), run_name=name)


def test_the_example_with_files(spark, tmp_path):
    train = rotating_states(n_channels=2, random_state=9)
    clf = mlat.StreamClassifier(8, metric="euclidean").fit(train)
    clf.save(tmp_path / "model")
    made, rows = streams(2, length=40), tmp_path / "rows"
    rows.mkdir()
    for i, (who, values) in enumerate(made.items()):
        frame = pd.DataFrame(values, columns=clf.channels_)
        frame.insert(0, "wearer", who)
        frame.insert(1, "seq", np.arange(40))
        frame.insert(2, "time", np.arange(40) / 10)
        frame.to_parquet(rows / f"{i}.parquet")
    classify = example("spark_files.py")["classify_files"]
    run(
        classify(
            spark, str(rows), str(tmp_path / "model"), str(tmp_path / "told"), availableNow=True
        )
    )
    found = spark.read.parquet(str(tmp_path / "told")).withColumnRenamed("wearer", "who")
    check_against_predict(by_key(found), made, clf)


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server")
def test_the_example_with_a_redis_stream(spark, clf, tmp_path):
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
        classify = example("spark_redis.py")["classify_redis"]
        for half in (rows[:50], rows[50:]):
            for row in half:
                entry = {"wearer": row["who"], "seq": row["n"], "time": row["t"]}
                entry |= {c: row[x] for c, x in zip(clf.channels_, "ab", strict=True) if x in row}
                client.xadd("sensors", entry)
            told = (url, "sensors", str(tmp_path / "model"), str(tmp_path / "told"))
            query = classify(spark, *told, processingTime="0 seconds")
            try:
                query.processAllAvailable()
            finally:
                query.stop()
        found = spark.read.json(str(tmp_path / "told")).withColumnRenamed("wearer", "who")
        check_against_predict(by_key(found), made, clf)
    finally:
        server.terminate()
        server.wait(SECONDS)


def test_a_driver_killed_again_and_again_loses_none_and_doubles_none(spark, clf, tmp_path):
    made = streams(3)
    clf.save(tmp_path / "model")
    (tmp_path / "columns").write_text(COLUMNS)
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
