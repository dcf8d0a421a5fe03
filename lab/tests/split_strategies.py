"""Random people and splits of them, for hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from mlat import InputError, Stream
from mlat_lab.experiments.protocol import split


@st.composite
def people(draw):
    """A stream of segments of three states, in a few recordings, with missing values."""
    lengths = draw(st.lists(st.integers(1, 40), min_size=2, max_size=12))
    labels = draw(st.lists(st.sampled_from("abc"), min_size=len(lengths), max_size=len(lengths)))
    states = np.repeat(labels, lengths)
    n = len(states)
    recordings = None
    if draw(st.booleans()):
        recordings = np.sort(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = rng.normal(size=(n, draw(st.integers(1, 3)))) + 5
    values[rng.random(n) < draw(st.sampled_from([0, 0, 0.05]))] = np.nan
    return Stream(values, states, recordings=recordings)


arguments = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "width": st.integers(1, 6),
        "given": st.none() | st.integers(6, 15),
        "n_few": st.integers(1, 4),
        "n_test": st.integers(1, 30),
    }
)


def split_or_skip(stream, protocol, options):
    options = dict(options)
    try:
        return split(stream, protocol, options.pop("seed"), **options)
    except InputError:
        assume(False)
