"""A labelling page for tests: a recording with clear states, its server in a thread."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from mlat import Stream
from mlat.label.page.server import serve
from mlat.label.recording import Recording
from mlat.label.session import LabelSession

RUN = 300
STATES = ("walk", "run", "sit")


def states_stream(runs_per_state: int = 3, n_channels: int = 4, seed: int = 0) -> Stream:
    """Three states in turn, each with its level, rhythm and noise, at 50 Hz."""
    rng, shapes = np.random.default_rng(seed), np.random.default_rng(9)
    levels = shapes.normal(size=(3, n_channels))
    sizes = np.array([0.6, 1.4, 0.05])[:, None] * shapes.uniform(0.5, 1.5, (3, n_channels))
    periods = np.array([25.0, 14.0, 60.0])
    parts, names = [], []
    for k in range(3 * runs_per_state):
        s, t = k % 3, np.arange(RUN)[:, None]
        wave = np.sin(2 * np.pi * t / periods[s] + np.arange(n_channels))
        parts.append(levels[s] + sizes[s] * wave + 0.1 * rng.normal(size=(RUN, n_channels)))
        names += [STATES[s]] * RUN
    values = np.concatenate(parts)
    channels = [f"sensor {c}" for c in range(n_channels)]
    return Stream(values, names, channels=channels, time=np.arange(len(values)) / 50)


def unlabelled(stream: Stream, name: str = "walk.csv") -> Recording:
    bare = Stream(stream.values, channels=stream.channels, time=stream.time)
    return Recording(name, bare)


class Labelling:
    """A session and its server in a thread of their own."""

    def __init__(self, folder: Path, recordings: list[Recording], **options: object) -> None:
        self.folder, self.options = folder, {"width": 25, **options}
        self.recordings = recordings
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.start(0)
        self.port, self.url = self.server.port, self.server.url

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    def start(self, port: int) -> None:
        self.session = LabelSession(self.recordings, self.folder / "walk.labels.csv")
        out = self.folder / "walk.mlat"
        self.server = self.call(serve(self.session, port=port, model_out=out, **self.options))

    def stop(self) -> None:
        self.call(self.server.close())
        self.session.close()

    def close(self) -> None:
        self.stop()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def __enter__(self) -> Labelling:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


START = [sys.executable, "-c", "from mlat.cli import main; main()", "label"]


def started(folder, *more):
    """``mlat label`` as a process, and its address."""
    said = folder / "said"
    with said.open("wb") as err:
        process = subprocess.Popen(
            [*START, "walk.csv", "--no-browser", *more], cwd=folder, stderr=err
        )
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        found = re.search(r"page at (\S+);", said.read_text())
        if found:
            return process, found[1]
        time.sleep(0.05)
    raise AssertionError(said.read_text())
