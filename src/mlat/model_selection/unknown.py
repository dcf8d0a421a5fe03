"""The unknown state in tools that take every predicted value for a class.

A stream has steps without a state to predict: those before the first full window. scikit-learn
counts the unknown state as one more class, which lowers every average over classes, and fails where
probabilities are missing. Two ways out: :func:`judged` scores only the steps that ``score`` counts,
and :class:`EveryStep` has a state for every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.metrics import get_scorer
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.validation import check_is_fitted

from ..base.checks import Floats
from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..stream.conversion import as_states, no_state
from ..stream.stream import Stream

ORDER = ("recordings", "time")  # what may come with values to say where a stream is cut


def judged(scoring: str | Callable[..., float]) -> JudgedScorer:
    """A scorer over the steps that ``StreamClassifier.score`` counts: labelled, with a full window.

    A window that is far from every reference (``unknown_rate``) is judged by its most probable
    state, since the unknown one is no class.

    Parameters
    ----------
    scoring : str or callable
        The name of one of scikit-learn's scorers, such as "f1_macro" or "neg_log_loss", or a
        scorer ``f(classifier, X, y)``.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from mlat import StreamClassifier
    >>> from mlat.model_selection import GappedBlocks
    >>> from mlat.synthetic import rotating_states
    >>> stream = rotating_states(run_length=100)
    >>> clf = StreamClassifier(width=16, metric="euclidean")
    >>> cv, scoring = GappedBlocks(3, gap=16), judged("f1_macro")
    >>> cross_val_score(clf, stream, stream.states, cv=cv, scoring=scoring).shape
    (3,)
    """
    return JudgedScorer(scoring)


class JudgedScorer:
    """What :func:`judged` gives; ``set_score_request`` has recordings and time routed to it."""

    def __init__(self, scoring: str | Callable[..., float]) -> None:
        self._scorer = get_scorer(scoring)
        self._scoring = scoring
        self._request: dict[str, bool | str | None] = dict.fromkeys(ORDER)

    def __repr__(self) -> str:
        return f"judged({self._scoring!r})"

    def __call__(self, estimator: Any, X: Any, y: Any = None, **order: Any) -> float:
        view = _JudgedSteps(estimator, X, y, order)
        return float(self._scorer(view, X, view.true))

    def set_score_request(self, **request: bool | str | None) -> Self:
        """Say whether ``recordings`` and ``time`` are passed on, as for scikit-learn's scorers."""
        for name in request:
            if name not in ORDER:
                raise TypeError(f"a judged scorer takes {' and '.join(ORDER)}, not {name!r}")
        self._request.update(request)
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """What is passed on to it."""
        routing = MetadataRequest(owner=self)
        for name, alias in self._request.items():
            routing.score.add_request(param=name, alias=alias)
        return routing


class _JudgedSteps(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted classifier that answers for the judged steps alone."""

    def __init__(self, estimator: Any, X: Any, y: Any, order: dict[str, Any]) -> None:
        classifier = estimator
        if isinstance(estimator, EveryStep):
            classifier, y = estimator.classifier_, estimator._as_states(y)
        self.classes_ = classifier.classes_
        stream = classifier.as_stream(X, **order)
        true, kept = classifier.judged(stream, y)
        self.true = true[kept]
        self._proba = classifier.predict_proba(stream)[kept]
        predicted = classifier.predict(stream)[kept]
        novel = predicted == classifier.unknown_
        predicted[novel] = self.classes_[self._proba[novel].argmax(axis=1)]
        self._predicted = predicted

    def predict(self, X: Any) -> NDArray[Any]:
        return self._predicted

    def predict_proba(self, X: Any) -> Floats:
        return self._proba

    def __sklearn_is_fitted__(self) -> bool:
        return True


@dataclass(eq=False, repr=False)
class EveryStep(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A stream classifier with a state and probabilities for every step, never the unknown state.

    Where there is no full window it goes by how frequent each state is among the labelled training
    steps; where a window is far from every reference (``unknown_rate``) by the most probable state.
    With it ``VotingClassifier``, ``ConfusionMatrixDisplay`` and every metric of scikit-learn see
    the states alone. Boolean labels stay boolean, and -1 may be the label of a state beside 1, as
    in scikit-learn: no label has to stand for the unknown state.

    Parameters
    ----------
    classifier : StreamClassifier, optional
        Default ``StreamClassifier()``.

    Attributes
    ----------
    classifier_ : StreamClassifier
        Fitted.
    prior_ : array of shape (S,)
        How frequent each state is.
    classes_ : array of shape (S,)
    """

    classifier: StreamClassifier | None = None

    def fit(
        self,
        X: Stream | ArrayLike,
        y: ArrayLike | None = None,
        *,
        recordings: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> Self:
        """As :meth:`StreamClassifier.fit`."""
        given = StreamClassifier() if self.classifier is None else clone(self.classifier)
        self._two = _two_labels(y)
        y = self._as_states(y)
        self.classifier_ = given.fit(X, y, recordings=recordings, time=time)
        states = X.states if y is None and isinstance(X, Stream) else np.asarray(y).ravel()
        counts = np.array([(states == state).sum() for state in self.classifier_.classes_])
        self.prior_: Floats = counts / counts.sum()
        return self

    def _as_states(self, y: ArrayLike | None) -> ArrayLike | None:
        """The labels as the classifier has them: 0 and 1 for the two that are no states of ours."""
        if self._two is None or y is None:
            return y
        return cast(ArrayLike, np.where(np.asarray(y) == self._two[1], 1, 0))

    @property
    def classes_(self) -> NDArray[Any]:
        return self.classifier_.classes_ if self._two is None else self._two

    @property
    def n_features_in_(self) -> int:
        return self.classifier_.n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        return self.classifier_.feature_names_in_

    def predict(
        self,
        X: Stream | ArrayLike,
        *,
        recordings: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> NDArray[Any]:
        """The state at each step, shape (T,)."""
        check_is_fitted(self, "classifier_")
        stream = self.classifier_.as_stream(X, recordings=recordings, time=time)
        states, proba = self.classifier_.predict(stream), self.predict_proba(stream)
        unknown = states == self.classifier_.unknown_
        states[unknown] = self.classifier_.classes_[proba[unknown].argmax(axis=1)]
        return states if self._two is None else self._two[states]

    def predict_proba(
        self,
        X: Stream | ArrayLike,
        *,
        recordings: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> Floats:
        """The probability of each state at each step, shape (T, S); never NaN."""
        check_is_fitted(self, "classifier_")
        proba = self.classifier_.predict_proba(X, recordings=recordings, time=time)
        proba[np.isnan(proba).any(axis=1)] = self.prior_
        return proba

    def score(
        self,
        X: Stream | ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        recordings: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> float:
        """The plain accuracy over all labelled steps, those of the guesses too."""
        check_is_fitted(self, "classifier_")
        stream = self.classifier_.as_stream(X, recordings=recordings, time=time)
        y = self._as_states(y)
        true = stream.states if y is None else as_states(y, len(stream), ours=True)
        labelled = true != no_state(true)
        if not labelled.any():
            raise InputError("the stream has no states to judge by; give y")
        predicted = cast(NDArray[Any], self._as_states(self.predict(stream)))
        right = predicted[labelled] == true[labelled]
        weight = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        return float(np.average(right, weights=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _two_labels(y: ArrayLike | None) -> NDArray[Any] | None:
    """The two labels, False and True or -1 and 1, where these are all; else None."""
    given = np.asarray(y)
    labels = np.unique(given) if given.dtype.kind in "bif" else np.empty(0)
    return labels if labels.tolist() in ([False, True], [-1, 1]) else None
