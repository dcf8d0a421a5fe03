"""A recording played as if live: what is played, when, and from where."""

import asyncio
import selectors
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlat import InputError
from mlat.live.sources import Arrival, Notice, open_source
from mlat.live.sources.replay import Pace, read_recording, split_rate

CHANNELS = ("ax", "ay")


@pytest.fixture
def recording(tmp_path):
    """A file of n steps 10 ms apart, with columns in another order and some that are not used."""

    def write(n, name="walk.csv", step=0.01):
        path = tmp_path / name
        rows = "".join(f"{i * step!r},{-i},rest,{i}\n" for i in range(n))
        path.write_text("time,ay,state,ax\n" + rows)
        return path

    return write


async def play(source, channels=CHANNELS, after=""):
    """The events, and when each came by the event loop's clock."""
    clock = asyncio.get_running_loop().time
    await source.open(channels, after)
    begun = clock()
    events, times = [], []
    async for event in source.events():
        events.append(event)
        times.append(clock() - begun)
    return events, times


OVERSLEPT = 0.003  # seconds


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits: its own clock advances instead, each time a bit too far."""

    def __init__(self):
        self.now = 0.0
        super().__init__(VirtualSelector(self))

    def time(self):
        return self.now


class VirtualSelector(selectors.SelectSelector):
    def __init__(self, loop):
        super().__init__()
        self.loop = loop

    def select(self, timeout=None):
        if timeout:
            self.loop.now += timeout + OVERSLEPT
        return super().select(0)


def steps(events):
    return np.concatenate([e.steps.values for e in events if isinstance(e, Arrival)])


def notices(events, kind):
    return [e.text for e in events if isinstance(e, Notice) and e.kind == kind]


def test_as_fast_as_it_goes_gives_every_row_of_the_models_channels(recording):
    path = recording(3000)
    events, _ = asyncio.run(play(open_source(f"replay:{path}@max")))
    np.testing.assert_array_equal(steps(events)[:, 0], np.arange(3000))
    np.testing.assert_array_equal(steps(events)[:, 1], -np.arange(3000))
    arrivals = [e for e in events if isinstance(e, Arrival)]
    assert arrivals[0].steps.time[1] == 0.01
    assert events[0].kind == "connected"
    assert events[-1] == Notice("ended", f"replay:{path} ended after row 2999")
    assert len(arrivals) < 10


@given(chosen=st.integers(0, 5))
def test_it_resumes_behind_any_position(tmp_path_factory, chosen):
    path = tmp_path_factory.mktemp("r") / "walk.csv"
    path.write_text("ax,ay\n" + "".join(f"{i},0\n" for i in range(2000)))
    events, _ = asyncio.run(play(open_source(f"replay:{path}@max")))
    arrivals = [e for e in events if isinstance(e, Arrival)]
    kept = arrivals[: chosen % len(arrivals) + 1]
    rest, _ = asyncio.run(play(open_source(f"replay:{path}@max"), after=kept[-1].position))
    left = [e for e in rest if isinstance(e, Arrival)]
    resumed = np.concatenate([e.steps.values for e in kept + left])
    np.testing.assert_array_equal(resumed[:, 0], np.arange(2000))


@pytest.mark.parametrize(("rate", "lasts"), [("", 0.49), ("@2x", 0.245), ("@200", 0.245)])
def test_steps_come_when_they_are_due_and_never_before(recording, rate, lasts):
    source = open_source(f"replay:{recording(50)}{rate}")
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        events, times = runner.run(play(source))
    np.testing.assert_array_equal(steps(events)[:, 0], np.arange(50))
    came = np.concatenate(
        [[at] * len(e.steps) for e, at in zip(events, times, strict=True) if isinstance(e, Arrival)]
    )
    due = np.linspace(0, lasts, 50)
    assert (came >= due - 1e-9).all()
    # Deadlines count from the start: errors of single sleeps do not add up.
    assert (came - due).max() < 2 * OVERSLEPT


def test_a_consumer_that_is_behind_gets_what_is_due_at_once(recording):
    async def run():
        source = open_source(f"replay:{recording(100)}@1000")
        await source.open(CHANNELS)
        sizes = []
        async for event in source.events():
            if isinstance(event, Arrival):
                sizes.append(len(event.steps))
                time.sleep(0.03)  # a consumer that blocks
        return sizes

    sizes = asyncio.run(run())
    assert sum(sizes) == 100
    assert len(sizes) < 10


@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=20),
    st.sampled_from(["", "0.5x", "3x", "100", ".5"]),
)
def test_due_times_never_fall(stamps, rate):
    due = Pace(rate).due(np.array(stamps), len(stamps))
    assert due[0] == 0
    assert (np.diff(due) >= 0).all()
    if rate == "100":
        np.testing.assert_allclose(np.diff(due), 0.01)


def test_without_time_it_says_so_and_plays_at_once(tmp_path):
    path = tmp_path / "walk.csv"
    path.write_text("ax,ay,seq\n1,2,7\n,4,9\n")
    events, _ = asyncio.run(play(open_source(f"replay:{path}")))
    np.testing.assert_array_equal(steps(events), [[1, 2], [np.nan, 4]])
    assert "has no column 'time' to keep time by" in notices(events, "note")[0]
    [arrival] = [e for e in events if isinstance(e, Arrival)]
    assert arrival.steps.seq.tolist() == [7, 9]
    assert arrival.steps.time is None


def test_milliseconds_are_suspected(recording):
    async def first_note():
        source = open_source(f"replay:{recording(5, step=10.0)}")
        await source.open(CHANNELS)
        async for event in source.events():
            if isinstance(event, Notice) and event.kind == "note":
                await source.close()
                return event.text
        return ""

    assert "if it is in milliseconds write @1000x" in asyncio.run(first_note())
    events, _ = asyncio.run(play(open_source(f"replay:{recording(5, step=10.0)}@1000x")))
    assert notices(events, "note") == []


def test_parquet_and_dates(tmp_path):
    path = tmp_path / "walk.parquet"
    stamps = np.datetime64("2024-05-31T12:00:00.000", "ns") + np.arange(3) * 10_000_000
    table = pa.table({"ay": [0.0, 1, 2], "time": stamps, "ax": [5, 6, 7]})
    pyarrow.parquet.write_table(table, path)
    events, _ = asyncio.run(play(open_source(f"replay:{path}")))
    [first, *_] = [e for e in events if isinstance(e, Arrival)]
    np.testing.assert_array_equal(steps(events), [[5, 0], [6, 1], [7, 2]])
    assert first.steps.time[0] == 1717156800.0


def test_time_that_turns_back_is_played_as_it_was_sent(tmp_path):
    path = tmp_path / "walk.csv"
    path.write_text("time,ax,ay\n0.00,1,0\n0.02,2,0\n0.01,3,0\n")
    events, _ = asyncio.run(play(open_source(f"replay:{path}")))
    times = np.concatenate([e.steps.time for e in events if isinstance(e, Arrival)])
    np.testing.assert_array_equal(times, [0.0, 0.02, 0.01])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ax,time\n1,0\n", "no column 'ay' (channels)"),
        ("ax,ay\n1,fast\n", "line 2, column 'ay': 'fast' is not a number"),
        ("ax,ay,seq\n1,2,0.5\n", "row 0: seq is 0.5; it must be a whole number"),
        ("ax,ay,time\n1,2,\n", "time"),
    ],
)
def test_a_recording_that_does_not_fit_is_refused_in_one_line(tmp_path, text, reason):
    path = tmp_path / "walk.csv"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        asyncio.run(open_source(f"replay:{path}").open(CHANNELS))
    assert reason in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_or_position_that_is_not_there_is_refused_in_one_line(recording):
    with pytest.raises(InputError, match="is not there"):
        asyncio.run(open_source("replay:nowhere.csv").open(CHANNELS))
    for after in ("3", "-1", "one", "9" * 30):
        with pytest.raises(InputError, match="has rows 0 to 2 and cannot go on after"):
            asyncio.run(open_source(f"replay:{recording(3)}").open(CHANNELS, after))


@pytest.mark.parametrize("rate", ["fast", "0", "0x", "-1", "2y", "1e3"])
def test_a_rate_that_is_none_is_refused_in_one_line(rate):
    with pytest.raises(InputError, match="write @100 for 100 steps a second"):
        open_source(f"replay:walk.csv@{rate}")


def test_a_name_may_have_an_at():
    assert split_rate("me@home.csv") == ("me@home.csv", "")
    assert split_rate("me@home.csv@2x") == ("me@home.csv", "2x")


def test_closing_ends_the_wait_for_the_next_step(recording):
    async def run():
        source = open_source(f"replay:{recording(2, step=100.0)}")
        await source.open(CHANNELS)
        seen = []

        async def consume():
            async for event in source.events():
                seen.append(event)
                if isinstance(event, Arrival):
                    asyncio.get_running_loop().call_soon(asyncio.ensure_future, source.close())

        await asyncio.wait_for(consume(), 5)
        return seen

    assert len([e for e in asyncio.run(run()) if isinstance(e, Arrival)]) == 1


def test_time_by_another_name_is_recognised(tmp_path):
    path = tmp_path / "walk.csv"
    lines = [f"{1000 + i},{i * 0.5},{i % 7},{i % 3},rest" for i in range(40)]
    path.write_text("id,Timestamp (s),ax,az,state\n" + "\n".join(lines))
    found = read_recording(path, ("ax", "az"))
    assert found.time.tolist() == [i * 0.5 for i in range(40)]
    assert found.values[:, 1].tolist() == [i % 3 for i in range(40)]
    anew = path.read_text().replace("\n1039,19.5", "\n1039,1.5")
    path.write_text(anew)
    assert read_recording(path, ("ax", "az")).time is None
