"""LMNN-DTW: a large-margin local distance for dynamic time warping (Shen et al. 2017)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from ..errors import InputError
from ..margin_metric import check_number
from ..targets import Gap
from . import dtw
from .lanes import FloatArray, IntArray, pack
from .ldmlt import transform
from .lmnn_dtw_learning import Problem, learn
from .lmnn_dtw_paths import nearest_targets
from .timed_knn import TimedKNN

# As LMNN usually has; fewer where the smallest label has no more windows.
USUAL_TARGETS = 3


class LMNNDTW(TimedKNN):
    """k nearest neighbours under DTW with a local distance learned by the large-margin loss.

    Parameters
    ----------
    width : int, optional
        Steps per window, to fold a flat array. Without it a flat array is one channel, and there
        is nothing to learn.
    n_neighbors : int, default=1
    n_targets : int, optional
        Windows of the same label, the nearest under DTW, that each window is pulled towards;
        default 3, or all others of the smallest label if it has fewer.
    target_gap : int or "run", default="run"
        Keep out targets of the same run fewer than this many steps away; ``"run"`` takes them
        from another run, or at least five windows away, as :class:`mlat.LMNN` does.
    push_weight : float, default=0.1
        c: the weight of pushing other labels away, against pulling targets nearer.
    max_iter : int, default=50
        Rounds of alignment.
    n_steps : int, default=10
        Steps of the metric between two alignments, at most.
    tol : float, default=1e-4
        Stop when a round lowers the objective by less than this part of itself.
    band : int, optional
        Pair only steps at most this far apart; default: any.
    n_jobs : int, optional
        Threads for the search of neighbours.

    Attributes
    ----------
    metric_ : array of shape (d, d)
        M, positive semidefinite.
    components_ : array of shape (d, d)
        L with ``metric_ = LᵀL``.
    targets_ : array of shape (n, k)
        The targets of each window; -1 stands for none.
    objective_, initial_objective_ : float
        At the result and at the scaled identity, per window.
    history_ : list of Round
        One per round, and a last one without steps for the metric that is kept.
    n_iter_ : int
        Rounds, with the last one that only measures.
    converged_ : bool
    message_ : str
        Why it stopped.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 5, 2)), np.arange(60) % 2
    >>> X[y == 1, :, 0] += 2.0  # what tells the labels apart
    >>> X[:, :, 1] *= 5.0  # loud noise
    >>> M = LMNNDTW().fit(X, y).metric_
    >>> bool(M[0, 0] > 10 * M[1, 1])
    True
    """

    def __init__(
        self,
        width: int | None = None,
        n_neighbors: int = 1,
        n_targets: int | None = None,
        target_gap: Gap = "run",
        push_weight: float = 0.1,
        max_iter: int = 50,
        n_steps: int = 10,
        tol: float = 1e-4,
        band: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.width = width
        self.n_neighbors = n_neighbors
        self.n_targets = n_targets
        self.target_gap = target_gap
        self.push_weight = push_weight
        self.max_iter = max_iter
        self.n_steps = n_steps
        self.tol = tol
        self.band = band
        self.n_jobs = n_jobs

    @classmethod
    def as_in_paper(cls, **parameters: Any) -> LMNNDTW:
        """As in the literature: three targets wherever in time, pull and push weigh the same."""
        return cls(**{"n_targets": 3, "target_gap": 0, "push_weight": 0.5, **parameters})

    def distance(self, X: Any, Y: Any = None) -> FloatArray:
        """The learned distances of windows (n, w, d) to others, shape (n, m).

        ``Y`` is the training windows where it is not given. The distance is the root of the cost
        of the best alignment under the metric, as ``kneighbors`` has it.
        """
        left = self._mapped(self._check_windows(X))
        right = self._mapped(self.windows_ if Y is None else self._check_windows(Y))
        return np.sqrt(dtw.pairwise(left, right, band=self._reach))

    def _learn(self, windows: FloatArray, codes: IntArray) -> None:
        self._check_parameters(windows.shape[1])
        if len(self.classes_) < 2:
            raise InputError(
                f"LMNNDTW needs windows of at least 2 classes; y holds 1 class, "
                f"{self.classes_[0]!s}"
            )
        with np.errstate(over="ignore"):
            if not np.isfinite(np.square(windows).sum()):
                raise InputError("X holds values too large to be squared; scale the channels")
        start, run = self._when.of(codes)
        fewest = int(np.bincount(codes).min())
        self._reach = dtw.check_band(self.band, windows.shape[1], windows.shape[1])
        self.targets_ = nearest_targets(
            windows,
            codes,
            self.n_targets or max(1, min(USUAL_TARGETS, fewest - 1)),
            band=self._reach,
            gap=self.target_gap,
            start=start,
            run=run,
            names=self.classes_,
        )
        problem = Problem(windows, codes, self.targets_, float(self.push_weight), self._reach)
        found = learn(problem, max_iter=self.max_iter, n_steps=self.n_steps, tol=self.tol)
        self.components_ = found.L
        self.metric_ = found.L.T @ found.L
        self.history_, self.n_iter_ = found.rounds, len(found.rounds)
        self.objective_ = found.rounds[-1].objective
        self.initial_objective_ = found.rounds[0].objective
        self.converged_, self.message_ = found.converged, found.message
        self._packed = pack(self._mapped(windows), self._reach)

    def _search(self, windows: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        mapped = self._mapped(windows)
        costs, nearest = dtw.search(mapped, self._packed, k, band=self._reach, n_jobs=self.n_jobs)
        return np.sqrt(costs), nearest

    def _mapped(self, windows: FloatArray) -> FloatArray:
        return transform(windows, self.components_)

    def _check_parameters(self, width: int) -> None:
        if self.n_targets is not None:
            check_number(self, "n_targets", Integral, 1)
        if self.target_gap != "run":
            check_number(self, "target_gap", Integral, 0, or_else=' or "run"')
        check_number(self, "push_weight", Real, 0, 1)
        check_number(self, "max_iter", Integral, 1)
        check_number(self, "n_steps", Integral, 1)
        check_number(self, "tol", Real, 0)
        if self.band is not None and dtw.check_band(self.band, width, width) >= width:
            raise InputError(
                f"windows of {width} steps are too short for a band of {self.band}; "
                f"lower band to at most {width - 1}, or leave it out to pair any steps"
            )
