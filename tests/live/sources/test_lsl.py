"""The Lab Streaming Layer with real outlets and inlets, in different processes."""

import asyncio
import contextlib
import json
import os
import sys
import time
import uuid

import numpy as np
import pytest

from mlat import InputError
from mlat.live.sources import Arrival, Notice, Refusal, open_source
from mlat.live.sources.lsl import RESOLVE, UnfitError, columns

pylsl = pytest.importorskip("pylsl")

TIMEOUT = 30
# Found by loopback only, and by no multicast: as a container, or a careful lab, has it. A session
# of its own: tests that run beside these have outlets of the same names and types.
CONFIG = """
[ports]
IPv6 = disable
[multicast]
ResolveScope = machine
[lab]
KnownPeers = {127.0.0.1}
SessionID = SESSION
[log]
level = -3
"""
# Sends sample i as (i, i + 0.5, ...) when someone listens, and says so; ends with its input.
OUTLET = """
import json, sys, threading, time, pylsl

name, labels, kind, rate, first, n = json.loads(sys.argv[1])
n_channels = len(labels) if labels and name != "more" else 2
info = pylsl.StreamInfo(name, "EMG", n_channels, rate, kind, "source-" + name)
if labels:
    channels = info.desc().append_child("channels")
    for label in labels:
        channels.append_child("channel").append_child_value("label", label)
outlet = pylsl.StreamOutlet(info)
print("ready", flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), __import__("os")._exit(0)), daemon=True).start()
while not outlet.wait_for_consumers(1.0):
    pass
begun = time.monotonic()
for i in range(first, first + n):
    sample = [i + c / 2 for c in range(n_channels)]
    if first < 0 and i in (-1, 0):
        sample[0] = float("inf")
    convert = {"string": str, "int32": int}.get(kind, float)
    stamp = [float("nan")] if first < 0 and i == -5 else []
    outlet.push_sample([convert(value) for value in sample], *stamp)
    time.sleep(max(0.0, begun + (i - first + 1) / rate - time.monotonic()))
time.sleep(60)
"""


class Outlets:
    """Starts outlets, and ends them all."""

    def __init__(self, config):
        self._environment = {**os.environ, "LSLAPICFG": str(config)}
        self._running = []

    async def start(self, name, labels=None, *, kind="float32", rate=200, first=0, n=40):
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-c", OUTLET, json.dumps([name, labels, kind, rate, first, n])],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=self._environment,
        )
        self._running.append(process)
        assert await asyncio.wait_for(process.stdout.readline(), TIMEOUT) == b"ready\n"
        return process

    async def end(self):
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class Inlet:
    """Takes the events of a source in this process."""

    def __init__(self, spec, channels, **options):
        self._source = open_source(spec, **options)
        self._channels = channels
        self.events, self.delays = [], []
        self._more = asyncio.Condition()

    async def __aenter__(self):
        await self._source.open(self._channels)
        self._task = asyncio.create_task(self._consume())
        return self

    async def __aexit__(self, *error):
        await self._source.close()
        begun = time.monotonic()
        await asyncio.wait_for(self._task, TIMEOUT)
        assert time.monotonic() - begun < RESOLVE  # it waits for no search to end

    async def _consume(self):
        async for event in self._source.events():
            self.events.append(event)
            if isinstance(event, Arrival):
                self.delays.append(pylsl.local_clock() - event.steps.time[-1])
            async with self._more:
                self._more.notify_all()

    async def until(self, condition):
        async with self._more:
            await asyncio.wait_for(self._more.wait_for(condition), TIMEOUT)

    async def until_steps(self, n):
        await self.until(lambda: len(self.steps()) >= n)

    def steps(self):
        return [row for e in self.events if isinstance(e, Arrival) for row in e.steps.values]

    def time(self):
        return np.concatenate([e.steps.time for e in self.events if isinstance(e, Arrival)])

    def notices(self, kind):
        return [e.text for e in self.events if isinstance(e, Notice) and e.kind == kind]

    def refusals(self):
        return [e for e in self.events if isinstance(e, Refusal)]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """For the outlets; and for this process, which reads it when it first uses LSL."""
    path = tmp_path_factory.mktemp("lsl") / "lsl_api.cfg"
    path.write_text(CONFIG.replace("SESSION", f"mlat-{uuid.uuid4().hex}"))
    os.environ["LSLAPICFG"] = str(path)
    yield path
    del os.environ["LSLAPICFG"]


@pytest.fixture
def run(config):
    """Runs a coroutine that is given a way to start outlets."""

    def run(test):
        async def main():
            outlets = Outlets(config)
            try:
                await test(outlets)
            finally:
                await outlets.end()

        asyncio.run(main())

    return run


def test_samples_come_in_the_models_order_with_local_time(run):
    async def test(outlets):
        await outlets.start("arm", ["b", "trigger", "a"], n=300)
        async with Inlet("lsl:arm", ("a", "b")) as inlet:
            await inlet.until_steps(300)
        # Sample i was sent as b = i, trigger = i + 0.5, a = i + 1.
        np.testing.assert_array_equal(inlet.steps(), [[i + 1, i] for i in range(300)])
        assert inlet.events[0] == Notice("connected", "lsl:arm: connected, 2 channels at 200 Hz")
        assert (np.diff(inlet.time()) > 0).all()
        # Seconds of the outlet, which sends late where it waits for a processor, but never early.
        assert 0.5 / 200 < np.ptp(inlet.time()) / 299 < 4 / 200
        # Sent and read by one clock; the first ones waited for the connection.
        assert -0.01 < np.min(inlet.delays) < 0.5

    run(test)


