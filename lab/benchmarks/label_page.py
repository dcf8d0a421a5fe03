"""How smooth the labelling page is: opening, panning, and how soon a label has its effect.

    python lab/benchmarks/label_page.py                       # ten million steps of 12 channels
    python lab/benchmarks/label_page.py --steps 1000000
    python lab/benchmarks/label_page.py --pictures docs/images

A recording is made, opened by ``mlat label`` and panned in headless Chromium, at several zooms.
Frame times are those between two pictures of the browser. The time that the page's thread computes
is told beside it: on a busy machine the rest is waiting for others. The effect of a label is
measured on a recording of 100,000 steps, from the key to the new proposals drawn.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from mlat.live import Steps
from mlat.live.page.hub import MOST_STEPS, Hub
from page_server import Served, body_stream, chromium, classifier

PAN = """async ([length, frames]) => {
  const { page, looked } = mlatLabel;
  const { view } = page;
  view.set(view.steps * 0.3, length);
  looked();
  await new Promise((done) => setTimeout(done, 1000));
  page.frames = [];
  page.measuring = true;
  await new Promise((done) => {
    let n = 0;
    const move = () => {
      view.pan(view.length / 60);
      looked();
      if (n++ < frames) requestAnimationFrame(move);
      else done();
    };
    requestAnimationFrame(move);
  });
  page.measuring = false;
  return page.frames.slice(2);
}"""


def recording(folder: Path, n_steps: int, n_channels: int = 12) -> Path:
    """States of 50,000 steps, each with its levels and rhythms."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, t = np.random.default_rng(0), np.arange(n_steps)
    run = min(50_000, n_steps // 10)
    columns = {}
    for c in range(n_channels):
        level = np.repeat(rng.normal(size=n_steps // run + 1), run)[:n_steps]
        wave = level + np.abs(level) * np.sin(t * (2 * np.pi / rng.uniform(20, 80)))
        columns[f"sensor {c}"] = (wave + 0.2 * rng.normal(size=n_steps)).astype(np.float32)
    path = folder / f"{n_steps}.parquet"
    pq.write_table(pa.table(columns), path)
    return path


@contextmanager
def served(path: Path, rate: int | None = 50) -> Iterator[str]:
    """``mlat label`` of a file; the address of its page."""
    command = [sys.executable, "-c", "from mlat.cli import main; main()", "label", str(path)]
    command += ["--no-browser", *([] if rate is None else ["--rate", str(rate)])]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                found = re.search(r"page at (\S+);", line)
                if found:
                    yield found[1]
                    break
            else:
                raise SystemExit("mlat label did not start")
        finally:
            process.terminate()


def wait(page, true: str, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not page.evaluate(true):
        if time.monotonic() > end:
            raise SystemExit(f"never came true: {true}")
        page.wait_for_timeout(20)


def thread_seconds(devtools) -> float:
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def measure_panning(browser, path: Path, n_steps: int, frames: int) -> None:
    begun = time.perf_counter()
    with served(path) as url:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(url)
        wait(page, "globalThis.mlatLabel?.page.ready && mlatLabel.chart.whole")
        opened = time.perf_counter() - begun
        print(f"{n_steps:,} steps: from the command to the signal drawn {opened:.1f} s")
        devtools = page.context.new_cdp_session(page)
        devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        for length in (n_steps // 2, n_steps // 100, 100_000, 3000, 300):
            busy = thread_seconds(devtools)
            times = page.evaluate(PAN, [length, frames])
            computed = 1000 * (thread_seconds(devtools) - busy) / (frames + 30)
            p50, p95, p99 = np.percentile(times, [50, 95, 99])
            print(
                f"panning {length:>9,} steps in view: frame {p50:.1f} ms, p95 {p95:.1f} ms, "
                f"p99 {p99:.1f} ms; the thread computes about {computed:.1f} ms a frame"
            )
        page.close()


def measure_effect(browser, path: Path, repeats: int) -> None:
    with served(path) as url:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(url)
        wait(page, "globalThis.mlatLabel?.page.ready && mlatLabel.chart.whole")
        times = []
        for k in range(repeats + 4):
            page.evaluate(
                """(k) => {
                  const { page } = mlatLabel;
                  page.selection = [1000 + 9000 * k, 4000 + 9000 * k];
                  document.querySelector("#name").value = ["a", "b", "c"][k % 3];
                  page.proposedAt = 0;
                  page.pressedAt = performance.now();
                  document.querySelector("#name-form").requestSubmit();
                }""",
                k % 11,
            )
            if k:
                wait(page, "mlatLabel.page.proposedAt > mlatLabel.page.pressedAt")
                times.append(page.evaluate("mlatLabel.page.proposedAt - mlatLabel.page.pressedAt"))
            page.wait_for_timeout(150)
        some = np.array(times[3:])
        print(
            f"100,000 steps of 12 channels: from the key to the proposals {np.median(some):.0f} "
            f"ms, p95 {np.percentile(some, 95):.0f} ms, of {len(some)} labels"
        )
        page.close()


def take_pictures(browser, folder: Path, out: Path) -> None:
    """The way from an unlabelled recording to a live classifier that is taught, in stills."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = body_stream(12, run_length=1500)
    path = folder / "morning.parquet"
    columns = dict(zip(stream.channels, stream.values.T, strict=True))
    pq.write_table(pa.table({"time": np.arange(len(stream)) / 100, **columns}), path)
    with served(path, rate=None) as url:
        page = browser.new_page(viewport={"width": 1120, "height": 700})
        page.goto(url)
        wait(page, "globalThis.mlatLabel?.page.ready && mlatLabel.chart.whole")
        page.wait_for_timeout(500)
        page.screenshot(path=out / "label-1.png")
        box = page.locator("#signal .u-over").bounding_box()

        def label(k: int, state: str) -> None:
            at = [box["x"] + (1500 * k + s) / len(stream) * box["width"] for s in (300, 1100)]
            page.mouse.move(at[0], box["y"] + 90)
            page.mouse.down()
            page.mouse.move(at[1], box["y"] + 90, steps=4)
            page.mouse.up()
            page.locator("#name").fill(state)

        for k, state in enumerate(["walking", "running", "cycling", "standing"]):
            label(k, state)
            if k == 0:
                page.screenshot(path=out / "label-2.png")
            page.keyboard.press("Enter")
            wait(page, f"mlatLabel.page.spans[0].length === {k + 1}")
            if k == 1:
                wait(page, "mlatLabel.page.proposals[0].length > 0")
                page.wait_for_timeout(300)
                page.screenshot(path=out / "label-3.png")
        wait(page, "mlatLabel.page.current && document.querySelector('#learning').hidden")
        page.locator("#save").click()
        wait(page, "document.querySelector('#model-said').textContent.startsWith('Saved')")
        page.evaluate("document.querySelector('#model-said').textContent = 'Saved: morning.mlat'")
        page.wait_for_timeout(300)
        page.screenshot(path=out / "label-4.png")
        page.close()


def take_live_pictures(browser, out: Path) -> None:
    """A model of the same stream while it runs: a stretch is marked, taught and saved."""
    clf, stream = classifier(12), body_stream(12, run_length=400, random_state=3)
    session = clf.live(teachable=MOST_STEPS)
    examples = {"teach": session.teach, "teach_span": session.teach_span, "undo": session.undo}
    hub = Hub(rate=100.0)

    def push(begin: int, end: int) -> None:
        steps = Steps(stream.values[begin:end], time=np.arange(begin, end) / 100)
        hub.publish(steps, session.push(steps), session, 0.004)

    with Served(clf, hub, save=lambda: "morning-2.mlat", **examples) as live:
        page = browser.new_page(viewport={"width": 1120, "height": 760})
        page.goto(live.url)
        push(0, 1200)
        wait(page, "mlatLive.page.buffer?.next === 1200 && mlatLive.page.view")
        box = page.locator("#ribbon").bounding_box()
        left, room, y = box["x"] + 124, box["width"] - 136, box["y"] + box["height"] / 2
        page.mouse.move(left + 0.44 * room, y)
        page.mouse.down()
        page.mouse.move(left + 0.56 * room, y, steps=4)
        page.mouse.up()
        page.locator("#example-other").fill("hopping")
        page.wait_for_timeout(500)
        page.screenshot(path=out / "label-5.png")
        page.keyboard.press("Enter")
        wait(page, "document.querySelector('#example-said').textContent.startsWith('Taught')")
        push(1200, 1300)
        wait(page, "!document.querySelector('#example-undo').disabled")
        page.locator("#example-save").click()
        wait(page, "document.querySelector('#example-said').textContent.startsWith('Saved')")
        page.wait_for_timeout(500)
        page.screenshot(path=out / "label-6.png")
        page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--pictures", type=Path, help="a folder to draw pictures into")
    parser.add_argument("--live", action="store_true", help="those of the live page only")
    given = parser.parse_args()
    if given.pictures:
        with tempfile.TemporaryDirectory() as folder, chromium() as browser:
            if not given.live:
                take_pictures(browser, Path(folder), given.pictures)
            take_live_pictures(browser, given.pictures)
        return
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        measure_effect(browser, recording(Path(folder), 100_000), given.repeats)
        measure_panning(browser, recording(Path(folder), given.steps), given.steps, given.frames)
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
