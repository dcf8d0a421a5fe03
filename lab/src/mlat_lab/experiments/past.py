"""The same past for all: what others see of a split where they look as far back as our default.

At a step the default sees its window and, by its features, ``reach`` steps more. So every rival is
also given windows of ``width + reach`` steps, and some learn from the default's own features of the
last step. They learn at the same steps as from windows, and are judged at the same steps: where a
stretch is shorter than that, it is mirrored at its first step. A first step that repeats would mark
the run, and forests learn that: of one second of EMG a forest then had half of the accuracy that it
has from windows alone. To learn from, a stretch is a run, as it is to the default; to be judged, it
is all of the stream since a gap.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlat.base.checks import Ints
from mlat.classifier.classifier import StreamClassifier
from mlat.features.features import Scaling
from mlat.stream.stream import Stream
from mlat.stream.windows import Windows

from .protocol import SplitStreams, all_windows


class Seen(NamedTuple):
    """What a classifier learns from, and what it is judged on.

    Attributes
    ----------
    X : array of shape (n, w, d), or (n, d') of features
    y, start, run : arrays of shape (n,)
        As those of :class:`~mlat.Windows`.
    test : array of shape (n_test, w, d), or (n_test, d')
    past : int, optional
        The steps that it may see, where these are more than a window.
    padded : float, optional
        The share of what is learned from before which there are fewer steps than that.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    start: Ints
    run: Ints
    test: NDArray[Any]
    past: int | None = None
    padded: float | None = None


def unweighted_default() -> StreamClassifier:
    """The default with all of its experts: their features and reach do not depend on weights."""
    return StreamClassifier(held_out=False)


def learned_default(train: Stream, width: int) -> StreamClassifier:
    """The default, learned from what is given with windows of so many steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the default itself says these
        classifier: StreamClassifier = unweighted_default().set_params(width=width).fit(train)
    return classifier


def see_past(streams: SplitStreams, width: int, default: StreamClassifier, stride: int = 1) -> Seen:
    """Windows of ``width`` steps and as many before these as the default may look at.

    Every ``stride``-th is learned from.
    """
    windows = _every(streams, width, stride)
    past = width + default.features_.lift.memory
    begins, ends = streams.train.runs.start[windows.run], windows.start + width - 1
    segments = streams.test.segments.start
    first = segments[np.searchsorted(segments, streams.ends, side="right") - 1]
    return Seen(
        look_back(streams.train.values, begins, ends, past),
        *(windows.y, windows.start, windows.run),
        look_back(streams.test.values, first, streams.ends, past),
        past,
        float((ends - begins + 1 < past).mean()),
    )


def see_features(
    streams: SplitStreams, width: int, default: StreamClassifier, stride: int = 1
) -> Seen:
    """The default's features of the last step of each window, with mean 0 and variance 1."""
    windows = _every(streams, width, stride)
    features = default.features_
    learned = features.of_runs(windows)[windows.start + width - 1]
    scaled = Scaling.of(learned)
    return Seen(
        scaled(learned),
        *(windows.y, windows.start, windows.run),
        scaled(features(streams.test)[streams.ends]),
        width + features.lift.memory,
    )


def _every(streams: SplitStreams, width: int, stride: int) -> Windows:
    windows = all_windows(streams.train, width)
    return windows.take(np.arange(0, len(windows), stride))


def look_back(values: NDArray[Any], begins: Ints, ends: Ints, past: int) -> NDArray[Any]:
    """The last ``past`` steps up to each end, shape (n, past, d); what lacks is mirrored.

    Parameters
    ----------
    values : array of shape (T, d)
    begins, ends : arrays of shape (n,)
        The first step of each stretch, and the step to look back from.
    """
    length = np.maximum(ends - begins, 1)[:, None]
    back = np.abs(ends[:, None] - begins[:, None] - np.arange(past - 1, -1, -1)) % (2 * length)
    steps = begins[:, None] + np.minimum(back, 2 * length - back)
    return values[np.minimum(steps, ends[:, None])]
