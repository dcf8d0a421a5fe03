"""Messages as JSON and as packed numbers: steps, or malformed."""

import contextlib
import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlat.live.sources.payloads import MalformedError, decode, is_format

CHANNELS = ("ax", "ay", "az")
VALUES = st.one_of(st.just(float("nan")), st.floats(allow_nan=False, allow_infinity=False))
ROWS = st.lists(st.lists(VALUES, min_size=3, max_size=3), min_size=1, max_size=8)


@given(st.binary(max_size=100), st.sampled_from(["json", "f4", "f8", "q+f4", "q+f8"]))
def test_any_payload_gives_steps_or_is_malformed(payload, form):
    with contextlib.suppress(MalformedError):
        assert decode(payload, form, CHANNELS).values.shape[1] == 3


@given(ROWS, st.sampled_from(["f4", "f8"]), st.one_of(st.none(), st.integers(0, 2**62)))
def test_packed_rows_come_back_exactly(rows, kind, seq):
    with np.errstate(over="ignore"):
        sent = np.array(rows).astype(f"<{kind}")
    sent[np.isinf(sent)] = 0
    head = b"" if seq is None else seq.to_bytes(8, "little", signed=True)
    steps = decode(head + sent.tobytes(), f"{'' if seq is None else 'q+'}{kind}", CHANNELS)
    np.testing.assert_array_equal(steps.values, sent.astype(np.float64))
    assert (steps.seq is None) == (seq is None)
    if seq is not None:
        assert steps.seq.tolist() == list(range(seq, seq + len(rows)))


def test_a_list_of_steps_is_one_message():
    sent = [{"seq": 1, "values": [1, 2, 3]}, {"seq": 2, "ax": 4, "ay": None, "az": 6}]
    steps = decode(json.dumps(sent).encode(), "json", CHANNELS)
    np.testing.assert_array_equal(steps.values, [[1, 2, 3], [4, np.nan, 6]])
    assert steps.seq.tolist() == [1, 2]


def test_formats():
    assert [form for form in ("json", "f4", "q+f8", "f2", "q", "q+json") if is_format(form)] == [
        "json",
        "f4",
        "q+f8",
    ]
