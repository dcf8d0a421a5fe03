"""Keyed streams on Spark: real sessions, a driver that is killed, and lines that say what to do."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import mlat
from mlat.cluster import spark_classify, spark_wait
from mlat.datasets.synthetic import rotating_states
from mlat.errors import InputError
from mlat.live import LiveModel, Steps

pytest.importorskip("pyspark")
import spark_driver

SECONDS = 240  # for a driver to be killed or to end, on however busy a machine
COLUMNS = "who string, n long, t double, a double, b double"


@pytest.fixture(autouse=True)
def time_limit():
    """No test waits for ever for a JVM."""

    def stop(*_):
        raise TimeoutError(f"the test took longer than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


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


def streams(n, length=120, seed=0):
    """Streams of two channels; some values of the last are missing."""
    rng = np.random.default_rng(seed)
    made = {}
    for i in range(n):
        values = rotating_states(n_channels=2, run_length=length // 8, random_state=seed + i).values
        made[f"wearer {i}"] = values[:length]
    made[f"wearer {n - 1}"][rng.integers(length, size=3), 0] = np.nan
    return made


@pytest.fixture(scope="session")
def clf():
    return mlat.StreamClassifier(8, metric="euclidean").fit(
        rotating_states(n_channels=2, random_state=9)
    )


def as_rows(made, rng, delay=6, again=0.15):
    """Rows as they might come: some up to ``delay`` rows late, some twice, keys mixed."""
    coming = []
    for who, values in made.items():
        for n, row in enumerate(values):
            when = n + (rng.uniform(0, delay) if n else 0.0)
            told = {"who": who, "n": n, "t": n / 10}
            told |= {name: float(v) for name, v in zip("ab", row, strict=True) if v == v}
            coming.append((when, told))
            if rng.random() < again:
                coming.append((when + rng.uniform(0, 3 * delay), told))
    return [told for _, told in sorted(coming, key=lambda pair: pair[0])]


def write_files(rows, n_files, folder):
    folder.mkdir(parents=True)
    for i, part in enumerate(np.array_split(np.arange(len(rows)), n_files)):
        file = folder / f"{i:03}.json"
        file.write_text("".join(json.dumps(rows[r]) + "\n" for r in part))
        os.utime(file, (1e9 + i, 1e9 + i))  # Spark takes the oldest first


def read_told(spark, folder):
    """Predictions by key, each in the order of its steps."""
    found = {}
    for row in spark.read.json(str(folder)).orderBy("who", "step").collect():
        found.setdefault(row.who, []).append(row)
    return found


def check_against_predict(told, made, clf):
    assert told.keys() == made.keys()
    for who, values in made.items():
        assert [row.step for row in told[who]] == list(range(len(values)))
        assert [row.seq for row in told[who]] == list(range(len(values)))
        assert [row.state for row in told[who]] == clf.predict(values).tolist()


class Driver:
    """The driver as a process; with it its JVM ends, and with that its workers."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            [sys.executable, spark_driver.__file__, str(folder)],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill_when(self, seen):
        """``kill -9`` of the driver and its JVM at the moment when something is seen."""
        while not seen():
            assert self.process.poll() is None, self.process.stderr.read()[-2000:]
            time.sleep(0.001)
        self.close()

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def test_a_driver_killed_again_and_again_loses_none_and_doubles_none(spark, clf, tmp_path):
    made = streams(3)
    clf.save(tmp_path / "model")
    (tmp_path / "columns").write_text(COLUMNS)
    write_files(as_rows(made, np.random.default_rng(0)), 10, tmp_path / "rows")
    checkpoint = tmp_path / "checkpoint"
    moments = [
        (1, "offsets/1", checkpoint),  # the batch is begun
        (3, "state/0/*/4.delta", checkpoint),  # the state of a partition is written
        (5, "_spark_metadata/5", tmp_path / "told"),  # the sink has it, the checkpoint does not
    ]
    in_mid_batch = 0
    for batch, sign, place in moments:
        driver = Driver(tmp_path)
        try:
            driver.kill_when(lambda: any(place.glob(sign)))
        finally:
            driver.close()
        in_mid_batch += not (checkpoint / "commits" / str(batch)).exists()
    assert in_mid_batch >= 2
    driver = Driver(tmp_path)
    try:
        _, said = driver.process.communicate(timeout=SECONDS)
    finally:
        driver.close()
    assert driver.process.returncode == 0, said[-2000:]
    assert (checkpoint / "commits" / "9").exists()
    check_against_predict(read_told(spark, tmp_path / "told"), made, clf)
