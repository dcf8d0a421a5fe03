"""What each expert of a classifier sees: its features by name, and its metric over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.checks import Floats, Ints, ShortRepr
from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..metric.embedding import metric_array, unmixed
from ..metric.forest import Forest
from ..neighbours.references import References
from .attribution import Parts, split


@dataclass(frozen=True, eq=False, repr=False)
class Expert(ShortRepr):
    """An expert in the terms of its features before whitening, which have names.

    Attributes
    ----------
    name : str
        Empty for one metric, which needs none to be told from others.
    weight : float
        Its part of the decision.
    references : References
    columns : array of shape (d_v,)
        Which of the classifier's features it sees.
    mixing : array of shape (d_v, d_v), optional
        Their whitening, or None.
    maps : tuple of str
        The maps that make its features, as of a :class:`~mlat.Lift`.
    features : tuple of d_v names
    channels : array of shape (d_v,)
        The channel of each feature.
    """

    name: str
    weight: float
    references: References
    columns: Ints
    mixing: Floats | None
    maps: tuple[str, ...]
    features: tuple[str, ...]
    channels: Ints

    @property
    def width(self) -> int:
        return self.references.windows.width

    def parts(self, X: Floats, Y: Floats) -> Parts:
        """The parts of the squared distances of windows (n, w, d_v) before whitening: the mean."""
        metric = self.references.metric
        if isinstance(metric, Forest):
            return _split_by_changes(metric, X, Y)
        learned = metric_array(metric, self.width, len(self.columns))
        return split(X - Y, unmixed(learned, self.mixing, self.width))

    def windows(self, rows: Ints | slice) -> Floats:
        """Its features of some references before whitening, shape (n, w, d_v)."""
        return np.asarray(self.references[rows][..., self.columns])

    def window(self, features: Floats) -> Floats:
        """Its features of the window at the end of steps (T, d'), before whitening: (w, d_v)."""
        return np.asarray(features[-self.width :, self.columns])

    def distances(self, features: Floats) -> Floats:
        """From the window at the end of steps (T, d') to every reference, shape (n,)."""
        references = self.references
        window = features[None, -self.width :]
        # By differences of points, as `predict` has them.
        z = references.embed(references.view(window))
        distances = np.empty(len(references))
        for rows, Z in references.embedded_blocks():
            distances[rows] = np.sqrt(((Z - z) ** 2).sum(axis=1))
        return distances


def _split_by_changes(forest: Forest, X: Floats, Y: Floats) -> Parts:
    """By what the splits on each value add to the difference of two points."""
    X, Y = np.broadcast_arrays(X, Y)
    changes = forest.changes(X) - forest.changes(Y)
    of_values = (changes * changes.sum(axis=1, keepdims=True)).sum(axis=2).mean(axis=0)
    by_value = of_values.reshape(forest.width_, forest.n_channels_)
    parts = np.zeros_like(by_value)
    parts[0] = by_value.sum(axis=0)  # no split compares two moments
    return Parts(parts, by_value.sum(axis=1))


def experts_of(clf: StreamClassifier) -> tuple[Expert, ...]:
    """The experts of a fitted classifier, in the order of ``clf.experts_``."""
    experts = []
    for references, member in zip(clf.experts_, clf.committee_.deciding, strict=True):
        view, features = references.view, references.features
        columns = np.arange(features.n_features) if view.columns is None else view.columns
        # The maps of which an expert sees some are each of all channels.
        maps = tuple(features.lift.maps)
        if view.columns is not None:
            maps = tuple(dict.fromkeys(maps[i // clf.n_channels_] for i in columns))
        experts.append(
            Expert(
                member.name if len(clf.committee_.members) > 1 else "",
                member.weight,
                references,
                columns,
                view.mixing,
                maps,
                tuple(clf.feature_names_[i] for i in columns),
                clf.feature_channels_[columns],
            )
        )
    return tuple(experts)


def expert_of(clf: StreamClassifier, which: int | str | None) -> Expert:
    """One expert, by its place in ``clf.experts_`` or by its name; the only one needs neither.

    Raises
    ------
    InputError
        If there is no such expert, or there are several and none is named.
    """
    experts = experts_of(clf)
    if which is None and len(experts) == 1:
        return experts[0]
    for place, expert in enumerate(experts):
        if which == place or (isinstance(which, str) and which == expert.name):
            return expert
    names = ", ".join(
        f"{place} ({expert.name or 'the only one'})" for place, expert in enumerate(experts)
    )
    if which is None:
        raise InputError(f"the classifier has several experts; name one: {names}")
    raise InputError(f"there is no expert {which!r}; there are {names}")
