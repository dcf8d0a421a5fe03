"""Active learning, which span to label next: the one whose label would help most, and why.

A recording is looked at through a thousand windows, evenly spaced, with features that need no
label: the level of each channel, over a short and over a longer time, and how much it varies and
moves. Every window has

- *novelty*, its distance to the nearest window that was labelled, or answered otherwise,
- *density*, the inverse of its distance to a near neighbour: what is like many others helps more,
- *uncertainty*, the ratio of its distances to the nearest and the second nearest state, at most 1.

A span is worth the mean of ``uncertainty · sqrt(novelty · density)`` over its windows; the
uncertainty counts as soon as two states are labelled. So the first spans are of what is frequent,
the next of what is like none of them, and later ones lie between two states.
docs/evidence/active-learning.md has what was compared with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Bools, Floats, Ints, check_whole
from ..base.errors import InputError
from ..stream.conversion import changes
from ..stream.stream import Stream
from ..stream.windows import starts_in_runs

MOST_WINDOWS = 1000
# The usual span: a two-hundredth of the recording, within these steps.
PARTS, SHORTEST, LONGEST = 200, 30, 500
PER_SPAN = 5  # windows of a span, where the recording is not too long
REACH = 100  # steps that a window looks back, at most half a span
SHORT = 10  # steps of the short level, and the fewest steps of a window
MOST_FEATURES = 24  # principal components
FAR = 0.95  # the quantile of distances beyond which all are equally far
NEIGHBOUR = 50  # density is by the neighbour of this rank of as many: one in fifty
ENOUGH = 0.5  # a span of which this fraction is answered is not asked for
# What is said of a span.
UNLIKE, BETWEEN, LITTLE = "unlike", "between", "little"
UNCERTAIN = 0.8  # a larger uncertainty is said to lie between two states


class Query(NamedTuple):
    """A span to label.

    Attributes
    ----------
    start, end : int
        Its steps in the stream, half-open.
    why : str
        In words.
    kind : {"unlike", "between", "little"}
        Unlike everything labelled; between two states; of a state that has little.
    states : tuple
        The state that it is like, or the two that it lies between.
    worth : float
        How much it is expected to help; of two queries the larger one helps more.
    """

    start: int
    end: int
    why: str
    kind: str
    states: tuple[Any, ...]
    worth: float


def next_span(
    stream: Stream, *, skipped: Bools | None = None, span: int | None = None
) -> Query | None:
    """The span of a partly labelled stream to label next; None where none is left.

    For one query after the other use one `QueryStrategy`, which looks at the values once.

    Parameters
    ----------
    stream : Stream
        Its labelled steps are what is known.
    skipped : array of shape (T,), optional
        Steps that were looked at and got no state.
    span : int, optional
        Steps of a span; default a two-hundredth of the stream, from 30 to 500.

    Examples
    --------
    >>> import numpy as np
    >>> from mlat import Stream
    >>> rng = np.random.default_rng(0)
    >>> values = np.repeat([0.0, 5.0, 0.0, 9.0], 100)[:, None] + rng.normal(size=(400, 1))
    >>> states = np.repeat(["rest", "walk", "", ""], 100)
    >>> query = next_span(Stream(values, states))
    >>> query.kind, 300 <= query.start < query.end <= 400
    ('unlike', True)
    """
    return QueryStrategy(stream, span=span).next_span(stream, skipped)


class QueryStrategy:
    """The windows of a stream, looked at once, to find spans worth a label.

    Parameters
    ----------
    stream : Stream
    span : int, optional
        Steps of a span; default a two-hundredth of the stream, from 30 to 500.

    Attributes
    ----------
    begin, ends : arrays of shape (n,)
        The step at which the segment of each window begins, and at which the window ends.
    features : array of shape (n, f)
    distances : array of shape (n, n)
    first, last : arrays of shape (m,)
        The windows ``[first, last)`` of each span that can be asked for.
    start, end : arrays of shape (m,)
        Its steps.

    Raises
    ------
    InputError
        If the stream has no steps without a missing value.
    """

    def __init__(self, stream: Stream, *, span: int | None = None) -> None:
        n_steps = len(stream)
        usual = int(np.clip(n_steps // PARTS, SHORTEST, LONGEST))
        self.span = usual if span is None else check_whole(span, "span", unit="steps")
        self.n_steps = n_steps
        stride = max(1, min(-(-n_steps // MOST_WINDOWS), self.span // PER_SPAN))
        stride = max(stride, -(-n_steps // (2 * MOST_WINDOWS)))
        self.begin, self.ends, segment = _windows(stream, stride)
        if not len(self.ends):
            raise InputError("the stream has no steps without a missing value to ask for")
        reach = min(REACH, max(SHORT, self.span // 2))
        self.features = _features(stream.values, self.begin, self.ends, reach)
        self.distances = _distances(self.features)
        self.far = float(np.quantile(self.distances[:: max(1, len(self.ends) // 200)], FAR))
        rank = min(len(self.ends) - 1, max(1, len(self.ends) // NEIGHBOUR))
        near = np.partition(self.distances, rank, axis=1)[:, rank].astype(np.float64)
        self.density = 1.0 / np.maximum(near, 1e-3 * np.median(near) + 1e-12)
        self.first, self.last = _spans(segment, max(1, round(self.span / stride)))
        back = self.span if stride >= self.span else stride
        self.start = np.maximum(self.ends[self.first] - back + 1, self.begin[self.first])
        self.end = self.ends[self.last - 1] + 1

    def next_span(self, stream: Stream, skipped: Bools | None = None) -> Query | None:
        """The span to label next, of the stream as it is labelled now; None where none is left."""
        if len(stream) != self.n_steps:
            raise InputError(
                f"the stream has {len(stream)} steps, that which was looked at has {self.n_steps}"
            )
        answered = stream.labelled if skipped is None else stream.labelled | skipped
        return self.query(stream.codes, answered, stream.classes)

    def query(self, codes: Ints, answered: Bools, classes: NDArray[Any]) -> Query | None:
        """The same, from the code of each step, -1 for none, and which steps are answered."""
        known = codes[self.ends]
        novelty, nearest = self.look(known, answered[self.ends])
        uncertainty = uncertainty_of(nearest)
        worth = self.over_spans(uncertainty * np.sqrt(novelty * self.density))
        count = np.concatenate([[0], np.cumsum(answered)])
        share = (count[self.end] - count[self.start]) / (self.end - self.start)
        worth[share >= ENOUGH] = -1.0
        best = int(worth.argmax())
        if worth[best] < 0:
            return None
        start, end = _longest(answered, int(self.start[best]), int(self.end[best]))
        rows = slice(self.first[best], self.last[best])
        kind, states = _kind(nearest[rows], uncertainty[rows], known, classes)
        why = _why(kind, states, bool(len(classes)))
        return Query(start, end, why, kind, states, float(worth[best]))

    def look(self, known: Ints, answered: Bools) -> tuple[Floats, Floats]:
        """The novelty (n,) of each window, and its distance to each state that is labelled (n, S).

        Parameters
        ----------
        known : array of shape (n,)
            The state of each window as a code; -1 for none.
        answered : array of shape (n,)
        """
        novelty = np.full(len(self.ends), self.far)
        if answered.any():
            novelty = np.minimum(self.distances[:, answered].min(axis=1), self.far)
        codes = np.unique(known[known >= 0])
        nearest = np.empty((len(self.ends), len(codes)))
        for i, code in enumerate(codes):
            nearest[:, i] = self.distances[:, known == code].min(axis=1)
        return novelty.astype(np.float64), nearest

    def over_spans(self, values: Floats) -> Floats:
        """The mean of values (n,) over the windows of each span, shape (m,)."""
        total = np.concatenate([[0.0], np.cumsum(values)])
        means: Floats = (total[self.last] - total[self.first]) / (self.last - self.first)
        return means


def uncertainty_of(nearest: Floats) -> Floats:
    """The ratio of the two least distances to states (n, S), shape (n,); 1 for fewer than two."""
    if nearest.shape[1] < 2:
        return np.ones(len(nearest))
    two = np.partition(nearest, 1, axis=1)[:, :2]
    ratio: Floats = two[:, 0] / np.maximum(two[:, 1], 1e-12)
    return ratio


def _windows(stream: Stream, stride: int) -> tuple[Ints, Ints, Ints]:
    """Where the segment of each window begins, where the window ends, and its segment."""
    start, stop = stream.segments.start, stream.segments.stop
    first = np.minimum(start + SHORT - 1, stop - 1)  # of a short segment the last step
    ends, segment = starts_in_runs(first, stop - first, 1, stride)
    if len(ends) > 2 * MOST_WINDOWS:  # many short segments
        rows = np.linspace(0, len(ends) - 1, 2 * MOST_WINDOWS).round().astype(np.int64)
        segment, ends = segment[rows], ends[rows]
    return start[segment], ends, segment


def _features(values: NDArray[Any], begin: Ints, ends: Ints, reach: int) -> Floats:
    """Levels, and the logarithms of deviations and of movements, in principal components."""
    steps = ends[:, None] - np.arange(reach)[::-1]
    there = steps >= begin[:, None]
    X = np.asarray(values[np.maximum(steps, begin[:, None])], dtype=np.float64)
    flat = X.reshape(-1, X.shape[2])
    low, middle, high = np.quantile(flat, [0.25, 0.5, 0.75], axis=0)
    size = np.where(high > low, (high - low) / 1.35, flat.std(axis=0))
    X = np.clip((X - middle) / np.where(size > 0, size, 1.0), -20, 20)
    weight = (there / there.sum(axis=1, keepdims=True))[:, :, None]
    mean = (weight * X).sum(axis=1)
    deviation = np.sqrt((weight * (X - mean[:, None]) ** 2).sum(axis=1))
    moved = (weight[:, 1:] * there[:, :-1, None] * np.abs(np.diff(X, axis=1))).sum(axis=1)
    short = weight[:, -SHORT:] / weight[:, -SHORT:].sum(axis=1, keepdims=True)
    level = (short * X[:, -SHORT:]).sum(axis=1)
    # Amplitudes differ by factors, and some states would outweigh all others.
    found = [np.arcsinh(level), np.arcsinh(mean), np.log(deviation + 0.05), np.log(moved + 0.05)]
    F = np.hstack(found)
    F -= F.mean(axis=0)
    spread = F.std(axis=0)
    F /= np.where(spread > 1e-9, spread, 1.0)
    if F.shape[1] > MOST_FEATURES:
        _, vectors = np.linalg.eigh(F.T @ F)
        F = F @ vectors[:, ::-1][:, :MOST_FEATURES]
    return F


def _distances(F: Floats) -> NDArray[np.float32]:
    square = (F * F).sum(axis=1)
    apart = np.maximum(square[:, None] + square - 2.0 * (F @ F.T), 0.0)
    return np.sqrt(apart).astype(np.float32)


def _spans(segment: Ints, per: int) -> tuple[Ints, Ints]:
    """The windows ``[first, last)`` of spans of ``per`` windows, which overlap by half."""
    begins = np.flatnonzero(changes(segment, len(segment), first=True))
    lengths, hop = np.diff(np.append(begins, len(segment))), max(1, per // 2)
    # The last one of a segment may be shorter.
    first, of = starts_in_runs(begins, np.maximum(lengths, per) + hop - 1, per, hop)
    return first, np.minimum(first + per, begins[of] + lengths[of])


def _longest(answered: Bools, start: int, end: int) -> tuple[int, int]:
    """The longest part of a span that is not answered."""
    free = np.concatenate([[False], ~answered[start:end], [False]])
    edges = np.flatnonzero(np.diff(free.astype(np.int8)))
    longest = int(np.diff(edges)[::2].argmax())
    return start + int(edges[2 * longest]), start + int(edges[2 * longest + 1])


def _kind(
    nearest: Floats, uncertainty: Floats, known: Ints, classes: NDArray[Any]
) -> tuple[str, tuple[Any, ...]]:
    """What a span is, by the distances (k, S) of its windows to the labelled states."""
    codes = np.unique(known[known >= 0])
    if len(codes) < 2:
        return UNLIKE, ()
    order = np.argsort(nearest.mean(axis=0))
    like, second = classes[codes[order[0]]].item(), classes[codes[order[1]]].item()
    own = nearest.min(axis=1).mean()
    # As far from all labels as labelled states are from each other's.
    apart = np.median(nearest.mean(axis=0))
    counts = np.array([(known == code).sum() for code in codes])
    if counts[order[0]] < 0.5 * np.median(counts):
        return LITTLE, (like,)
    if float(uncertainty.mean()) >= UNCERTAIN and own < apart:
        return BETWEEN, (like, second)
    return UNLIKE, (like,)


def _why(kind: str, states: tuple[Any, ...], any_labels: bool) -> str:
    if kind == BETWEEN:
        return f"between {states[0]} and {states[1]}"
    if kind == LITTLE:
        return f"like {states[0]}, of which little is labelled"
    return "unlike everything labelled" if any_labels else "like much of the recording"
