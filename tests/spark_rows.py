"""Sensor rows as they might come, predictions as they should be, and a driver to be killed."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np

import spark_driver
from mlat.synthetic import rotating_states


def streams(n, length=120, seed=0):
    """Streams of two channels; some values of the last are missing."""
    rng = np.random.default_rng(seed)
    made = {}
    for i in range(n):
        run_length = -(-length // 8)
        values = rotating_states(n_channels=2, run_length=run_length, random_state=seed + i).values
        made[f"wearer {i}"] = values[:length]
    made[f"wearer {n - 1}"][rng.integers(length, size=3), 0] = np.nan
    return made


def as_rows(made, rng, delay=6, again=0.15):
    """Rows as they might come: some up to ``delay`` rows late, some twice, keys mixed."""
    coming = []
    for who, values in made.items():
        for n, row in enumerate(values):
            when = n + (rng.uniform(0, delay) if n else 0.0)
            told = {"wearer": who, "seq": n, "time": n / 10}
            told |= {f"sensor {c}": float(v) for c, v in enumerate(row, 1) if v == v}
            coming.append((when, told))
            if rng.random() < again:
                coming.append((when + rng.uniform(0, 3 * delay), {**told}))
    return [told for _, told in sorted(coming, key=lambda pair: pair[0])]


def write_files(rows, n_files, folder):
    """Files of the rows in their order, one for each batch."""
    folder.mkdir(parents=True)
    files = []
    for i, part in enumerate(np.array_split(np.arange(len(rows)), n_files)):
        file = folder / f"{i:03}.json"
        file.write_text("".join(json.dumps(rows[r]) + "\n" for r in part))
        os.utime(file, (1e9 + i, 1e9 + i))  # Spark takes the oldest first
        files.append(file)
    return files


def by_key(told):
    """Predictions of each key, in the order of their steps."""
    found = {}
    for row in told.orderBy("wearer", "step").collect():
        found.setdefault(row.wearer, []).append(row)
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
        self.said = folder / "said"
        with self.said.open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, spark_driver.__file__, str(folder)],
                start_new_session=True,
                stdout=said,
                stderr=said,
            )

    def kill_when_there(self, folder, pattern):
        """``kill -9`` of the driver and its JVM at the moment when such a file appears."""
        while not any(folder.glob(pattern)):
            assert self.process.poll() is None, self.said.read_text()[-2000:]
            time.sleep(0.005)
        self.close()

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
