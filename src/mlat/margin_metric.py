"""What the large-margin estimators share: windows in, checked, and a large-margin problem out."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from . import progress
from .errors import InputError
from .folding import as_windows, check_finite, flatten, fold, window_width
from .solvers import MarginProblem, Problem, Record
from .targets import Gap, select_targets, when_of

Floats = NDArray[np.float64]
Embedding = Callable[[Floats], Floats]

# Many targets make the better metric where there are many windows. Where there are few, some of
# ten would be far away in the state, and pulling them together undoes what tells states apart.
FEWEST_TARGETS, MOST_TARGETS, WINDOWS_PER_TARGET = 3, 10, 25
MANY_PRODUCTS = 1e10  # n² w d


class MarginMetric(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
    metaclass=ABCMeta,
):
    """A scikit-learn transformer over windows; an estimator adds _solve and _embedding."""

    width: int | None
    n_targets: int | None
    target_gap: Gap
    push_weight: float
    shrinkage: float
    max_iter: int
    tol: float
    init: str | ArrayLike
    random_state: Any
    verbose: int

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        start: ArrayLike | None = None,
        run: ArrayLike | None = None,
    ) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array of shape (n, w, d) or (n, w*d)
            Windows; a flat array is folded time-major by ``width``.
        y : array of shape (n,)
            The state of each window.
        start : array of shape (n,), optional
            The step each window begins at, for ``target_gap``. Default: the row number.
        run : array of shape (n,), optional
            The run each window lies in. Default: neighbouring rows of one state are a run.
        """
        self._check_parameters()
        X = as_windows(X)
        width = window_width(X, self.width)
        flat, labels = validate_data(
            self,
            flatten(X),
            y,
            dtype=np.float64,
            order="C",
            ensure_min_samples=2,
            ensure_all_finite=False,  # checked below, with the place
        )
        check_classification_targets(labels)
        windows = check_finite(fold(flat, width))
        states, codes = encode_states(labels)
        start, run = when_of(codes, start, run)
        targets = select_targets(
            flat,
            codes,
            self._n_targets(codes),
            gap=self.target_gap,
            start=start,
            run=run,
            width=windows.shape[1],
            names=states,
        )
        problem = Problem(
            windows, codes, targets, start, run, float(self.push_weight), float(self.shrinkage)
        )
        with threadpool_limits(_threads(problem)):
            self._learn(problem)
        return self

    def _learn(self, problem: MarginProblem) -> None:
        """Solve a problem, wherever its windows are, and keep what was found."""
        self.width_, self.n_channels_ = problem.width, problem.n_channels
        self.scale_ = problem.scale
        self.initial_loss_ = problem.initial_loss
        self._solve(problem)

    def transform(self, X: ArrayLike) -> Floats:
        """Windows (n, w, d) or (n, w*d) in the space where distances are Euclidean."""
        check_is_fitted(self)
        X = as_windows(X)
        if isinstance(X, np.ndarray) and X.ndim == 3:
            _check_windows(X, self.width_, self.n_channels_)
        flat = validate_data(
            self, flatten(X), dtype=np.float64, reset=False, ensure_all_finite=False
        )
        windows = check_finite(flat.reshape(len(flat), self.width_, self.n_channels_))
        return self._embedding()(windows)

    @abstractmethod
    def _solve(self, problem: MarginProblem) -> None:
        """Solve the problem and keep what was found."""

    @abstractmethod
    def _embedding(self) -> Embedding:
        """From windows (n, w, d) to the learned space, (n, r), made ready to be used often.

        A window is the same to the last bit whatever windows it comes with.
        """

    def _n_targets(self, codes: NDArray[np.int64]) -> int:
        """As many as asked for; else by how many windows the smallest state has."""
        if self.n_targets is not None:
            return self.n_targets
        fewest = int(np.bincount(codes).min())
        usual = min(MOST_TARGETS, max(FEWEST_TARGETS, fewest // WINDOWS_PER_TARGET))
        return min(usual, max(1, fewest - 1))

    def _record(self, solution: Any) -> None:
        """Keep what every solution tells of itself."""
        self.loss_, self.history_ = solution.loss, solution.history
        self.n_iter_, self.converged_ = solution.n_iter, solution.converged
        self.message_ = solution.message

    def _listener(self) -> Any:
        name = type(self).__name__

        def listen(record: Record) -> None:
            progress.report(name, int(record["iteration"]), self.max_iter, record)
            if self.verbose:
                figures = "  ".join(f"{k} {v:.5g}" for k, v in record.items())
                print(f"[{name}] {figures}")

        return listen

    def _start(self, shape: tuple[int | None, ...]) -> Floats | None:
        """The given start, or None for the scaled identity."""
        if isinstance(self.init, str):
            return None
        start = np.asarray(self.init, dtype=np.float64)
        if start.ndim != len(shape) or any(
            want is not None and have != want for have, want in zip(start.shape, shape, strict=True)
        ):
            raise InputError(
                f"init has shape {start.shape}, this problem needs "
                f"{tuple('any' if s is None else s for s in shape)}"
            )
        if not np.isfinite(start).all():
            raise InputError("init holds NaN or infinity")
        return start

    def _check_parameters(self) -> None:
        if self.n_targets is not None:
            check_number(self, "n_targets", Integral, 1)
        check_number(self, "max_iter", Integral, 1)
        check_number(self, "push_weight", Real, 0, 1)
        check_number(self, "shrinkage", Real, 0)
        check_number(self, "tol", Real, 0)
        if self.width is not None:
            check_number(self, "width", Integral, 1)
        if self.target_gap != "run":
            check_number(self, "target_gap", Integral, 0, or_else=' or "run"')
        if isinstance(self.init, str) and self.init != "identity":
            raise InputError(f'init must be "identity" or an array, not {self.init!r}')

    @property
    def _n_features_out(self) -> int:
        return len(self._embedding()(np.zeros((1, self.width_, self.n_channels_)))[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _threads(problem: Problem) -> int | None:
    """How many threads the matrix products may use; None for as many as there are.

    Products of paper-size problems are short: on a machine that does anything else besides,
    threads that wait for each other cost far more than they save.
    """
    n, w, d = problem.X.shape
    return 1 if n * n * w * d < MANY_PRODUCTS else None


def encode_states(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The states, of which there must be at least two, and the index of each window's."""
    states, codes = np.unique(labels, return_inverse=True)
    if len(states) < 2:
        raise InputError(
            f"all {len(codes)} windows are of one class, {states[0]!s}; "
            "a metric is learned from at least two"
        )
    return states, codes


def check_number(
    estimator: Any, name: str, kind: type, low: float, high: float = np.inf, *, or_else: str = ""
) -> None:
    """Refuse a parameter that is not a number of this kind within the bounds."""
    value: Any = getattr(estimator, name)
    is_kind = isinstance(value, kind) and not isinstance(value, bool)
    ok = is_kind and low <= float(value) <= high
    if not ok:
        what = "a whole number" if kind is Integral else "a number"
        bounds = f"from {low:g} to {high:g}" if np.isfinite(high) else f"of at least {low:g}"
        raise InputError(f"{name} must be {what} {bounds}{or_else}, not {value!r}")


def _check_windows(X: NDArray[Any], width: int, n_channels: int) -> None:
    if X.shape[1:] != (width, n_channels):
        raise InputError(
            f"windows of {X.shape[1]} steps and {X.shape[2]} channels, but the metric was learned "
            f"on {width} steps and {n_channels} channels"
        )
