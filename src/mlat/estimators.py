"""Phase II as scikit-learn transformers over windows: ``MLAT`` and ``LMNN``.

The estimators are thin: they call a solver and keep what it found; the mathematics is in
:mod:`mlat.solvers`, the checks are in :mod:`mlat.margin_metric`.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_random_state

from . import toeplitz
from .errors import InputError
from .fixed_order import Convolution, Linear
from .margin_metric import Embedding, MarginMetric, check_number
from .solvers import MarginProblem, solve_admm, solve_filter, solve_lmnn
from .targets import Gap

Floats = NDArray[np.float64]


class MLAT(MarginMetric):
    """A Mahalanobis metric over windows, constrained to be block Toeplitz.

    A dependence between two moments of a window then depends on their lag alone, not on where in
    the window they are.

    Parameters
    ----------
    width : int, optional
        Steps per window: how to fold a flat (n, w*d) array. Without it a flat array is one
        channel, and a (n, w, d) array says it itself.
    solver : {"filter", "admm"}, default="filter"
        ``"filter"``: exactly Toeplitz and PSD by construction, for windows of any width.
        ``"admm"``: Algorithm 1 of the paper.
    n_targets : int, optional
        Windows of the same state that each window is pulled towards; default one for every 25
        windows of the smallest state, from 3 to 10.
    target_gap : int or "run", default="run"
        Keep out targets of the same run fewer than this many steps away; ``"run"`` takes targets
        from another run of the state, or at least five windows away in its only run. 0 is the
        paper.
    push_weight : float, default=0.1
        The paper's c: the weight of pushing other states away, against pulling targets nearer.
    shrinkage : float, default=0.0
        Weight of ``½‖M - M0‖²`` towards the scaled identity, relative to the loss. 0 is the paper.
    rho : float, default=0.3
        The penalty of ``"admm"``, relative in the same way.
    n_taps : int, optional
        Filter taps q of ``"filter"``; default the width and, up to twice the width, ten more:
        more taps than steps enlarge the set of metrics.
    n_filters : int, optional
        Filters r of ``"filter"``; default the number of channels.
    max_iter : int, default=100
    tol : float, default=1e-3
        Relative fall of the loss per iteration (``"filter"``) or relative residuals (``"admm"``)
        at which to stop.
    init : "identity" or array, default="identity"
        Where to begin: the scaled identity, taps (q, r, d) for ``"filter"``, or components
        (r, w*d) for ``"admm"``.
    random_state : int or RandomState, optional
        Only used when ``n_filters`` exceeds the number of channels.
    verbose : int, default=0

    Attributes
    ----------
    blocks_ : array of shape (w, d, d)
        The metric by lag: block m weighs products of moments m steps apart.
    metric_ : array of shape (w*d, w*d)
        M. With ``"admm"`` this is the paper's result, PSD and nearly Toeplitz; its exactly
        Toeplitz and PSD neighbour is given by ``blocks_``.
    components_ : array of shape (r, w*d)
        L with ``M = LᵀL``; formed when asked for.
    taps_ : array of shape (q, r, d)
        The filter taps (``"filter"`` only).
    loss_, initial_loss_ : float
        The large-margin loss at the result and at the scaled identity, per window.
    history_ : list of dict
        What each iteration recorded.
    n_iter_ : int
    converged_ : bool
    message_ : str
        Why it stopped.
    width_, n_channels_ : int
    scale_ : float
        The s of the start ``M0 = s·I``.

    Examples
    --------
    >>> import mlat
    >>> from mlat.datasets.synthetic import rotating_states
    >>> windows = mlat.sliding_windows(rotating_states(), width=10)
    >>> metric = mlat.MLAT().fit(windows.X, windows.y, start=windows.start, run=windows.run)
    >>> metric.blocks_.shape
    (10, 8, 8)
    """

    def __init__(
        self,
        width: int | None = None,
        *,
        solver: Literal["filter", "admm"] = "filter",
        n_targets: int | None = None,
        target_gap: Gap = "run",
        push_weight: float = 0.1,
        shrinkage: float = 0.0,
        rho: float = 0.3,
        n_taps: int | None = None,
        n_filters: int | None = None,
        max_iter: int = 100,
        tol: float = 1e-3,
        init: str | ArrayLike = "identity",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.width = width
        self.solver = solver
        self.n_targets = n_targets
        self.target_gap = target_gap
        self.push_weight = push_weight
        self.shrinkage = shrinkage
        self.rho = rho
        self.n_taps = n_taps
        self.n_filters = n_filters
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def as_in_paper(cls, **parameters: Any) -> MLAT:
        """Algorithm 1 and nothing else: ADMM, nearest targets wherever they are, no shrinkage.

        The paper gives neither its c nor how many targets; 0.5 and 3 are the usual choices.
        """
        paper = {
            "solver": "admm",
            "n_targets": 3,
            "target_gap": 0,
            "push_weight": 0.5,
            "shrinkage": 0.0,
        }
        return cls(**{**paper, **parameters})

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.solver not in ("filter", "admm"):
            raise InputError(f'solver must be "filter" or "admm", not {self.solver!r}')
        check_number(self, "rho", Real, np.nextafter(0, 1))
        for name in ("n_taps", "n_filters"):
            if getattr(self, name) is not None:
                check_number(self, name, Integral, 1)

    def _solve(self, problem: MarginProblem) -> None:
        self._components: Floats | None
        if self.solver == "admm":
            admm = solve_admm(
                problem,
                rho=float(self.rho),
                max_iter=self.max_iter,
                tol=self.tol,
                init=self._start((None, problem.width * problem.n_channels)),
                listener=self._listener(),
            )
            self._components, self.blocks_ = admm.L, admm.blocks
            self._record(admm)
        else:
            filtered = solve_filter(
                problem,
                n_taps=self.n_taps,
                n_filters=self.n_filters,
                max_iter=self.max_iter,
                tol=self.tol,
                init=self._start((None, None, problem.n_channels)),
                random_state=check_random_state(self.random_state),
                listener=self._listener(),
            )
            self.taps_ = filtered.taps
            self.blocks_ = toeplitz.autocorrelation(filtered.taps, problem.width)
            self._components = None
            self._record(filtered)

    def _embedding(self) -> Embedding:
        if self._components is not None:
            return Linear(self._components)
        return Convolution(self.taps_, self.width_)

    @property
    def components_(self) -> Floats:
        if not hasattr(self, "blocks_"):
            raise AttributeError("components_ exists after fit")
        if self._components is not None:
            return self._components
        return toeplitz.convolution_matrix(self.taps_, self.width_)

    @property
    def metric_(self) -> Floats:
        if not hasattr(self, "blocks_"):
            raise AttributeError("metric_ exists after fit")
        if self._components is not None:
            return self._components.T @ self._components
        return toeplitz.to_matrix(self.blocks_)


class LMNN(MarginMetric):
    """A Mahalanobis metric over windows by the same large-margin loss, without the constraint.

    Parameters
    ----------
    width, n_targets, target_gap, push_weight, shrinkage, max_iter, tol, init, random_state, verbose
        As for :class:`MLAT`. (``random_state`` is accepted for uniformity; nothing is random.)

    Attributes
    ----------
    components_ : array of shape (w*d, w*d)
        L with ``M = LᵀL``.
    metric_ : array of shape (w*d, w*d)
    loss_, initial_loss_, history_, n_iter_, converged_, message_, width_, n_channels_, scale_
        As for :class:`MLAT`.
    """

    def __init__(
        self,
        width: int | None = None,
        *,
        n_targets: int | None = None,
        target_gap: Gap = "run",
        push_weight: float = 0.1,
        shrinkage: float = 0.0,
        max_iter: int = 100,
        tol: float = 1e-3,
        init: str | ArrayLike = "identity",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.width = width
        self.n_targets = n_targets
        self.target_gap = target_gap
        self.push_weight = push_weight
        self.shrinkage = shrinkage
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.random_state = random_state
        self.verbose = verbose

    def _solve(self, problem: MarginProblem) -> None:
        solution = solve_lmnn(
            problem,
            max_iter=self.max_iter,
            tol=self.tol,
            init=self._start((None, problem.width * problem.n_channels)),
            listener=self._listener(),
        )
        self.components_ = solution.L
        self._record(solution)

    def _embedding(self) -> Embedding:
        return Linear(self.components_)

    @property
    def metric_(self) -> Floats:
        if not hasattr(self, "loss_"):
            raise AttributeError("metric_ exists after fit")
        return self.components_.T @ self.components_
