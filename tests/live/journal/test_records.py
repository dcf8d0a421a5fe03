"""Batches and frames as bytes, and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_oracles import columns
from live_runs import CLF, VALUES
from mlat.base.errors import InputError
from mlat.live import LiveSession, Prediction, Steps
from mlat.live.core.steps import Predictions
from mlat.live.journal.records import (
    Batch,
    Example,
    SpanExample,
    Undone,
    decode_batch,
    decode_predictions,
    encode_batch,
    encode_predictions,
)
from mlat.live.sources import Arrival

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


def test_a_step_that_does_not_follow_is_refused():
    one, other = (Prediction(k, "a", 0.5, 1.0, (1,), "", None, None, (0.5,), 1.0) for k in (0, 2))
    parts = [encode_batch(Batch([], columns([p]))) for p in (one, other)]
    (joined,) = [encode_predictions(columns([one, replace(other, step=1)]))]
    jumps = joined.replace((1).to_bytes(8, "little"), (2).to_bytes(8, "little"), 1)
    assert decode_predictions(joined)[1].step == 1
    for read, content in ((decode_batch, b"".join(parts)), (decode_predictions, jumps)):
        with pytest.raises(InputError, match="not of steps that follow each other"):
            read(content)


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
    assert decode_predictions(encode_predictions(columns([known])))[0].agreement == 1.0
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
