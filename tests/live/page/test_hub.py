"""The hub: every step once and in order for each page, and bounded queues."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from live_clients import decode_frame, predicted, push
from live_oracles import columns
from mlat.live import Prediction, Steps
from mlat.live.page.hub import (
    FRAME_STEPS,
    IN_FLIGHT,
    MOST_WAITING,
    QUEUE,
    History,
    Hub,
    WaitingValues,
    encode_page_frame,
)


def steps_of(frame):
    """The numbers of a frame's steps, which `push` made their first channel's values."""
    header, numbers = decode_frame(frame)
    if header["kind"] != "steps":
        return []
    n, d = header["n"], header["d"]
    if n:
        np.testing.assert_array_equal(numbers[: n * d : d], header["first"] + np.arange(n))
    return list(range(header["first"], header["first"] + n))


def drain(subscription):
    found = []
    while (frame := subscription.take()) is not None:
        found += steps_of(frame)
        subscription.acknowledge()
    return found


def test_frames_give_back_what_was_put_in():
    values = np.array([[1.5, np.nan], [-2.0, np.inf]])
    header, numbers = decode_frame(
        encode_page_frame({"kind": "é", "n": 2}, [values, np.array([0.5])])
    )
    assert header == {"kind": "é", "n": 2}
    np.testing.assert_array_equal(numbers, np.float32([1.5, np.nan, -2.0, np.inf, 0.5]))


@given(st.text(max_size=9))
def test_numbers_begin_where_a_browser_can_look_at_them(text):
    frame = encode_page_frame({"text": text}, [np.ones(3)])
    length = int.from_bytes(frame[:4], "little")
    assert (4 + length) % 4 == 0
    assert json.loads(frame[4 : 4 + length])["text"] == text


@given(
    pushes=st.lists(st.integers(1, 7), max_size=30),
    emits=st.lists(st.booleans(), min_size=30, max_size=30),
    joins=st.integers(0, 29),
    capacity=st.sampled_from([5, 40, 1000]),
)
def test_a_page_sees_every_step_once_and_in_order(pushes, emits, joins, capacity):
    """Whenever it joins, and however steps are cut into frames; as far back as is kept."""
    hub = Hub()
    hub.history = History(capacity)
    seen, subscription, step = [], None, 0
    for i, n in enumerate(pushes):
        if i == joins:
            subscription = hub.subscribe()
        push(hub, step, n)
        step += n
        if emits[i]:
            hub.emit()
        if subscription is not None:
            seen += drain(subscription)
    hub.emit()
    if subscription is not None:
        seen += drain(subscription)
        if capacity == 1000:
            assert seen == list(range(step))
        else:  # what no frame held when it was overwritten is gone, but nothing comes twice
            assert seen == sorted(set(seen))
            assert (
                seen[-min(capacity, pushes[-1]) :]
                == list(range(step))[-min(capacity, pushes[-1]) :]
            )


@given(st.integers(0, 60), st.integers(0, 60), st.booleans())
def test_a_page_that_comes_back_goes_on_where_it_was(seen, total, same):
    hub = Hub()
    for step in range(total):
        push(hub, step, 1)
        hub.emit()
    back = hub.subscribe(since=seen, stream=hub.stream if same else "another")
    got = drain(back)
    begin = min(seen, total) if same else 0
    assert got == list(range(begin, total))
    push(hub, total, 2)
    hub.emit()
    assert drain(back) == [total, total + 1]


def test_a_page_that_never_reads_costs_no_memory_and_learns_what_it_missed():
    hub = Hub()
    stuck, quick = hub.subscribe(), hub.subscribe()
    got = []
    for step in range(1000):
        push(hub, step, 1)
        hub.emit()
        got += drain(quick)
    assert got == list(range(1000))
    assert quick.dropped == 0
    assert stuck.dropped == 1000 - QUEUE == hub.counts.dropped
    taken = [steps_of(frame) for frame in iter(stuck.take, None)]
    assert taken == [[step] for step in range(1000 - QUEUE, 1000 - QUEUE + IN_FLIGHT)]
    stuck.acknowledge(2)
    assert [steps_of(frame) for frame in iter(stuck.take, None)] == [[974], [975]]
    stuck.acknowledge(IN_FLIGHT)
    assert drain(stuck) == list(range(976, 1000))  # no more than QUEUE frames waited


def test_a_page_acknowledges_before_it_gets_more():
    hub = Hub()
    page = hub.subscribe()
    for step in range(QUEUE):
        push(hub, step, 1)
        hub.emit()
    assert sum(1 for _ in iter(page.take, None)) == IN_FLIGHT
    page.acknowledge(10**6)  # more than was sent is no credit for later
    assert sum(1 for _ in iter(page.take, None)) == IN_FLIGHT


def test_a_stream_too_fast_to_be_shown_shows_its_newest_steps():
    hub = Hub()
    page = hub.subscribe()
    push(hub, 0, 5 * FRAME_STEPS)
    hub.emit()
    assert drain(page) == list(range(4 * FRAME_STEPS, 5 * FRAME_STEPS))


def test_the_past_is_shown_in_frames_of_bounded_size_and_only_so_far_back(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr("mlat.live.page.hub.time.time", lambda: 10.0 * next(clock))
    hub = Hub(seconds=25.0)
    for i in range(8):
        push(hub, 700 * i, 700, lag=0.0)
    hub.emit()
    page = hub.subscribe()
    frames = [steps_of(frame) for frame in iter(page.take, None)]
    assert [step for frame in frames for step in frame] == list(range(3500, 5600))
    assert max(map(len, frames)) <= FRAME_STEPS


def test_steps_that_are_numbered_again_begin_a_new_history():
    hub = Hub()
    push(hub, 0, 5)
    hub.emit()
    push(hub, 100, 5)
    hub.emit()
    assert drain(hub.subscribe()) == list(range(100, 105))
    push(hub, 0, 3)
    hub.emit()
    assert drain(hub.subscribe()) == [0, 1, 2]


def test_frames_say_states_by_runs_and_times():
    hub = Hub()
    page = hub.subscribe()
    now = 1.7e9  # seconds since 1970: a 32-bit float alone would be off by a minute
    predictions = [
        *[predicted(i, why="filling", time=now + i / 100) for i in range(2)],
        *[predicted(i, time=now + i / 100) for i in range(2, 5)],
        predicted(5, why="far", time=now + 0.05),
    ]
    times = np.array([p.time for p in predictions])
    hub.publish(Steps(np.zeros((6, 3)), time=times), columns(predictions), None, 0.0)
    hub.emit()
    header, numbers = decode_frame(page.take())
    assert header["runs"] == [[0, None, "filling"], [2, "walk", ""], [5, None, "far"]]
    assert header["now"]["latest"]["why"] == "far"
    assert header["now"]["latest"]["proba"] is None
    assert header["now"]["unknown"] == {"filling": 2, "far": 1}
    np.testing.assert_allclose(header["time"] + numbers[-6:].astype(float), times, atol=1e-6)
    np.testing.assert_array_equal(numbers[18:24], np.float32([np.nan] * 2 + [0.75] * 3 + [np.nan]))


def test_numpys_own_states_can_be_sent():
    hub = Hub()
    page = hub.subscribe()
    push(hub, 0, 1, state=np.int64(7))
    hub.emit()
    header, _ = decode_frame(page.take())
    assert header["runs"] == [[0, 7, ""]]
    assert header["now"]["latest"]["state"] == 7


def test_nothing_new_is_no_frame():
    hub = Hub()
    page = hub.subscribe()
    assert hub.emit()  # somebody has joined
    assert not hub.emit()
    drain(page)
    hub.refuse("no number in line 3", 4)
    assert hub.emit()
    header, _ = decode_frame(page.take())
    assert header["n"] == 0
    assert header["now"]["refused"] == 4
    assert header["now"]["notice"] == {"kind": "refused", "text": "no number in line 3"}


def test_a_lost_source_is_not_well():
    hub = Hub()
    assert hub.health()["ok"]
    assert hub.health()["last_step_age"] is None
    hub.notice("lost", "broker away")
    assert not hub.health()["ok"]
    hub.refuse("no number")
    assert not hub.health()["ok"]
    hub.notice("connected", "broker back")
    push(hub, 0, 1, lag=0.25)
    assert hub.health()["ok"]
    assert hub.health()["lag"] == 0.25
    assert 0 <= hub.health()["last_step_age"] < 5


@given(st.permutations(range(12)), st.integers(1, 4))
def test_values_find_their_predictions_whatever_the_order(order, chunk):
    """A session that puts steps into order tells of them later than they came."""
    pending, waiting, next_seq = WaitingValues(), set(), 0
    for at in range(0, len(order), chunk):
        seqs = np.array(order[at : at + chunk])
        waiting |= set(seqs.tolist())
        ready = []
        while next_seq in waiting:
            ready.append(predicted(next_seq, seq=next_seq))
            next_seq += 1
        values = pending.match(Steps(10.0 * seqs[:, None], seq=seqs), columns(ready))
        assert values[:, 0].tolist() == [10.0 * p.seq for p in ready]
    assert next_seq == 12


def test_values_of_refused_steps_are_skipped():
    values = np.array([[1.0], [np.nan], [3.0]])
    matched = WaitingValues().match(Steps(values), columns([predicted(0), predicted(1)]))
    assert matched[:, 0].tolist() == [1.0, 3.0]


def test_steps_that_nobody_asks_for_are_forgotten():
    waiting = WaitingValues()
    for seq in range(0, 3 * MOST_WAITING, 64):
        seqs = np.arange(seq, seq + 64)
        waiting.match(Steps(np.zeros((64, 1)), seq=seqs), columns([]))
    wanted = [predicted(seq, seq=seq) for seq in range(3 * MOST_WAITING)]
    found = waiting.match(Steps(np.zeros((0, 1)), seq=np.arange(0)), columns(wanted))
    np.testing.assert_array_equal(np.isnan(found[:, 0]), np.arange(len(wanted)) < 2 * MOST_WAITING)


def test_frames_say_how_far_experts_agree_only_where_they_do_not():
    hub = Hub()
    told = [
        Prediction(i, "a", 0.9, 1.0, (0,), "", None, None, (0.9, 0.1), a)
        for i, a in enumerate([1.0, 1.0, 0.25, 1.0])
    ]
    values = np.zeros((4, 2))
    hub.publish(Steps(values), columns(told), None, 0.001)
    header, arrays = hub.history.between(0, 2)
    assert "agreement" not in header
    assert len(arrays) == 2
    header, arrays = hub.history.between(1, 4)
    assert header["agreement"] is True
    assert arrays[2].tolist() == [1.0, 0.25, 1.0]
    assert hub.status()["latest"]["agreement"] == 1.0
    missing = Prediction(4, "", np.nan, np.nan, (), "gap", None, None, (), np.nan)
    hub.publish(Steps(values[:1]), columns([missing]), None, 0.001)
    assert hub.status()["latest"]["agreement"] is None
    assert "agreement" not in hub.history.between(4, 5)[0]
