"""A classifier as plain numbers: what another language needs to give the same states.

Every expert's metric is taken back to the features before whitening, where it is a matrix M. With
``u = M x`` of the newest window x, the squared distance to a reference y is

    x·u - 2 u·y + y·M y.

So references can share one table of steps, as they overlap, and ``y·M y`` is one number of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.checks import Bools, Floats, Ints, ShortRepr
from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..classifier.decision import Rule
from ..classifier.intake import dead_after
from ..features.lifts import PreparedLift
from ..metric.embedding import metric_array, unmixed
from ..metric.forest import Forest
from ..metric.toeplitz import to_matrix
from ..neighbours.references import References
from ..stream.windows import counts_inside
from .plain_forest import SHORT_MOST, PlainForest

BLOCK = 1024  # windows at a time
SMALLEST, LARGEST = 1e-30, 1e30  # of what single precision and shifts have room for


@dataclass(frozen=True, eq=False, repr=False)
class PlainExpert(ShortRepr):
    """One expert.

    Attributes
    ----------
    width : int
    columns : array of shape (n,)
        The features that it sees.
    metric : array of shape (lags, n, n) or (w*n, w*n)
        By lag, up to the last that is not 0, or a full matrix.
    weight, typical : float
        As in :class:`~mlat.classifier.committee.Member`; 1 and the calibration's for one expert.
    kept : array of shape (n,), optional
        ``y·M y`` of the references, where what is stored of it is rounded.
    """

    width: int
    columns: Ints
    metric: Floats
    weight: float
    typical: float
    kept: Floats | None = None

    @property
    def n_lags(self) -> int:
        """0 where the metric is a full matrix."""
        return len(self.metric) if self.metric.ndim == 3 else 0

    def units(self, unit: Floats) -> Floats:
        """What its metric is multiplied with for features in units (F,) of their own."""
        units = unit[self.columns] if self.n_lags else np.tile(unit[self.columns], self.width)
        return units[:, None] * units

    def packed(self, metric: NDArray[Any]) -> NDArray[Any]:
        """A metric of its shape as it is stored: of what is symmetric rows up to the diagonal."""
        symmetric = metric[0] if self.n_lags else metric
        rows = symmetric[np.tril_indices(len(symmetric))]
        return np.append(rows, metric[1:]) if self.n_lags else rows

    def rounded(self, unit: Floats) -> PlainExpert:
        """The same with a metric that 16 bits hold, for features in such units."""
        metric, units = self.metric * self.units(unit), self.units(unit)
        bits = short_bits(metric)
        metric = np.clip(np.rint(metric * 2.0**bits), -SHORT_MOST, SHORT_MOST) * 2.0**-bits
        return replace(self, metric=metric / units)

    def as_matrix(self) -> Floats:
        """Its metric over whole windows, (w*n, w*n)."""
        if not self.n_lags:
            return self.metric
        lags = np.zeros((self.width, *self.metric.shape[1:]))
        lags[: self.n_lags] = self.metric
        return to_matrix(lags)

    def squares(self, steps: Floats, start: Ints) -> Floats:
        """``y·M y`` of the windows (n, w) that begin at some of the steps (T, F), shape (n,)."""
        if self.kept is not None:
            return self.kept
        seen = steps[:, self.columns]
        index = start[:, None] + np.arange(self.width)
        result, matrix = np.empty(len(start)), self.as_matrix()
        for begin in range(0, len(start), BLOCK):
            flat = seen[index[begin : begin + BLOCK]].reshape(-1, len(matrix))
            result[begin : begin + BLOCK] = ((flat @ matrix) * flat).sum(axis=1)
        return result


@dataclass(frozen=True, eq=False, repr=False)
class PlainModel(ShortRepr):
    """All numbers of a classifier.

    Attributes
    ----------
    states, channels : tuple of str
    width : int
        Of the widest expert.
    lift : PreparedLift
    channel_mean, channel_scale, feature_mean, feature_scale : arrays
    experts : tuple of PlainExpert or PlainForest
    steps : array of shape (T, F)
        The features of the references' steps.
    start, codes : arrays of shape (n,)
        Where each reference begins among the steps, and its state.
    n_neighbors : int
    beta, soft, threshold : float
    transition, stationary : arrays
        Of the state filter.
    tempering : float
    farthest : float
        The largest distance of a training window to the nearest of another time; may be NaN.
    dead_after : array of shape (d,)
        Constant steps after which each channel is dead.
    usual_step : float, optional
        Seconds from step to step in training.
    """

    states: tuple[str, ...]
    channels: tuple[str, ...]
    width: int
    lift: PreparedLift
    channel_mean: Floats
    channel_scale: Floats
    feature_mean: Floats
    feature_scale: Floats
    experts: tuple[PlainExpert | PlainForest, ...]
    steps: Floats
    start: Ints
    codes: Ints
    n_neighbors: int
    beta: float
    soft: float
    threshold: float
    transition: Floats
    stationary: Floats
    tempering: float
    farthest: float
    dead_after: Ints
    usual_step: float | None = None

    @property
    def matrices(self) -> list[PlainExpert]:
        """The experts whose metric is a matrix: they need the references' steps."""
        return [one for one in self.experts if isinstance(one, PlainExpert)]

    @property
    def forests(self) -> list[PlainForest]:
        """The other ones, which need the references' points."""
        return [one for one in self.experts if isinstance(one, PlainForest)]

    @property
    def is_compared(self) -> Bools:
        """Which features (F,) have to be stored of the references' steps."""
        found = np.zeros(self.steps.shape[1], bool)
        for one in self.matrices:
            found[one.columns] = True
        return found

    @property
    def rule(self) -> Rule:
        """How distances decide."""
        powers = np.array([one.weight for one in self.experts])
        typical = np.array([one.typical for one in self.experts])
        if len(powers) > 1:
            return Rule(powers, typical, self.soft, self.beta, 1.0, 0.0)
        return Rule(powers, np.ones(1), 0.0, self.beta, float(typical[0]), self.soft)

    @classmethod
    def of(cls, clf: StreamClassifier) -> PlainModel:
        """Raises InputError for a metric that is neither linear nor a forest."""
        features, confidence = clf.features_, clf.confidence_
        widest = max(clf.experts_, key=lambda expert: expert.windows.width)
        weights, typical = clf.committee_.powers
        typical = typical * confidence.calibration.typical
        with np.errstate(over="ignore", invalid="ignore"):  # which is refused below
            experts = tuple(
                _expert(one, len(features.lifted.mean), weight, usual)
                for one, weight, usual in zip(clf.experts_, weights, typical, strict=True)
            )
        model = cls(
            tuple(map(str, clf.classes_.tolist())),
            tuple(clf.channels_),
            widest.windows.width,
            features.lift.prepared(len(clf.channels_)),
            features.channels.mean,
            features.channels.scale,
            features.lifted.mean,
            features.lifted.scale,
            experts,
            widest.steps,
            widest.windows.start,
            widest.codes,
            clf.n_neighbors_,
            confidence.calibration.beta,
            clf.committee_.soft + confidence.calibration.soft,
            confidence.threshold,
            confidence.state_filter.transition,
            confidence.state_filter.stationary,
            confidence.state_filter.tempering,
            float(confidence.farthest),
            dead_after(clf.windows_),
            usual_step=clf.usual_step_,
        )
        model = model.take(np.arange(len(model.start)))  # the steps in them alone
        if np.isnan(model.steps).any():
            raise InputError("a reference has a step without features; fit the model again")
        model._check_sizes()
        return model

    def _check_sizes(self) -> None:
        """Refuse numbers that no stream leads to, before something overflows."""
        metrics = [one.metric for one in self.matrices]
        scales = self.channel_scale, self.feature_scale
        levels = [self.channel_mean, self.feature_mean, self.steps]
        levels += [one.threshold for one in self.forests]
        usual = np.array([(one.typical, one.weight) for one in self.experts])
        for what, arrays, least in (
            ("metric", metrics, SMALLEST),
            ("scale", scales, SMALLEST),
            ("level", levels, 0.0),
            ("weight or typical distance", [usual], 0.0),
        ):
            for array in arrays:
                largest = float(np.abs(np.asarray(array)).max(initial=0.0))
                if largest != 0.0 and not least <= largest <= LARGEST:  # NaN is neither
                    raise InputError(
                        f"a {what} of the model is {largest:.3g}, beyond what can be exported; "
                        "fit the model again"
                    )

    def limit(self, far: float | None = None) -> float:
        """The distance beyond which a state is unknown, infinite for never.

        That of the model where it has one; else ``far`` times the farthest in training, as in a
        live session.
        """
        if np.isfinite(self.threshold):
            return self.threshold
        if far is None:
            return float(np.inf)
        if np.isnan(self.farthest):
            raise InputError(
                "how far training windows are is not known of this model; fit it again, or leave "
                "far out"
            )
        return far * self.farthest

    def seen_by(self, one: PlainExpert | PlainForest) -> Floats:
        """The references in what an expert sees, (n, w, c)."""
        first = self.start + self.width - one.width
        seen: Floats = self.steps[:, one.columns][first[:, None] + np.arange(one.width)]
        return seen

    def _with_forests(self, change: Callable[[PlainForest], PlainForest]) -> PlainModel:
        experts = (change(one) if isinstance(one, PlainForest) else one for one in self.experts)
        return replace(self, experts=tuple(experts))

    def with_trees(self, n: int) -> PlainModel:
        """The same with at most so many trees of each forest."""
        return self._with_forests(
            lambda one: one if len(one.sizes) <= n else one.with_trees(n, self.seen_by(one))
        )

    def ranked(self, windows: Floats) -> PlainModel:
        """The same with the trees of each forest in an order for :meth:`with_trees`, by some
        windows (n, w, F)."""
        return self._with_forests(
            lambda one: one.ranked(windows[:, self.width - one.width :, one.columns])
        )

    def take(self, rows: Ints) -> PlainModel:
        """The same with some of the references only, and the steps of these."""
        rows = np.sort(rows)
        start = self.start[rows]
        inside = counts_inside(start, start + self.width, len(self.steps)) > 0
        place = np.cumsum(inside) - 1
        some = self._with_forests(lambda one: replace(one, points=one.points[rows]))
        steps, start = self.steps[inside], place[start]
        return replace(some, steps=steps, start=start, codes=self.codes[rows])


