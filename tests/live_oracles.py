"""Oracles of live predictions: those of ``predict`` on the equivalent stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlat import Stream
from mlat.live import Prediction
from mlat.live.core.steps import Predictions


def columns(predictions: Sequence[Prediction]) -> Predictions:
    """Predictions that were made one by one as a session gives them."""
    return Predictions.joined(
        Predictions(
            *(p.step, (p.state,), np.array([0]), np.array([p.proba]), np.array([p.agreement])),
            *(np.array([p.distance]), np.array([p.neighbours], np.int64), (p.why,), np.array([0])),
            np.array([p.probabilities], np.float64),
            None if p.seq is None else np.array([p.seq]),
            None if p.time is None else np.array([p.time]),
        )
        for p in predictions
    )


def cut(values, sizes):
    """The rows in chunks of the given sizes, again and again."""
    chunks, begin, i = [], 0, 0
    while begin < len(values):
        size = sizes[i % len(sizes)] if sizes else len(values)
        chunks.append(slice(begin, begin + size))
        begin, i = begin + size, i + 1
    return chunks


def push_all(live, values, sizes=(), seq=None, time=None):
    """All predictions of a stream in chunks."""
    return [
        prediction
        for part in cut(values, list(sizes))
        for prediction in live.push(
            values[part],
            None if seq is None else seq[part],
            None if time is None else time[part],
        )
    ]


def comparable(predictions):
    """Predictions in a form in which NaN equals NaN and no two different floats are equal."""
    return [repr(prediction) for prediction in predictions]


def states(predictions):
    return [prediction.state for prediction in predictions]


def probabilities(predictions, n_classes):
    """Of every state at every step, shape (t, S); NaN without a window."""
    none = (np.nan,) * n_classes
    rows = [prediction.probabilities or none for prediction in predictions]
    return np.array(rows, dtype=float).reshape(len(predictions), n_classes)


def assert_as_batch(clf, predictions, stream, *, filtered=False):
    """States, probabilities and distances are those of the classifier, to the last bit."""
    if not isinstance(stream, Stream):
        stream = Stream(stream)
    assert [p.step for p in predictions] == list(range(len(stream)))
    assert states(predictions) == clf.predict(stream, filtered=filtered).tolist()
    proba = clf.predict_proba(stream, filtered=filtered)
    np.testing.assert_array_equal(probabilities(predictions, len(clf.classes_)), proba)
    distances, rows = clf.kneighbors(stream)
    if clf.n_neighbors_ == 1:
        nearest = clf.class_distances(stream).min(axis=1)
        rows = np.where(np.isnan(nearest), -1, 0)[:, None]
    else:
        nearest = distances[:, 0]
        assert [p.neighbours or (-1,) * clf.n_neighbors_ for p in predictions] == [
            tuple(row) for row in rows.tolist()
        ]
    np.testing.assert_array_equal([p.distance for p in predictions], nearest)
    # Without a window there is nothing but a reason; with one that is known there is none.
    for p, complete in zip(predictions, ~np.isnan(nearest), strict=True):
        assert bool(p.probabilities) == bool(p.neighbours) == bool(complete)
        assert (p.why == "") == (p.state != clf.unknown_)
        if p.why:
            assert np.isnan(p.proba)
        else:
            assert p.proba == p.probabilities[clf.classes_.tolist().index(p.state)]


def hold_naively(values, hold, gap):
    """Each channel's last value for at most ``hold`` steps in a row, not across gaps."""
    filled = values.copy()
    for c in range(values.shape[1]):
        last, missing = np.nan, 0
        for t in range(len(values)):
            if gap[t]:
                last, missing = np.nan, 0
            if np.isnan(values[t, c]):
                missing += 1
                if missing <= hold:
                    filled[t, c] = last
            else:
                last, missing = values[t, c], 0
    return filled


def dead_naively(values, dead_after):
    """For each step the channels that have not moved for so long."""
    dead = np.zeros(values.shape, bool)
    for c in range(values.shape[1]):
        seen = []
        for t in range(len(values)):
            if not np.isnan(values[t, c]):
                seen.append(values[t, c])
            last = seen[-int(min(dead_after[c], 10**6)) :]
            dead[t, c] = len(last) >= dead_after[c] and len(set(last)) == 1
    return dead


def recordings(gap):
    """A recording for each segment without a gap."""
    return np.cumsum(gap)


class BruteForce:
    """The nearest by the plain definition, with taught windows among the references."""

    def __init__(self, clf):
        self.clf = clf
        self.references = [expert.embedded() for expert in clf.experts_]
        self.codes = np.searchsorted(clf.classes_, clf.windows_.y)

    def windows(self, stream):
        """For each step the features of the window that ends there, or None."""
        seen, w = self.clf.features_(stream), self.clf.width_
        found = [None] * len(stream)
        for start, stop, _ in stream.segments:
            for end in range(start + w, stop + 1):
                found[end - 1] = seen[end - w : end]
        return found

    def embed(self, expert, windows):
        last = np.array(windows)[:, -expert.windows.width :]
        return expert.embed(expert.view(last))

    def distances(self, window, taught, expert=0):
        """To every reference and then every taught (code, window), and their states."""
        one, rows = self.clf.experts_[expert], self.references[expert]
        codes = np.append(self.codes, [code for code, _ in taught]).astype(int)
        if taught:
            rows = np.concatenate([rows, self.embed(one, [w for _, w in taught])])
        z = self.embed(one, [window])[0]
        return np.sqrt(((rows - z) ** 2).sum(axis=1)), codes

    def nearest(self, window, taught):
        """The least of these for each state, or what a committee makes of those of its experts."""
        of_experts = []
        for expert in range(len(self.clf.experts_)):
            distances, codes = self.distances(window, taught, expert)
            n_classes = max(len(self.clf.classes_), codes.max() + 1)
            of_experts.append(
                np.array([distances[codes == c].min(initial=np.inf) for c in range(n_classes)])
            )
        return self.clf.committee_.combine([one[None] for one in of_experts])[0]
