"""k nearest neighbours over streams: from labelled runs to a state for every step.

Fitting goes one way: a plan, windows, experts (:mod:`.experts`: features, metric,
references), their weights (:mod:`.committee`), confidence. Predicting goes through the references
of each expert (:mod:`mlat.neighbours.references`) to distances by state, which the committee
multiplies, and from these to states and probabilities (:mod:`.confidence`). One metric is a
committee of one.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..base import work
from ..base.checks import (
    BELOW_1,
    Bools,
    Floats,
    Ints,
    Limits,
    check_parameters,
    is_real,
    is_whole,
)
from ..base.errors import InputError
from ..features.features import Features, Units, in_common_units
from ..features.lifts import Lift
from ..metric.embedding import metric_array, unmixed
from ..metric.estimators import LMNN, MLAT
from ..neighbours.references import References, check_channels
from ..stream.conversion import as_matrix, as_states, is_frame, one_per_step, unnamed_channels
from ..stream.signs import is_rough, switches_at_random, without_copies
from ..stream.sources import is_several, join_values
from ..stream.stream import Stream, no_state
from ..stream.windows import Windows, sliding_windows
from .committee import MOST_SIDES, Committee, HeldOut, learn_committee
from .confidence import learn_confidence
from .decision import ExpertSearches, nothing_decided
from .enrolment import enrolled, in_own_units, self_trained
from .experts import (
    Design,
    Plan,
    default_plan,
    fair_references,
    groups_of,
    learn_experts,
)
from .held_out import evidence
from .intake import BEGINS, KNOWN, Intake
from .state_filter import Belief
from .thin import Thinning

if TYPE_CHECKING:
    import os

    from ..live import LiveSession

NAMED = {"mlat": MLAT, "lmnn": LMNN}
# A number has 16 digits: of an offset this many times the variation, five are left for it.
LARGE_OFFSET = 1e11
# Common units are better on most development sets with several people. Where a state has two groups
# this is the accuracy by which those left out must be predicted worse to say otherwise.
IN_DOUBT = 0.05
OUTLIER = 1e6  # times the usual deviation: no sensor has such a range
STEPS = 8192  # predicted at a time: a report of progress after each
# Times the typical distance. On development recordings 2 of 100 windows of known states are farther
# in the half that was not learned from, and of four states that were left out 2, 57, 73 and 99.
UNLIKE = 3.0
GAP, NOTHING = -1, -2  # what broke a window, where no value was missing


class Thinned(NamedTuple):
    """How many references there were, and the share of decisions that stay the same with fewer."""

    n_all: int
    agreement: float


@dataclass(eq=False, repr=False)
class StreamClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts the state of a stream at every step, from a few labelled runs.

    The windows of the labelled stream are the references. The state of a step is that of the
    references nearest to the window which ends there.

    Parameters
    ----------
    width : int, default=10
        Steps per window; with ``metric="auto"`` those of the widest expert.
    metric : "auto", "euclidean", "mlat", "lmnn" or an estimator, default="auto"
        How windows are compared; "auto" is a committee of several experts, each with features and
        a metric of its own. They are weighted by how well they predict parts of the training
        stream that they did not learn from; see ``committee_``. An estimator is a transformer over
        windows, such as :class:`MLAT`.
    lift : Lift or sequence of str, optional
        Features to compute from the channels first, see :class:`~mlat.Lift`; default none. Not
        with ``metric="auto"``, whose experts have features of their own.
    whiten : bool, default=False
        Weigh features by how they vary within states, before the metric is learned. See
        :func:`mlat.features.features.whitening`. Not with ``metric="auto"``.
    n_neighbors : int, optional
        Neighbours that vote; default 1, which is the only one that a committee takes.
    scale : bool, default=True
        Scale each channel to mean 0 and variance 1 over the labelled steps of the training
        stream; predicting uses the same mean and scale.
    stride : int, default=1
        Keep every so many-th window of a run as a reference.
    reach : int, optional
        With ``metric="auto"``: how many steps back its features look; default 100, or two widths
        where that is more, but no more than a fifth of the median run or the width. A state
        depends on no step further back than the width and the reach together.
    unknown_rate : float, default=0.0
        The rate of false alarms: predict the unknown state where a window is farther from every
        reference than all but this fraction of windows like the references. 0 never does.
    held_out : bool, default=True
        Learn from parts of the stream too, and judge by the others: see ``held_out_`` and
        ``committee_``. False saves that time; then nothing is known of how good the classifier is,
        and the experts of ``metric="auto"`` weigh the same.
    max_references : int or float, optional
        Keep at most so many references; or, from 0 to 1, as few as leave this share of decisions
        as they are with all of them. Default all. See ``thinned_``.
    device : str, optional
        A device of PyTorch, such as "cuda", on which one metric is learned; default the processor.
        The experts of a committee learn on the processor, from fewer windows. It is not part of a
        model file.

    Attributes
    ----------
    classes_ : array of shape (S,)
        The states it can predict.
    unknown_ : ``""`` or -1
        The unknown state, predicted where there is no complete window.
    width_ : int
        Steps per window, given or chosen.
    n_neighbors_ : int
    experts_ : tuple of References
        One, or those of the committee: each with its features, metric, width and references.
    committee_ : Committee
        Who is in the committee, with which weight, how good each is alone and all together. One
        metric is a committee of one.
    held_out_ : HeldOut or None
        What the classifier says of parts of the training stream, each learned without it; None
        where they were not held out, or could not be. Not part of a model file.
    metric_ : fitted transformer, or None for Euclidean distance
        Of the only expert; several have one each.
    features_ : Features
        From the channels to the features that all experts share.
    feature_names_ : tuple of str
    feature_channels_ : array of shape (d',)
        The channel each feature is computed from.
    windows_ : Windows
        The references, as windows over the training stream's values.
    references_ : References
        The first expert: references with their features, state codes and the exact searches
        among them.
    confidence_ : Confidence
        From distances to probabilities and to the unknown state; the state filter.
    channels_ : tuple of str
    n_features_in_ : int
        The number of channels.
    feature_names_in_ : array of shape (d,)
        The names of the channels, where they have names.
    units_ : Units or None
        Where held-out groups were predicted better in common units: the mean and deviation of each
        channel that every group was brought to. See ``adapt``.
    usual_step_ : float or None
        The median time between steps of the training stream, in seconds where its time is; None
        where it has no time.
    thinned_ : Thinned or None
        Where not all references were kept: how many there were (``n_all``), and the share of
        decisions that stay the same (``agreement``), on windows of the training stream that had no
        part in choosing them.

    Examples
    --------
    >>> import mlat
    >>> from mlat.synthetic import rotating_states
    >>> train = rotating_states(runs_per_state=4, random_state=0)
    >>> clf = mlat.StreamClassifier(width=16).fit(train)
    >>> again = rotating_states(random_state=1)
    >>> clf.predict(again)[:3].tolist()
    ['', '', '']
    >>> clf.score(again) > 0.6
    True
    """

    # The names of channels and of "no state" are not one per step: no splitter can cut them.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"channels": UNUSED, "unlabelled": UNUSED}

    width: Annotated[int, Limits(1)] = 10
    _: KW_ONLY
    metric: Literal["auto", "euclidean", "mlat", "lmnn"] | Any = "auto"
    lift: Any = None
    whiten: bool = False
    n_neighbors: Annotated[int, Limits(1)] | None = None
    scale: bool = True
    stride: Annotated[int, Limits(1)] = 1
    reach: Annotated[int, Limits(1)] | None = None
    unknown_rate: Annotated[float, Limits(0, BELOW_1)] = 0.0
    held_out: bool = True
    max_references: float | None = None
    device: str | None = None

    def fit(
        self,
        X: Stream | ArrayLike,
        y: ArrayLike | None = None,
        *,
        recordings: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        time: ArrayLike | None = None,
        channels: Sequence[str] | None = None,
        unlabelled: Any = None,
    ) -> Self:
        """Learn from a labelled stream, or from values (T, d) and their states (T,).

        From several ``groups`` (people, machines, days) it learns for one that it has not seen:
        what marks a group is to be ignored, and the experts are judged by groups left out.

        Parameters
        ----------
        X : Stream, or array or frame of shape (T, d), or a list of them
            Each of a list is a recording.
        y : array of shape (T,), or a list of them, optional
            The states; default those of the stream.
        recordings, groups, time, channels, unlabelled
            As for :class:`~mlat.Stream`: they say more about values. Groups may also be one for
            each of a list of recordings.

        Raises
        ------
        InputError
            If the stream does not fit together, has too few states or windows, or a parameter is
            wrong.

        Warns
        -----
        UserWarning
            If the steps seem to be in random order, or beside a value the others of its channel are
            nothing. Of stretches that are copies of earlier ones: they are learned from once.
        """
        check_parameters(self)
        if is_several(X) and groups is not None:
            lengths = [len(one) for one in cast(Any, X)]
            if len(given := np.asarray(groups)) == len(lengths):
                groups = np.repeat(given, lengths)
        more = {"recordings": recordings, "time": time, "channels": channels}
        stream = _as_labelled(X, y, **more, unlabelled=unlabelled)
        stream = stream if groups is None else stream.with_groups(groups)
        _warn_of_outliers(stream)
        _warn_if_shuffled(stream)
        plan = self._plan(stream)
        stream = without_copies(stream, self.width)
        runs = stream.runs
        classes = stream.classes[np.unique(runs.code[runs.length >= plan.width])]
        learned = learn_committee(stream, plan, classes, held_out=self.held_out)
        units = None
        if learned.held_out is not None and groups_of(stream) is not None:
            alike, common = in_common_units(stream)
            then = learn_committee(alike, plan, classes, held_out=self.held_out)
            # Of two groups, one tells hardly anything of the other.
            few = evidence(stream, plan.width).per_state < MOST_SIDES
            if then.committee.accuracy > learned.committee.accuracy - few * IN_DOUBT:
                stream, units, learned = alike, common, then
        plan, committee, held_out = learned
        windows = fair_references(sliding_windows(stream, plan.width, stride=self.stride), stream)
        experts = learn_experts(stream, windows, plan)
        self._set_fitted(experts, committee, stream.channels, plan.n_neighbors)
        self.units_: Units | None = units
        self.held_out_: HeldOut | None = held_out
        self._learn_confidence(stream, committee)
        if self.max_references is not None:
            self._thin(stream, committee)
        self.usual_step_ = stream.usual_step
        return self

    def _plan(self, stream: Stream) -> Plan:
        """Check what parameters mean together, and lay out the experts.

        Raises
        ------
        InputError
            If a parameter is wrong, or if the stream has windows of fewer than two states.
        """
        if self.max_references is not None:
            _check_most(self.max_references, self.n_neighbors)
        if self.device is not None:
            from ..metric.torch_problem import open_device  # needs PyTorch

            open_device(self.device)
        metric, lift, k = self.metric, self.lift, self.n_neighbors
        is_name = isinstance(metric, str)
        if metric is None or (is_name and metric not in ("auto", "euclidean", *NAMED)):
            raise InputError(
                f'metric must be "auto", "euclidean", "mlat", "lmnn" or an estimator such as '
                f"mlat.MLAT(), not {metric!r}"
            )
        is_auto = is_name and metric == "auto"
        if is_auto and (lift is not None or self.whiten):
            raise InputError('metric="auto" has lifts and whitening of its own; leave them out')
        if is_auto and k not in (None, 1):
            raise InputError(
                f'metric="auto" compares the nearest reference of each state; for {k} '
                'neighbours give one metric, such as metric="mlat"'
            )
        check_states(stream, self.width)
        _warn_of_offsets(stream)
        if is_auto:
            return default_plan(stream, self.width, self.reach, bool(self.scale))
        if is_name:
            metric = None if metric == "euclidean" else NAMED[metric]()
        name = "Euclidean distance" if metric is None else type(metric).__name__
        lift = Lift() if lift is None else lift if isinstance(lift, Lift) else Lift(lift).fit()
        design = Design(name, self.width, whiten=bool(self.whiten), metric=metric)
        return Plan((design,), lift, bool(self.scale), int(k or 1), self.device)

    def enrol(
        self,
        X: Stream | ArrayLike,
        y: ArrayLike | None = None,
        *,
        recordings: ArrayLike | None = None,
        time: ArrayLike | None = None,
        unlabelled: Any = None,
    ) -> StreamClassifier:
        """A new classifier, which has windows of another stream among its references.

        For a new person, placement or day, of whom there are a few labelled seconds of each state,
        or of some. Features, scaling, metrics, weights and calibration are kept; only forests are
        grown again, so it is done in seconds. The references of before stay, but for those that
        the new ones contradict, so the states that the stream lacks are still predicted, and new
        states are added.

        Where the classifier was learned in common units and is not adapted yet, it is adapted to
        the stream first (see ``adapt``), its steps without a state included.

        Parameters
        ----------
        X : Stream, or array or frame of shape (T, d), or a list of them
            Of the same channels.
        y : array of shape (T,), or a list of them, optional
            The states; default those of the stream.
        recordings, time, unlabelled
            As for ``fit``.

        Returns
        -------
        StreamClassifier
            This one is not changed.

        Raises
        ------
        InputError
            If the channels differ, or the stream has no window of a state.

        Warns
        -----
        UserWarning
            Of copies, as for ``fit``.
        """
        check_is_fitted(self, "experts_")
        _check_labelled(X, y)
        if is_several(X):
            X, y = join_values(cast(Any, X), cast(Any, y)), None
        stream = self.as_stream(X, recordings, time)
        if y is not None:
            stream = stream.with_states(y, unlabelled)
        if stream.labelled.any() and stream.no_state != self.unknown_:
            kind = "names" if self.unknown_ == "" else "numbers"
            raise InputError(
                f"the states of the stream, such as {stream.classes[0]!s}, are written otherwise "
                f"than those of the model, which are {kind}; write both in the same way"
            )
        stream = without_copies(stream, self.width_)
        adapted = self.units_ is None or self.units_.adapted
        return enrolled(self if adapted else in_own_units(self, stream) or self, stream)

    def adapt(
        self,
        X: Stream | ArrayLike,
        *,
        recordings: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> StreamClassifier:
        """A new classifier for another person, machine or placement, by steps without a state.

        If it was learned from several groups in common units (``units_``), the mean and deviation
        of each channel of the new stream take the place of theirs. Then what it is surest of in the
        stream joins its references, where states last longer than what a prediction looks back
        over. The stream should be as what is to be predicted: long enough to have the usual states
        in their usual shares.

        Returns
        -------
        StreamClassifier
            This one is not changed, and is returned where it is not adapted. Else
            ``committee_.expected`` is of this stream, by how sure the new one is.

        Raises
        ------
        InputError
            If the channels differ.

        Warns
        -----
        UserWarning
            If it is not adapted, for the mean and deviation are as of a stream that lacks states.
        """
        check_is_fitted(self, "experts_")
        if is_several(X):
            X = join_values(cast(Any, X), None)
        stream = self.as_stream(X, recordings, time)
        own = self if self.units_ is None else in_own_units(self, stream)
        return self if own is None else self_trained(own, stream)

    def _set_fitted(
        self,
        experts: Sequence[References],
        committee: Committee,
        channels: tuple[str, ...],
        n_neighbors: int,
    ) -> None:
        """Keep what predicting needs, from fitting or from a model file."""
        # The widest: every expert's windows end where its windows end.
        widest = max(experts, key=lambda expert: expert.windows.width)
        if n_neighbors > len(widest) > 0:  # an empty one has none yet
            raise InputError(
                f"n_neighbors is {n_neighbors}, but the stream gives only {len(widest)} windows"
            )
        self.experts_, self.committee_ = tuple(experts), committee
        self.thinned_: Thinned | None = None
        self.units_ = None
        self.held_out_ = None
        self.references_, self.channels_ = self.experts_[0], channels
        self.n_neighbors_ = n_neighbors
        self.windows_: Windows = widest.windows
        self.width_: int = widest.windows.width
        self.features_: Features = widest.features
        self.classes_, self.unknown_ = widest.classes, no_state(widest.classes)
        self.n_channels_ = len(channels)
        self.feature_names_ = self.features_.lift.names(channels)
        self.feature_channels_ = self.features_.lift.channels(len(channels))

    def _learn_confidence(self, stream: Stream, committee: Committee) -> None:
        self.confidence_, self.committee_ = learn_confidence(
            self.experts_,
            stream,
            committee=committee,
            held_out=self.held_out_,
            overlap=self.width_ + self.features_.lift.memory,
            unknown_rate=self.unknown_rate,
        )

    def _thin(self, stream: Stream, committee: Committee) -> None:
        """Keep fewer references, if there are more than wanted; distances are judged anew."""
        most, n_all = self.max_references, len(self.references_)
        assert most is not None
        if not _is_share(most) and most >= n_all:
            return
        thinning = Thinning(self)
        kept = thinning.keep_share(most) if _is_share(most) else thinning.keep(int(most))
        if len(kept.rows) == n_all:
            return
        thinned = [expert.take(kept.rows) for expert in self.experts_]
        held_out, units = self.held_out_, self.units_
        self._set_fitted(thinned, committee, self.channels_, self.n_neighbors_)
        self.held_out_, self.units_ = held_out, units
        self._learn_confidence(stream, committee)
        self.thinned_ = Thinned(n_all, kept.agreement)

    @property
    def n_features_in_(self) -> int:
        """The number of channels, by the name that scikit-learn has for it."""
        return self.n_channels_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the channels, where they have names."""
        if self.channels_ == unnamed_channels(self.n_channels_):
            raise AttributeError("the channels have no names")
        return np.array(self.channels_, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # a missing value
        return tags

    @property
    def metric_(self) -> Any:
        """The metric of the only expert; None for Euclidean distance."""
        check_is_fitted(self, "experts_")
        if len(self.experts_) > 1:
            raise AttributeError(
                "a committee has a metric for each expert: experts_[i].metric; give "
                'metric="mlat" for a classifier with one metric'
            )
        return self.references_.metric

    @property
    def mean_(self) -> Floats:
        """The mean that is subtracted from each channel, shape (d,)."""
        return self.features_.channels.mean

    @property
    def scale_(self) -> Floats:
        """The standard deviation that each channel is divided by, shape (d,)."""
        return self.features_.channels.scale

    @property
    def reference_features_(self) -> Floats:
        """The features of the references' steps, shape (T, d'); NaN elsewhere."""
        return self.references_.steps

    def features(self, stream: Stream | ArrayLike) -> Floats:
        """The lifted and scaled channels, shape (T, d'); NaN where missing."""
        return self.features_(self.as_stream(stream))

    def metric_matrix(self) -> Floats:
        """M over windows of ``features``, shape (w*d', w*d'), whitening included."""
        metric = self.metric_
        if metric is None:
            M = np.eye(self.width_ * self.features_.n_features)
        elif hasattr(metric, "metric_"):
            M = metric.metric_
        else:
            M = cast(Floats, metric_array(metric, self.width_, self.features_.n_features))
        return cast(Floats, unmixed(M, self.references_.view.mixing, self.width_))

    def kneighbors(
        self, stream: Stream | ArrayLike, n_neighbors: int | None = None
    ) -> tuple[Floats, Ints]:
        """The nearest references of the window that ends at each step.

        Returns
        -------
        distances : array of shape (T, k), or (M, T, k) for a committee of M > 1 experts
            In the learned space of each expert, nearest first; NaN where there is no complete
            window.
        rows : array of the same shape
            Rows of ``windows_``; -1 where there is no complete window.
        """
        stream = self.as_stream(stream)
        k = self.n_neighbors_ if n_neighbors is None else n_neighbors
        features = self.features_(stream)
        found = [expert.neighbours(stream, k, features) for expert in self.experts_]
        if len(found) == 1:
            return found[0]
        return np.stack([one[0] for one in found]), np.stack([one[1] for one in found])

    def class_distances(self, stream: Stream | ArrayLike) -> Floats:
        """The distance to the nearest reference of each state, shape (T, S).

        That of several experts is the weighted geometric mean of their distances, each in units of
        its typical distance. NaN where there is no complete window.
        """
        return self.committee_.combine(self.expert_distances(stream))

    def expert_distances(self, stream: Stream | ArrayLike) -> list[Floats]:
        """The distance of each expert to its nearest reference of each state, (T, S) each."""
        stream = self.as_stream(stream)
        features = self.features_(stream)
        return [e.class_distances(stream, features) for e in self.experts_]

    def predict(
        self,
        X: Stream | ArrayLike,
        *,
        filtered: bool = False,
        recordings: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> NDArray[Any]:
        """The state at each step, shape (T,): that of the window which ends there.

        ``unknown_`` where there is no complete window: before the first of a recording, after a
        gap and after a missing value. A value too extreme to be compared counts as missing, with a
        warning. With an ``unknown_rate`` above 0 also where the window is
        far from every reference.

        Parameters
        ----------
        filtered : bool, default=False
            Apply the state filter (:mod:`mlat.classifier.state_filter`): the most probable state
            given all windows up to each step, by the transitions of the training stream. It
            changes state less often, and later at a switch.
        recordings, time : arrays of shape (T,), optional
            As for ``fit``.
        """
        return self._predict(self.as_stream(X, recordings, time), filtered).states

    def predict_proba(
        self,
        X: Stream | ArrayLike,
        *,
        filtered: bool = False,
        recordings: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> Floats:
        """The probability of each state, shape (T, S); NaN where there is no complete window.

        With one neighbour, and for a committee, it is calibrated on the training stream. With
        several neighbours it is the fraction of them that is in each state.
        """
        return self._predict(self.as_stream(X, recordings, time), filtered).proba

    def _predict(self, stream: Stream, filtered: bool) -> Predicted:
        return PiecePredictor(self, filtered=filtered, n_steps=len(stream)).push(stream)

    def ends_window(self, stream: Stream | ArrayLike) -> Bools:
        """Which steps end a complete window, shape (T,): those that are judged."""
        stream = self.as_stream(stream)
        ends = np.zeros(len(stream), dtype=bool)
        windows = sliding_windows(stream, self.width_, labelled=False)
        ends[windows.start + self.width_ - 1] = True
        return ends

    def score(
        self,
        X: Stream | ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        recordings: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> float:
        """The plain accuracy over the labelled steps that have a complete window.

        The fraction that is right, as everywhere in scikit-learn: where one state is frequent, much
        of it may be had by guessing. :func:`mlat.explain.count_confusions` gives the balanced
        accuracy, the level of guessing and the recall of each state.

        Windows that extend over a switch of states count too, as in a live stream. The unknown
        state, predicted for a window that is far from every reference, counts as wrong. Steps
        count by their ``sample_weight`` (T,), where one is given.
        """
        stream = self.as_stream(X, recordings, time)
        true, judged = self.judged(stream, y)
        right = self.predict(stream)[judged] == true[judged]
        if sample_weight is None:
            return float(right.mean())
        weight = one_per_step(sample_weight, len(stream), "sample_weight")[judged]
        return float(np.average(right, weights=weight.astype(np.float64)))

    def judged(
        self, stream: Stream | ArrayLike, states: ArrayLike | None = None
    ) -> tuple[NDArray[Any], Bools]:
        """The true states (T,), and which steps ``score`` counts: labelled, with a full window.

        Raises
        ------
        InputError
            If there are no such steps, or no states.
        """
        _check_labelled(stream, states)
        stream = self.as_stream(stream)
        true = stream.states if states is None else as_states(states, len(stream), ours=True)
        judged = (true != no_state(true)) & self.ends_window(stream)
        if not judged.any():
            raise InputError("no labelled step of the stream has a complete window to judge")
        return true, judged

    def live(self, **options: Any) -> LiveSession:
        """A session that takes a stream as it arrives; its states are those of ``predict``.

        See :class:`mlat.live.core.options.LiveOptions` for the options.
        """
        from ..live import LiveSession

        return LiveSession(self, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file (no pickle); read it back with :func:`mlat.load`."""
        from .model_file import save

        save(self, path)

    def as_stream(
        self,
        given: Stream | ArrayLike,
        recordings: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> Stream:
        """Values as a stream of the channels that were learned from, columns matched by name.

        A value too extreme to be compared becomes NaN, with a warning.

        Raises
        ------
        InputError
            If channels are missing.
        """
        check_is_fitted(self, "features_")
        more: dict[str, Any] = {"recordings": recordings, "time": time}
        if is_several(given):
            given = join_values([self.as_stream(one) for one in cast(Any, given)], None)
        if isinstance(given, Stream):
            _refuse_more(more)
            stream = given
        elif not is_frame(given):
            array = self._with_as_many_channels(as_matrix(given))
            # With names: nobody is to be warned of a channel that was learned.
            stream = Stream(array, channels=unnamed_channels(array.shape[1]), **more)
        elif set(self.channels_) <= set(cast(Any, given).columns):
            from ..stream.read import read_channels  # with Arrow, which takes long to import

            stream = read_channels(given, self.channels_).with_order(**more)
            _warn_of_ignored(stream)
        else:
            stream = Stream(given, **more)
        check_channels(stream, self.channels_)
        return self.features_.without_extremes(stream)

    def _with_as_many_channels(self, array: NDArray[Any]) -> NDArray[Any]:
        """An array, if it has the columns that were learned from; in scikit-learn's words."""
        n = array.shape[1]
        if n != self.n_channels_:
            raise InputError(
                f"X has {n} features, but StreamClassifier is expecting {self.n_channels_} "
                f"features as input: the channels {', '.join(self.channels_)}"
                f"{'. Reshape your data to (steps, channels)' if n == 1 else ''}"
            )
        return array


def _as_labelled(
    given: Stream | ArrayLike, states: ArrayLike | None, unlabelled: Any, **more: Any
) -> Stream:
    """A labelled stream, as given or from values and states."""
    _check_labelled(given, states)
    if is_several(given):
        given, states = join_values(cast(Any, given), cast(Any, states)), None
    if getattr(states, "shape", ())[1:] == (1,):
        states = column_or_1d(states, warn=True)  # a frame of one column, or its values
    if not isinstance(given, Stream):
        return Stream(given, states, unlabelled=unlabelled, **more)
    _refuse_more(more)
    return given if states is None else given.with_states(states, unlabelled)


def _check_labelled(stream: Stream | ArrayLike, states: ArrayLike | None) -> None:
    is_stream = isinstance(cast(Any, stream)[0] if is_several(stream) else stream, Stream)
    if states is None and not is_stream:
        raise InputError(
            "StreamClassifier requires y to be passed, but the target y is None: give a labelled "
            "stream, or values and states"
        )


def _refuse_more(more: dict[str, Any]) -> None:
    for name, given in more.items():
        if given is not None:
            raise InputError(f"a stream has {name} of its own; give {name} with values only")


def _warn_of_ignored(stream: Stream) -> None:
    for note in stream.notes:
        if "ignored" in note:
            warnings.warn(f"of the frame {note}", UserWarning, stacklevel=5)


def _warn_of_outliers(stream: Stream) -> None:
    """Warn of values beside which the others of their channel are nothing."""
    values = stream.values
    for name, column in zip(stream.channels, values.T, strict=True):
        seen = column[np.isfinite(column)]
        if not len(seen):
            continue
        low, middle, high = np.quantile(seen, [0.05, 0.5, 0.95])
        # Halved before they are subtracted, which may not overflow.
        usual = max(high / 2 - middle / 2, middle / 2 - low / 2)
        away = np.abs(column / 2 - middle / 2)
        with np.errstate(over="ignore"):
            outliers = np.flatnonzero((away > OUTLIER * usual) & (usual > 0))
        if len(outliers):
            worst = outliers[np.nanargmax(away[outliers])]
            warnings.warn(
                f"channel {name!r}: {len(outliers)} of {len(seen)} values, such as "
                f"{column[worst]:g} at step {worst}, are more than {OUTLIER:g} times as far out as "
                "the others, which are nothing beside them; leave such values out (NaN)",
                UserWarning,
                stacklevel=3,
            )


def _warn_if_shuffled(stream: Stream) -> None:
    # Time that rises is proof of the order.
    if stream.time is None and switches_at_random(stream.codes) and is_rough(stream.values):
        warnings.warn(
            "the steps seem to be in random order: their states switch, and their values differ, "
            "as those of any two steps do; windows need steps that follow each other: split a "
            "stream into blocks or by recordings, not row by row",
            UserWarning,
            stacklevel=3,
        )


def _is_share(most: float) -> bool:
    """Whether this is a share of decisions, not a number of references."""
    return 0 < most < 1


def _check_most(most: float, n_neighbors: int | None) -> None:
    """Refuse a wrong number or share of references."""
    if not (is_real(most) and _is_share(most)) and (not is_whole(most) or most < 1):
        raise InputError(
            "max_references must be a number of references, or the share of decisions that stay "
            f"the same, such as 0.99, not {most!r}"
        )
    if n_neighbors not in (None, 1):
        raise InputError(
            "max_references is for the nearest reference; with several neighbours leave it out"
        )


def check_states(stream: Stream, width: int) -> None:
    """Refuse a stream that has windows of fewer than two states."""
    runs = stream.runs
    codes = np.unique(runs.code[runs.length >= width])
    if not len(codes):
        sliding_windows(stream, width)  # raises: it says why there is no window
    if len(codes) < 2:
        raise InputError(
            f"the stream has windows of one state only, {stream.classes[codes[0]]!s}; label at "
            "least two states (it is one class)"
        )


def _warn_of_offsets(stream: Stream) -> None:
    """Warn of channels whose variation is nearly lost in the rounding of a large offset."""
    values = stream.values[stream.labelled & ~stream.missing].astype(np.float64, copy=False)
    low, high = values.min(axis=0), values.max(axis=0)
    size, variation = np.maximum(-low, high), high / 2 - low / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = size / variation
    for channel in np.flatnonzero((ratio > LARGE_OFFSET) & (variation > 0)):
        warnings.warn(
            f"channel {stream.channels[channel]!r}: its offset is {ratio[channel]:.0e} times its "
            "variation, of which rounding leaves little or nothing; subtract the offset first, or "
            "leave the channel out",
            stacklevel=4,
        )


# Predicting piece by piece: the same, to the last bit, as predicting a stream whole. What a piece
# needs of those before it is little: the running sums of the lift, the features of the last steps,
# which its first windows share, and the belief of the state filter. So memory does not grow with
# the stream.


class Predicted(NamedTuple):
    """What is predicted for T steps.

    Attributes
    ----------
    states : array of shape (T,)
    proba : array of shape (T, S)
        The probability of each state; NaN without a complete window.
    complete : array of shape (T,)
        Which steps end a complete window.
    broken_by : array of shape (T,)
        What broke the window that ends at each step, last: the channel that missed a value, -1 for
        the start of a recording or a gap in time, and -2 for nothing.
    since : array of shape (T,)
        How many steps ago that was, the step itself included; at most the width of a window.
    distance : array of shape (T,)
        To the nearest reference of any state; NaN without a complete window.
    """

    states: NDArray[Any]
    proba: Floats
    complete: Bools
    broken_by: Ints
    since: Ints
    distance: Floats


def unlike_beyond(classifier: StreamClassifier) -> float:
    """The distance beyond which a window is unlike anything that the classifier knows.

    For words alone: its state is still named. How often windows of known states are farther depends
    on how much recordings differ; ``unknown_rate`` is for a threshold that is held.
    """
    return UNLIKE * classifier.confidence_.calibration.typical


def warn_unless_adapted(classifier: StreamClassifier) -> None:
    """Warn of a classifier that is to be adapted to whom it predicts, and is not yet."""
    if classifier.units_ is not None and not classifier.units_.adapted:
        warnings.warn(
            "this model was learned from several groups, each in units of its own, and predicts a "
            "new one better once it knows the units of that: adapt it to a recording of it, of "
            "which no step needs a state, or enrol one with states",
            UserWarning,
            stacklevel=4,
        )


class PiecePredictor:
    """Predicts the pieces of one stream, in their order.

    Parameters
    ----------
    classifier : fitted StreamClassifier
    filtered : bool, default=False
        Apply the state filter.
    n_steps : int, default=0
        Of the whole stream, for reports of progress; 0 where nobody knows.
    """

    def __init__(
        self, classifier: StreamClassifier, *, filtered: bool = False, n_steps: int = 0
    ) -> None:
        warn_unless_adapted(classifier)
        self._classifier, self._filtered = classifier, filtered
        self._n_steps, self._done = n_steps, 0
        self._intake = Intake(classifier.features_, classifier.width_)
        self._memory = self._intake.start()
        self._searches = ExpertSearches(classifier, exactly=True)
        # The last steps and their features: one at least, to know whether the next follows it.
        self._n_kept = max(classifier.width_ - 1, 1)
        self._kept: Stream | None = None
        self._recent = np.empty((0, classifier.features_.n_features))
        self._belief: Belief | None = None
        self._warned = False

    def push(self, piece: Stream) -> Predicted:
        """The states of the next steps.

        Raises
        ------
        InputError
            If the piece has other channels.

        Warns
        -----
        UserWarning
            Of the first value that is too extreme to be compared; such values count as missing.
        """
        check_channels(piece, self._classifier.channels_)
        begins = range(0, max(len(piece), 1), STEPS)
        parts = [self._push(piece[begin : begin + STEPS]) for begin in begins]
        if len(parts) == 1:
            return parts[0]
        return Predicted(*(np.concatenate(field) for field in zip(*parts, strict=True)))

    def _push(self, piece: Stream) -> Predicted:
        classifier = self._classifier
        piece = self._without_extremes(piece)
        stream = piece if self._kept is None else self._kept.followed_by(piece)
        before = len(stream) - len(piece)
        values = np.asarray(piece.values, dtype=np.float64)
        taken = self._intake.take(self._memory, values, stream.gap_before[before:])
        features, complete = np.concatenate([self._recent, taken.features]), taken.why == KNOWN
        self._recent = features[len(features) - min(self._n_kept, len(features)) :]
        if complete.any():
            seen = partial(self._searches.seen, features, len(piece))
            decision = self._searches.decide(seen, complete)
        else:
            decision = nothing_decided(len(piece), len(classifier.classes_), 1, 1)
        codes, proba = decision.codes, decision.proba
        known = complete
        if self._filtered:
            proba, self._belief = classifier.confidence_.filter(
                taken.marks == BEGINS, proba, classifier.n_neighbors_, self._belief
            )
            codes = np.where(known, np.nan_to_num(proba).argmax(axis=1), -1)
        states = np.full(len(piece), classifier.unknown_, dtype=classifier.classes_.dtype)
        known = known & ~(decision.distance > classifier.confidence_.threshold)
        states[known] = classifier.classes_[codes[known]]
        broken_by, since = _breaks(stream, classifier.width_)
        self._kept = stream[max(0, len(stream) - self._n_kept) :]
        self._done += len(piece)
        work.report("steps", self._done, self._n_steps, {})
        broken = broken_by[before:], since[before:]
        return Predicted(states, proba, complete, *broken, decision.distance)

    def _without_extremes(self, piece: Stream) -> Stream:
        features = self._classifier.features_
        extreme = features.channels.extremes(piece.values)
        if extreme is None:
            return piece
        if not self._warned:
            message = features.describe(extreme, piece.values, piece.channels)
            warnings.warn(message, UserWarning, stacklevel=4)
            self._warned = True
        return piece.without(extreme)


def _breaks(stream: Stream, width: int) -> tuple[Ints, Ints]:
    """What broke the window that ends at each step, and since when; see :class:`Predicted`."""
    at = np.arange(len(stream))
    breaks = stream.gap_before | stream.missing
    breaks[:1] = True
    last = np.maximum.accumulate(np.where(breaks, at, 0))
    channel = np.isnan(stream.values[last]).argmax(axis=1)
    since = np.minimum(at - last + ~stream.missing[last], width)
    by = np.where(stream.missing[last], channel, GAP)
    return np.where(since == width, NOTHING, by), since