def test_an_outlet_that_is_restarted_is_found_again(run):
    async def test(outlets):
        first = await outlets.start("arm", ["a", "b"], kind="double64")
        async with Inlet("lsl:type=EMG", ("a", "b")) as inlet:
            await inlet.until_steps(40)
            first.kill()
            await inlet.until(lambda: inlet.notices("lost"))
            await outlets.start("arm", ["b", "a"], first=1000, kind="int32")
            await inlet.until_steps(80)
        np.testing.assert_array_equal(inlet.steps()[:40], [[i, i + 0.5] for i in range(40)])
        # The new one has other columns, of whole numbers: it was looked at anew.
        np.testing.assert_array_equal(inlet.steps()[40:], [[i, i] for i in range(1000, 1040)])
        assert len(inlet.notices("connected")) == 2
        assert (np.diff(inlet.time()) > 0).all()

    run(test)


@pytest.mark.parametrize(
    ("labels", "kind", "reason"),
    [
        (["a", "z", "c"], "float32", "the outlet has 3 channels, the model was learned on 2"),
        (["a", "z"], "float32", "the outlet has no channel 'b' (it has a, z)"),
        (["a", "b"], "string", "the outlet sends texts, not numbers"),
    ],
)
def test_an_outlet_that_does_not_fit_is_refused_and_looked_for_again(run, labels, kind, reason):
    async def test(outlets):
        await outlets.start("arm", labels, kind=kind)
        async with Inlet("lsl:arm", ("a", "b"), max_tries=2) as inlet:
            await inlet.until(lambda: inlet.notices("ended"))
        assert [refusal.count for refusal in inlet.refusals()] == [1, 1]
        assert inlet.refusals()[0].reason.startswith(f"lsl:arm: {reason}")
        assert inlet.notices("ended")[0].endswith("gave up after 2 tries")

    run(test)


def test_one_that_is_not_there_is_reported_and_does_not_delay_the_end(run):
    async def test(outlets):
        async with Inlet("lsl:nobody", ("a", "b")) as inlet:
            await inlet.until(lambda: inlet.notices("retrying"))
        text = "lsl:nobody: still waiting for an outlet with this name; try 2 in "
        assert inlet.notices("retrying")[0].startswith(text)

    run(test)


def test_an_outlet_without_names_is_taken_in_its_order_and_that_is_said(run):
    async def test(outlets):
        await outlets.start("arm")
        async with Inlet("lsl:source_id=source-arm", ("a", "b")) as inlet:
            await inlet.until_steps(40)
        np.testing.assert_array_equal(inlet.steps(), [[i, i + 0.5] for i in range(40)])
        assert "channels are taken in the order they are sent" in inlet.notices("note")[0]

    run(test)


def test_a_sample_that_is_not_finite_is_refused_where_it_stood(run):
    async def test(outlets):
        await outlets.start("arm", ["a", "b"], n=20, first=-10)
        async with Inlet("lsl:arm", ("a", "b")) as inlet:
            await inlet.until_steps(17)
        # The outlet sends infinity for -1 and 0, and -5 at no time.
        assert [row[0] for row in inlet.steps()] == [*range(-10, -5), -4, -3, -2, *range(1, 10)]
        assert np.isfinite(inlet.time()).all()
        assert sum(refusal.count for refusal in inlet.refusals()) == 3
        reasons = [refusal.reason for refusal in inlet.refusals()]
        assert "its time stamp is nan" in reasons[0]
        assert any("channel 'a' is infinite" in reason for reason in reasons)

    run(test)


def test_an_outlet_that_names_more_channels_than_it_sends_is_refused(run, capfd):
    """And nothing is printed among the predictions, as pylsl does."""

    async def test(outlets):
        await outlets.start("more", ["a", "b", "c"])
        async with Inlet("lsl:more", ("b", "c")) as inlet:
            await inlet.until(inlet.refusals)
        assert "names more channels than the 2 it sends" in inlet.refusals()[0].reason

    run(test)
    assert capfd.readouterr().out == ""


def test_columns_by_name():
    assert columns(["a", "b"], 2, ("a", "b")) is None
    assert columns(["b", "a"], 2, ("a", "b")) == [1, 0]
    assert columns(["b", "x", "a"], 3, ("a", "b")) == [2, 0]
    assert columns(None, 2, ("a", "b")) is None
    assert columns(["Fp1", "Fp2"], 2, ("x0", "x1")) is None  # the model knows no names
    with pytest.raises(UnfitError, match="two channels one name"):
        columns(["a", "b", "a"], 3, ("a", "b", "b"))
    with pytest.raises(UnfitError, match="has 3 channels, the model was learned on 2"):
        columns(None, 3, ("a", "b"))


@pytest.mark.parametrize("spec", ["lsl:", "lsl:type=", "lsl:it's"])
def test_a_bad_name_is_one_line(spec):
    with pytest.raises(InputError, match="lsl: needs the name of an outlet"):
        open_source(spec)
