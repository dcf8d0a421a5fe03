"""Batches and frames as bytes, and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_oracles import columns
from live_runs import CLF, VALUES
from mlat.base.append_log import Frame
from mlat.base.errors import InputError
from mlat.live import LiveSession, Prediction, Steps
from mlat.live.core.steps import Predictions
from mlat.live.journal.records import (
    BATCH,
    Batch,
    Example,
    SpanExample,
    Undone,
    decode_records,
    encode_batch,
    encode_predictions,
)
from mlat.live.sources import Arrival


def decode_batch(payload):
    (batch,) = decode_records([Frame(BATCH, 0, payload, 0)]).batches()
    return batch


figures = st.floats(allow_infinity=True)
there = st.floats(allow_nan=False)
whole = st.integers(-(2**63), 2**63 - 1)


@st.composite
def predictions(draw, step):
    """Any: with a complete window, which has a distance and probabilities, or without."""
    complete = draw(st.booleans())
    return Prediction(
        step=step,
        state=draw(st.text(max_size=5) | st.integers(-1, 9)),
        proba=draw(figures),
        distance=draw(there) if complete else np.nan,
        neighbours=tuple(draw(st.lists(st.integers(0, 2**40), max_size=4))),
        why=draw(st.text(max_size=5)),
        seq=draw(st.none() | whole),
        time=draw(st.none() | there),
        probabilities=tuple(draw(st.lists(there, min_size=1, max_size=2))) if complete else (),
        agreement=draw(st.floats(0, 1) | st.just(np.nan)),
    )


@st.composite
def told(draw):
    """Some predictions of steps that follow each other."""
    first = draw(st.integers(0, 3) | st.integers(0, 2**62))
    return [draw(predictions(first + i)) for i in range(draw(st.integers(0, 5)))]


@given(told(), st.integers(0, 5))
def test_predictions_come_back(given_, cut):
    encoded = encode_batch(Batch([], columns(given_)))
    found = decode_batch(encoded).predictions
    assert repr([*found]) == repr(given_)  # NaN is not equal to itself, but reads the same
    assert encode_batch(Batch([], found)) == encoded
    parts = Predictions.joined([found.part(0, cut), found.part(cut, len(found))])
    assert encode_batch(Batch([], parts)) == encoded
    several = encode_batch(Batch([], found[:cut])) + encode_batch(Batch([], found[cut:]))
    assert repr([*decode_batch(several).predictions]) == repr(given_)


@given(st.lists(told(), max_size=4), st.randoms(use_true_random=False))
def test_records_of_one_prediction_are_read_together(given_, random):
    """As each alone, whatever they have in common."""
    every = [replace(one, step=i) for i, one in enumerate(p for some in given_ for p in some)]
    parts = [[one] if random.random() < 0.8 else [] for one in every]
    every = [replace(p, step=i) for i, p in enumerate(p for part in parts for p in part)]
    again = iter(every)
    parts = [[next(again) for _ in part] for part in parts]
    frames = [Frame(BATCH, i, encode_batch(Batch([], columns(p))), 0) for i, p in enumerate(parts)]
    if frames:
        found = decode_records(frames)
        assert repr([*found.predictions]) == repr(every)
        assert repr([[*b.predictions] for b in found.batches()]) == repr(parts)


def test_a_step_that_does_not_follow_is_refused():
    one, other = (Prediction(k, "a", 0.5, 1.0, (1,), "", None, None, (0.5,), 1.0) for k in (0, 2))
    parts = [encode_batch(Batch([], columns([p]))) for p in (one, other)]
    both = encode_batch(Batch([], columns([one, replace(other, step=1)])))
    jumps = both.replace((1).to_bytes(8, "little"), (2).to_bytes(8, "little"), 1)
    assert decode_batch(both).predictions[1].step == 1
    for content in (b"".join(parts), jumps):
        with pytest.raises(InputError, match="record 0: step 2 where 1 should be"):
            decode_batch(content)
    with pytest.raises(InputError, match="record 1: step 2 where 1 should be"):
        decode_records([Frame(BATCH, i, part, 0) for i, part in enumerate(parts)])


def test_of_records_that_are_read_together_the_wrong_one_is_named():
    parts = [
        encode_batch(Batch([], columns([Prediction(*(k, "a", *rest))])))
        for rest in [(0.5, 1.0, (1,), "", None, None, (0.5,), 1.0)]
        for k in range(4)
    ]
    place = parts[2].index((2).to_bytes(8, "little")) + 8  # its state follows its step
    parts[2] = parts[2][:place] + b"\7" + parts[2][place + 1 :]
    with pytest.raises(InputError, match="record 2: a prediction is of no state"):
        decode_records([Frame(BATCH, i, part, 0) for i, part in enumerate(parts)])


def test_columns_of_a_session_are_written_as_its_predictions_one_by_one():
    told = LiveSession(CLF).push(Steps(VALUES[:40], np.arange(40) + 7, np.arange(40.0)))
    assert isinstance(told, Predictions)
    encoded = encode_batch(Batch([], told))
    assert encode_batch(Batch([], columns([*told]))) == encoded
    assert repr([*decode_batch(encoded).predictions]) == repr([*told])


def test_where_all_experts_agree_nothing_is_written_of_it():
    """So that an older mlat reads the journal of a model with one expert."""
    known = Prediction(0, "a", 0.5, 1.0, (1,), "", None, None, (0.5, 0.5), 1.0)
    unknown = Prediction(1, "", np.nan, np.nan, (), "gap", None, None, (), np.nan)
    plain = encode_batch(Batch([], columns([known, unknown])))
    assert len(plain) == 5 + len(encode_predictions(columns([known, unknown])))
    assert repr([*decode_batch(plain).predictions]) == repr([known, unknown])
    assert decode_batch(encode_batch(Batch([], columns([known])))).predictions[0].agreement == 1.0
    split = encode_batch(Batch([], columns([replace(known, agreement=0.6), unknown])))
    assert len(split) == len(plain) + 5 + 16


@given(
    st.integers(0, 4),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.text(max_size=8),
    st.randoms(use_true_random=False),
)
def test_steps_come_back(n_steps, n_channels, has_seq, has_time, position, random):
    values = np.array([random.gauss(0, 1) for _ in range(n_steps * n_channels)])
    values = values.reshape(n_steps, n_channels)
    values[values > 1] = np.nan
    steps = Steps(
        values,
        np.array([random.randrange(-9, 2**62) for _ in range(n_steps)], dtype=np.int64)
        if has_seq
        else None,
        np.array([random.random() for _ in range(n_steps)]) if has_time else None,
    )
    examples = [Example("sit", 4), SpanExample("sit", 0, 2**40), Undone(), SpanExample(3, 7, 8)]
    found = decode_batch(encode_batch(Batch([*examples, Arrival(steps, position)])))
    *taught, arrived = found.inputs
    assert taught == examples
    assert arrived.position == position
    np.testing.assert_array_equal(arrived.steps.values, values)
    for ours, theirs in ((arrived.steps.seq, steps.seq), (arrived.steps.time, steps.time)):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            np.testing.assert_array_equal(ours, theirs)


def test_what_was_read_can_be_changed():
    steps = Steps(np.zeros((3, 2)), np.arange(3), np.arange(3.0))
    (found,) = decode_batch(encode_batch(Batch([Arrival(steps)]))).inputs
    found.steps.values[:] = 1
    found.steps.seq[:] = 2
    found.steps.time[:] = 3
    assert (found.steps.values == 1).all()


def test_an_entry_of_another_version_is_refused():
    with pytest.raises(InputError, match="kind 9"):
        decode_batch(b"\x09\x00\x00\x00\x00")


@pytest.mark.parametrize("length", [8, 12])
def test_agreement_without_its_predictions_is_refused(length):
    entry = b"\x05" + length.to_bytes(4, "little") + bytes(length)
    with pytest.raises(InputError, match="of other predictions"):
        decode_batch(entry)
