"""A split as two streams, for systems that take the stream and not its windows.

What such a system computes at a step may reach further back than the window that ends there. So
the given steps of each label are a recording of their own, and so is every stretch of the other
steps that lies farther than a window from them: nothing reaches from one into the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..stream import Stream
from .protocol import Split


class SplitStreams(NamedTuple):
    """What is learned from and what is judged.

    Attributes
    ----------
    train : Stream
        The given steps, with their states.
    test : Stream
        Without states.
    ends : array of shape (n_test,)
        The steps of ``test`` at which the test windows end, in their order.
    """

    train: Stream
    test: Stream
    ends: NDArray[np.int64]


def as_streams(split: Split) -> SplitStreams:
    """The two streams of a split under ``holdout``."""
    values = split.train.values
    given = list(split.given.items())
    steps = np.concatenate([np.arange(start, stop) for _, (start, stop) in given])
    lengths = [stop - start for _, (start, stop) in given]
    train = Stream(
        values[steps],
        np.repeat([label for label, _ in given], lengths),
        recordings=np.repeat(np.arange(len(given)), lengths),
    )
    apart = np.flatnonzero(split.apart)
    recording = split.recording[apart]
    begins = (np.diff(apart) != 1) | (np.diff(recording) != 0)
    test = Stream(values[apart], recordings=np.concatenate([[0], np.cumsum(begins)]))
    return SplitStreams(
        train, test, np.searchsorted(apart, split.test.start + split.test.width - 1)
    )
