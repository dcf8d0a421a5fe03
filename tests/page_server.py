"""A page for tests: a synthetic stream, played in real time into a hub that is served."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import numpy as np

from live_oracles import columns
from mlat import Stream, StreamClassifier
from mlat.live import Prediction, Steps
from mlat.live.core.steps import Predictions
from mlat.live.page.hub import Hub
from mlat.live.page.server import Server, serve

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = [
    *["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
    *["--disable-background-networking", "--disable-component-update", "--disable-sync"],
]
PLACES = ("chest", "back", "left wrist", "right wrist", "left hip", "right hip", "knee", "ankle")
WIDTH = 40  # 0.4 s


@contextmanager
def chromium() -> Iterator[object]:
    """A headless browser, by playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def body_stream(
    n_channels: int = 27, *, run_length: int = 250, runs_per_state: int = 3, random_state: int = 0
) -> Stream:
    """Movements at 100 Hz as sensors on a body measure them: each has its rhythm and phases."""
    sensors, rng = np.random.default_rng(0), np.random.default_rng(random_state)
    rhythms = {"walking": 1.9, "running": 2.9, "cycling": 1.3, "standing": 0.0}
    phases = sensors.uniform(0, 2 * np.pi, (len(rhythms), 2, n_channels))
    sizes = sensors.uniform(0.4, 1.2, (len(rhythms), 2, n_channels))
    names = list(rhythms) * runs_per_state
    parts, phase = [], 0.0
    for name in names:
        state = list(rhythms).index(name)
        speed = rhythms[name] / 100 * (1 + 0.1 * rng.normal())
        turns = phase + np.cumsum(
            np.full(run_length, speed) * (1 + 0.1 * rng.normal(size=run_length))
        )
        phase, angle = turns[-1], 2 * np.pi * turns[:, None]
        size = sizes[state] * (rhythms[name] > 0)
        wave = size[0] * np.sin(angle + phases[state, 0])
        parts.append(wave + 0.4 * size[1] * np.sin(2 * angle + phases[state, 1]))
    values = np.concatenate(parts)
    values = values + 0.12 * rng.normal(size=values.shape)
    places = [*PLACES, "head"]
    channels = [f"{places[c // 3 % 9]} {'xyz'[c % 3]}{c // 27 or ''}" for c in range(n_channels)]
    return Stream(values, np.repeat(names, run_length), channels=channels)


@cache
def classifier(n_channels: int = 27) -> StreamClassifier:
    train = body_stream(n_channels)
    return StreamClassifier(WIDTH, metric="euclidean").fit(train)


def predict_steps(clf: StreamClassifier, values: np.ndarray, first: int = 0) -> Predictions:
    """Predictions as a session gives them, from ``predict``."""
    proba = clf.predict_proba(values)
    states = clf.predict(values).tolist()
    distances, rows = clf.kneighbors(values)
    known = ~np.isnan(proba[:, 0])
    each = [
        Prediction(
            step=first + i,
            state=states[i],
            proba=float(proba[i].max()),
            distance=float(distances[i, 0]),
            neighbours=tuple(rows[i].tolist()) if known[i] else (),
            why="" if known[i] else "filling",
            seq=None,
            time=None,
            probabilities=tuple(proba[i].tolist()) if known[i] else (),
        )
        for i in range(len(states))
    ]
    return columns(each)


class Served:
    """A hub and its server in a thread of their own, and a stream that can be played into it."""

    def __init__(self, clf: StreamClassifier, hub: Hub | None = None, **options: object) -> None:
        self.clf, self.hub = clf, hub or Hub()
        self.loop = asyncio.new_event_loop()
        self.options = options
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._stop = threading.Event()
        self._player: threading.Thread | None = None
        self.server = self.start(0)
        self.port, self.url = self.server.port, self.server.url

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(20)

    def start(self, port: int) -> Server:
        self.server = self.call(serve(self.hub, self.clf, port=port, **self.options))
        return self.server

    def stop(self) -> None:
        self.call(self.server.close())

    def publish(self, values: np.ndarray, first: int = 0) -> None:
        self.hub.publish(Steps(values), predict_steps(self.clf, values, first), None, 0.001)

    def play(
        self, stream: Stream, rate: float = 100.0, *, live: bool | dict[str, object] = False
    ) -> None:
        """Publish a stream step by step, in a loop, classified by a session or ``predict``."""
        session = self.clf.live(**({} if live is True else live)) if live else None
        predictions = [] if live else predict_steps(self.clf, stream.values)
        if session is not None:  # whatever is compiled on first use
            session.push(stream.values[: 2 * WIDTH])
            session = self.clf.live(**({} if live is True else live))

        def playing() -> None:
            begun, n = time.perf_counter(), 0
            while not self._stop.wait(max(0.0, begun + n / rate - time.perf_counter())):
                at = n % len(stream)
                steps = Steps(stream.values[at : at + 1])
                arrived = time.perf_counter()
                if session is not None:
                    now = session.push(steps)
                else:
                    now = replace(predictions.part(at, at + 1), first=n)
                self.hub.publish(steps, now, session, time.perf_counter() - arrived)
                n += 1

        self._stop.clear()
        self._player = threading.Thread(target=playing, daemon=True)
        self._player.start()

    def halt(self) -> None:
        """Stop playing."""
        if self._player is not None:
            self._stop.set()
            self._player.join()
            self._player = None

    def close(self) -> None:
        self.halt()
        self.stop()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
