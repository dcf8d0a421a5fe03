"""How soon a step is seen: from its arrival at the server to its being drawn by a browser.

    python lab/benchmarks/live_page.py                     # 27 channels at 100 Hz in Chromium
    python lab/benchmarks/live_page.py --frames            # what frames cost; packed against JSON
    python lab/benchmarks/live_page.py --picture live.png  # a picture of the page

A session classifies the stream that the tests play, in its own time. The page notes for every step
when it was drawn (after the browser came back from painting) against when it arrived, by the clock
of the one machine. The time that the page's thread computes is told beside it: on a busy machine
the rest is waiting for others.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from mlat.live import Steps
from mlat.live.page.hub import MOST_STEPS, Hub, encode_page_frame
from page_server import Served, body_stream, chromium, classifier, predict_steps


def measure(channels: int, rate: float, seconds: float) -> None:
    with Served(classifier(channels)) as served, chromium() as browser:
        served.play(body_stream(channels, random_state=1), rate, live=True)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(served.url)
        page.wait_for_timeout(11_000)  # ten seconds are shown: the charts are full
        devtools = page.context.new_cdp_session(page)
        devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.evaluate("mlatLive.paintTimes.latencies.length = mlatLive.paintTimes.times.length = 0")
        busy, begun = thread_seconds(devtools), time.perf_counter()
        latencies: list[float] = []
        pictures = 0
        while time.perf_counter() - begun < seconds:
            page.wait_for_timeout(1000)
            some, n = page.evaluate(
                "(({ latencies, times }) => [latencies.splice(0), times.splice(0).length])"
                "(mlatLive.paintTimes)"
            )
            latencies, pictures = latencies + some, pictures + n
        elapsed = time.perf_counter() - begun
        computed = thread_seconds(devtools) - busy
        dropped = page.evaluate("mlatLive.page.dropped")
    p50, p95, p99 = np.percentile(latencies, [50, 95, 99])
    print(f"{channels} channels at {rate:.0f} Hz for {elapsed:.0f} s, {len(latencies)} steps drawn")
    print(f"sample to paint: median {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms")
    print(f"pictures a second: {pictures / elapsed:.1f}; frames dropped: {dropped}")
    print(f"the page's thread computes {1000 * computed / pictures:.1f} ms a picture")
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def thread_seconds(devtools) -> float:
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def compare_frames(channels: int, steps: int = 4, repeats: int = 2000) -> None:
    """Four steps, a frame at 100 Hz, written both ways by Python and read by a browser."""
    values = np.random.default_rng(0).normal(size=(steps, channels))
    proba = np.full(steps, 0.87)
    header = {"kind": "steps", "first": 123456, "n": steps, "d": channels}

    def packed() -> bytes:
        return encode_page_frame(header, [values, proba])

    def text() -> str:
        numbers = np.round(np.column_stack([values, proba]), 5).tolist()
        return json.dumps({**header, "rows": numbers}, separators=(",", ":"))

    sizes = {"packed": len(packed()), "JSON": len(text())}
    wrote = {"packed": seconds_each(packed, repeats), "JSON": seconds_each(text, repeats)}
    with Served(classifier(channels)) as served, chromium() as browser:
        page = browser.new_page()
        page.goto(served.url)
        read = page.evaluate(READ, [list(packed()), text(), repeats])
    for name, took in zip(("packed", "JSON"), read, strict=True):
        size, writing = sizes[name], 1e6 * wrote[name]
        print(f"{name:>6}: {size} bytes, {writing:.1f} µs to write, {1000 * took:.1f} µs to read")


def measure_publishing(channels: int) -> None:
    """What a hub costs the program that classifies, in its own processor time."""
    clf, stream, hub = classifier(channels), body_stream(channels, random_state=1), Hub()
    predictions = predict_steps(clf, stream.values)
    hub.subscribe()
    publishing = emitting = 0.0
    for at in range(0, len(stream) - 4, 4):
        begun = time.process_time()
        for i in range(at, at + 4):
            hub.publish(Steps(stream.values[i : i + 1]), predictions[i : i + 1], None, 0.001)
        published = time.process_time()
        hub.emit()
        publishing += (published - begun) / 4
        emitting += time.process_time() - published
    frames = len(range(0, len(stream) - 4, 4))
    print(f"a step costs {1e6 * publishing / frames:.0f} µs to publish, ", end="")
    print(f"a frame of four {1e6 * emitting / frames:.0f} µs to make")


READ = """async ([bytes, text, repeats]) => {
  const { decode } = await import("/page/frame.js");
  const frame = new Uint8Array(bytes).buffer;
  const timed = (read) => {
    for (let i = 0; i < repeats; i++) read();
    const begun = performance.now();
    for (let i = 0; i < repeats; i++) read();
    return (performance.now() - begun) / repeats;
  };
  return [timed(() => decode(frame)), timed(() => JSON.parse(text))];
}"""


def seconds_each(work, repeats: int) -> float:
    best = np.inf
    for _ in range(5):
        begun = time.perf_counter()
        for _ in range(repeats):
            work()
        best = min(best, (time.perf_counter() - begun) / repeats)
    return best


def picture(path: str, scheme: str, width: int, n_steps: int = 1290) -> None:
    """The page after some seconds of a stream in which a value is missing for a moment.

    The stream is not played in its own time: the picture is the same on a busy machine.
    """
    values = body_stream(random_state=1, run_length=230).values[:n_steps]
    values[560:575, 4] = np.nan
    clf = classifier()
    session = clf.live(teachable=MOST_STEPS)
    examples = {"teach": session.teach, "teach_span": session.teach_span, "undo": session.undo}
    with Served(clf, save=lambda: "walk-2.mlat", **examples) as served, chromium() as browser:
        page = browser.new_page(
            viewport={"width": width, "height": 800 if width > 600 else 844},
            color_scheme=scheme,
            device_scale_factor=2 if width < 600 else 1.5,
        )
        for at in range(0, n_steps, 4):
            some = values[at : at + 4]
            steps = Steps(some, time=np.arange(at, at + len(some)) / 100)
            begun = time.perf_counter()
            predictions = session.push(steps)
            served.hub.publish(steps, predictions, session, time.perf_counter() - begun)
        page.goto(served.url)
        page.locator("#similar-about", has_text="distance").wait_for()
        page.wait_for_timeout(500)
        page.evaluate("document.querySelector('#paint').textContent = ''")  # of no live stream
        page.screenshot(path=path, full_page=width < 600)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--channels", type=int, default=27)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--frames", action="store_true", help="compare packed frames with JSON")
    parser.add_argument("--picture", metavar="PNG", help="write a picture of the page instead")
    parser.add_argument("--scheme", choices=["light", "dark"], default="light")
    parser.add_argument("--width", type=int, default=1280, help="of the picture, in pixels")
    given = parser.parse_args()
    if given.picture:
        picture(given.picture, given.scheme, given.width)
    elif given.frames:
        compare_frames(given.channels)
        measure_publishing(given.channels)
    else:
        measure(given.channels, given.rate, given.seconds)


if __name__ == "__main__":
    main()