def not_known(target: str, name: str) -> InputError:
    """Of what a lift makes of a channel, by its name."""
    return InputError(f"{target} knows no {name} of a channel yet; fit a model without it")


def short_bits(metric: Floats) -> int:
    """How many digits after the point 16 bits have room for."""
    most = max(float(np.abs(metric).max(initial=0.0)), SMALLEST**2)  # units are small themselves
    return 15 - int(np.frexp(most)[1])


def _expert(
    one: References, n_features: int, weight: float, typical: float
) -> PlainExpert | PlainForest:
    columns = one.view.columns
    columns = np.arange(n_features) if columns is None else columns
    if isinstance(one.metric, Forest):
        return PlainForest.of(one, columns, weight, typical)
    width, n = one.windows.width, len(columns)
    metric = unmixed(metric_array(one.metric, width, n), one.view.mixing, width)
    if metric is None:
        metric = np.eye(n)[None]
    order = np.argsort(columns)  # as they are stored
    every = order if metric.ndim == 3 else (np.arange(width)[:, None] * n + order).ravel()
    columns, metric = columns[order], metric[..., every[:, None], every]
    if metric.ndim == 2:
        return PlainExpert(width, columns, (metric + metric.T) / 2, weight, typical)
    used = np.flatnonzero(metric.any(axis=(1, 2)))
    n_lags = int(used.max(initial=0)) + 1
    blocks = metric[:n_lags].copy()
    blocks[0] = (blocks[0] + blocks[0].T) / 2
    return PlainExpert(width, columns, blocks, weight, typical)
