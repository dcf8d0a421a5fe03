"""Windows that judge a network while it learns are apart in time from those it learns from."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mlat.lab.rivals.networks import hold_out


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 25), st.integers(0, 2)), min_size=1),
    st.integers(1, 6),
    st.floats(0.05, 0.5),
)
def test_what_judges_shares_no_time_with_what_is_learned_from(runs, width, share):
    start, run, codes, now = [], [], [], 0
    for number, (length, pause, code) in enumerate(runs):
        start.append(now + np.arange(length))
        run.append(np.full(length, number))
        codes.append(np.full(length, code))
        now += length + width - 1 + pause
    start, run, codes = (np.concatenate(parts) for parts in (start, run, codes))
    division = hold_out(codes, start, run, width, share)
    if division is None:
        return
    learn, judge = division
    assert len(np.unique(codes[judge])) >= 2
    assert not set(learn) & set(judge)
    for code in np.unique(codes[judge]):
        own, judged = start[learn][codes[learn] == code], start[judge][codes[judge] == code]
        assert len(own) >= 2
        assert len(judged) == round(share * (codes == code).sum())
        # At least a width of steps lies between the end of one and the beginning of the other.
        assert np.abs(own[:, None] - judged[None]).min() >= 2 * width
