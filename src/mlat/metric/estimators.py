"""Phase II as scikit-learn transformers over windows: ``MLAT`` and ``LMNN``.

The estimators only check their input, bring it to a common unit, select target neighbours and call
a solver. Solvers (:mod:`~mlat.metric.solvers`) are pure functions of a
:class:`~mlat.metric.problem.Problem`.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_random_state,
    validate_data,
)
from threadpoolctl import threadpool_limits

from ..base import work
from ..base.checks import SMALLEST, Floats, Ints, Limits, check_parameters
from ..base.errors import InputError
from ..stream.conversion import NO_STATE_NAME
from ..stream.signs import SeenWindows, switches_at_random, warn_of_neighbours
from ..stream.windows import (
    Windows,
    as_windows,
    check_finite,
    check_finite_steps,
    flatten,
    fold,
    warn_if_misfolded,
    window_width,
    windows_per_step,
)
from . import toeplitz
from .embedding import Embedding, Linear, WindowTransformer, convolution
from .problem import Problem, Unit
from .solvers import Listener, Record, Solution, solve_admm, solve_filter, solve_lmnn
from .targets import Gap, select_targets, when_of
from .working_set import MANY_WINDOWS, Grown, learn_growing

Count = Annotated[int, Limits(1)]
# Windows whose states are indices, the states, and when each window is: start and run.
_Given = tuple[Windows, NDArray[Any], Ints, Ints]

# More targets make a better metric where there are many windows. Where there are few, some of ten
# targets would be far away, and pulling them together removes what separates the states.
FEWEST_TARGETS, MOST_TARGETS, WINDOWS_PER_TARGET = 3, 10, 25
# Windows that differ by 2 to the power of more have a metric that no number can hold.
LARGEST_POWER = 480
MANY_PRODUCTS = 1e10  # n² w d from which matrix products use all threads


@dataclass(eq=False, repr=False)
class MarginMetric(WindowTransformer):
    """What MLAT and LMNN share; a subclass adds ``_solve`` and ``embedding``."""

    width: Count | None = None
    _: KW_ONLY
    n_targets: Count | None = None
    target_gap: Gap = "run"
    push_weight: Annotated[float, Limits(0, 1)] = 0.1
    shrinkage: Annotated[float, Limits(0)] = 0.0
    max_iter: Count = 100
    tol: Annotated[float, Limits(0)] = 1e-3
    init: str | ArrayLike = "identity"
    working_set: bool | Literal["auto"] = "auto"
    random_state: Any = None
    verbose: int = 0

    def fit(
        self,
        X: ArrayLike | Windows,
        y: ArrayLike | None = None,
        *,
        start: ArrayLike | None = None,
        run: ArrayLike | None = None,
        device: str | None = None,
    ) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : Windows, or array of shape (n, w, d) or (n, w*d)
            Windows of a stream as :func:`mlat.sliding_windows` gives them, of which no copy is laid
            out, or as an array; a flat array is folded time-major by ``width``.
        y : array of shape (n,), optional
            The state of each window; default that of ``Windows``.
        start : array of shape (n,), optional
            The step each window begins at, for ``target_gap``; default that of ``Windows``, or the
            row number.
        run : array of shape (n,), optional
            The run each window lies in; default that of ``Windows``, or neighbouring rows of one
            state are a run.
        device : str, optional
            Sum the loss on this device of PyTorch, such as ``"cuda"``, over all windows; default
            on the processor, without PyTorch.

        Raises
        ------
        InputError
            If a parameter or the windows are not valid, or a state has too few windows; if they
            differ by more than 1e144 or by less than 1e-144, whose metric no number can hold.

        Warns
        -----
        UserWarning
            Without ``start``, if the windows seem to be transposed or of another width. Without
            ``start`` or ``run``, if ``target_gap`` needs them, for the rows are in random order.
        """
        self.check_parameters()
        if isinstance(X, Windows):
            windows, states, start, run = self._of_stream(X, y, start, run)
        else:
            windows, states, start, run = self._of_array(X, y, start, run)
        seen = SeenWindows(windows.blocks())
        unit = Unit.of(windows.values.min(axis=0), windows.values.max(axis=0))
        if abs(unit.exponent) > LARGEST_POWER:
            size = f"{np.ldexp(1.0, unit.exponent - 1):.0e}"
            raise InputError(
                f"windows that differ by about {size} have a metric that no number can hold; "
                f"divide them by {size} first"
            )
        self._exponent = unit.exponent
        windows = replace(windows, values=unit(windows.values))
        n_targets = self.n_targets_for(windows.y)
        targets = select_targets(
            windows, n_targets, gap=self.target_gap, start=start, run=run, names=states
        )
        problem = Problem(windows, targets, float(self.push_weight), float(self.shrinkage))
        with threadpool_limits(_threads(problem)):
            if device is None and self._grows(len(windows)):
                learned = learn_growing(problem, self._solve, self._map_of)
            else:
                whole: Problem = problem
                if device is not None:
                    from .torch_problem import TorchProblem  # needs PyTorch

                    whole = TorchProblem(problem, device)
                learned = Grown(self._solve(whole), whole.initial_loss, whole.scale)
        self._keep(problem, learned)
        self._seen = seen
        return self

    def _of_stream(self, X: Windows, y: Any, start: Any, run: Any) -> _Given:
        if self.width not in (None, X.width):
            raise InputError(f"windows have {X.width} steps but width is {self.width}")
        windows = X.compact()
        check_finite_steps(windows.values, np.flatnonzero(windows_per_step(X)))
        self.n_features_in_ = X.width * X.values.shape[1]
        self.__dict__.pop("feature_names_in_", None)  # of a fit before
        labels = np.asarray(X.y if y is None else y)
        check_consistent_length(X.start, labels)
        check_classification_targets(labels)
        states, codes = encode_states(labels)
        start, run = X.start if start is None else start, X.run if run is None else run
        return replace(windows, y=codes), states, *when_of(codes, start, run)

    def _of_array(self, X: Any, y: Any, start: Any, run: Any) -> _Given:
        X = as_windows(X)
        width = window_width(X, self.width)
        flat, labels = validate_data(
            self,
            flatten(X),
            y,
            dtype=np.float64,
            order="C",
            ensure_min_samples=2,
            ensure_all_finite=False,  # check_finite says where
        )
        check_classification_targets(labels)
        folded = check_finite(fold(flat, width))
        states, codes = encode_states(labels)
        if start is None:  # otherwise they come from where windows are made
            warn_if_misfolded(X, folded)
        if (start is None or run is None) and self.target_gap != 0:
            _warn_if_shuffled(codes)
        start, run = when_of(codes, start, run)
        return Windows.of_array(folded, codes, start, run), states, start, run

    def _grows(self, n: int) -> bool:
        """Whether a working set is to be learned from."""
        return n >= MANY_WINDOWS if self.working_set == "auto" else self.working_set

    def _keep(self, problem: Problem, learned: Grown) -> None:
        solution = learned.solution
        self.width_, self.n_channels_ = problem.width, problem.n_channels
        self._keep_map(solution)
        self.scale_ = float(self._own_unit(learned.scale, 2))
        self.initial_loss_ = learned.initial_loss
        self.loss_, self.history_ = solution.loss, solution.history
        self.n_iter_, self.converged_ = solution.n_iter, solution.converged
        self.message_ = solution.message
        self.n_windows_used_, self.loss_bound_ = learned.n_windows, learned.bound

    def transform(self, X: ArrayLike) -> Floats:
        """Windows (n, w, d) or (n, w*d) in the learned space, where distances are Euclidean.

        Warns
        -----
        UserWarning
            If windows overlap with those it was learned from: a splitter was not told of time.
        """
        windows = self._as_learned(X)
        if "_seen" in vars(self):  # not of a model file
            warn_of_neighbours(self._seen, windows)
        return self.embedding()(windows)

    @abstractmethod
    def _solve(
        self, problem: Problem, start: Solution | None = None, roughly: float = 1.0
    ) -> Solution:
        """Solve the problem to ``roughly`` times ``tol``, from where another solution ended."""

    @abstractmethod
    def _keep_map(self, solution: Solution) -> None:
        """Keep the metric of a solution."""

    @abstractmethod
    def _map_of(self, solution: Solution, width: int) -> Floats:
        """The L (r, w*d) of a solution, in the unit of the problem."""

    def n_targets_for(self, codes: Ints) -> int:
        """``n_targets``, or the default for windows of these states."""
        if self.n_targets is not None:
            return self.n_targets
        fewest = int(np.bincount(codes).min())
        usual = min(MOST_TARGETS, max(FEWEST_TARGETS, fewest // WINDOWS_PER_TARGET))
        return min(usual, max(1, fewest - 1))

    def _listener(self) -> Listener:
        name = type(self).__name__

        def listen(record: Record) -> None:
            work.report(name, int(record["iteration"]), self.max_iter, record)
            if self.verbose:
                figures = "  ".join(f"{k} {v:.5g}" for k, v in record.items())
                print(f"[{name}] {figures}")

        return listen

    _exponent = 0  # of the unit of the problem that was solved

    def _own_unit(self, learned: ArrayLike, power: int) -> Floats:
        """What was learned in the unit of the problem, in that of the windows as they were given.

        ``power`` is 1 for maps of windows, 2 for quadratic forms.
        """
        own: Floats = np.ldexp(learned, -power * self._exponent)
        return own

    def _start(self, shape: tuple[int | None, ...]) -> Floats | None:
        """The given start in the unit of the problem, or None for the scaled identity."""
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
        return np.ldexp(start, self._exponent)

    def check_parameters(self) -> None:
        """Raise an InputError if a parameter is not valid."""
        check_parameters(self)
        if isinstance(self.init, str) and self.init != "identity":
            raise InputError(f'init must be "identity" or an array, not {self.init!r}')

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


@dataclass(eq=False, repr=False)
class MLAT(MarginMetric):
    """A Mahalanobis metric over windows, constrained to be block Toeplitz.

    The weight of two steps of a window then depends on the lag between them alone, not on where in
    the window they are (Eq. 6 of the paper).

    Parameters
    ----------
    width : int, optional
        Steps per window: how to fold a flat (n, w*d) array. Without it a flat array is one channel.
        An array (n, w, d) needs none.
    solver : {"filter", "admm"}, default="filter"
        "filter" is exactly Toeplitz and PSD by construction, for windows of any width; "admm" is
        Algorithm 1 of the paper.
    n_targets : int, optional
        Target neighbours of each window: windows of the same state it is pulled towards; default
        one for every 25 windows of the smallest state, from 3 to 10.
    target_gap : int or "run", default="run"
        Exclude targets of the same run fewer than this many steps away; "run" takes targets from
        another run of the state, or at least five widths away in its only run. 0 is the paper.
    push_weight : float, default=0.1
        The paper's c (Eq. 2): the weight of pushing other states away, against pulling targets
        nearer.
    shrinkage : float, default=0.0
        How strongly to pull towards the Euclidean distance. The weight of ``½‖M - M0‖²`` towards
        the scaled identity, relative to the loss; 0 is the paper.
    rho : float, default=0.3
        The paper's ρ (Eq. 7) for ``"admm"``, relative in the same way.
    n_taps : int, optional
        Filter taps q of ``"filter"``; default the width and up to ten more, at most twice the
        width. More taps than steps enlarge the set of metrics.
    n_filters : int, optional
        Filters r of ``"filter"``; default the number of channels.
    max_iter : int, default=100
    tol : float, default=1e-3
        Stop at this relative decrease of the loss per iteration (``"filter"``), or at these
        relative residuals (``"admm"``).
    init : "identity" or array, default="identity"
        The start: the scaled identity, taps (q, r, d) for ``"filter"``, or components (r, w*d)
        for ``"admm"``.
    working_set : bool or "auto", default="auto"
        Learn from a part of the windows that grows until the loss over all of them is within one
        per cent of its least (see ``loss_bound_``), instead of from every pair of windows.
        ``"auto"`` does so from 6,000 windows on. ``"admm"`` always learns from all.
    random_state : int or RandomState, optional
        Only used when ``n_filters`` exceeds the number of channels.
    verbose : int, default=0

    Attributes
    ----------
    blocks_ : array of shape (w, d, d)
        The metric by lag: block m weighs products of values m steps apart (Definition 5).
    metric_ : array of shape (w*d, w*d)
        M. With ``"admm"`` this is the paper's result, PSD and nearly Toeplitz; ``blocks_`` then
        give a metric close to it that is exactly both.
    components_ : array of shape (r, w*d)
        L with ``M = LᵀL``; with ``"filter"`` it is formed on access.
    taps_ : array of shape (q, r, d)
        The filter taps (``"filter"`` only).
    loss_, initial_loss_ : float
        The large-margin loss at the result and at the scaled identity, per window.
    history_ : list of dict
        What each iteration recorded. Gradients and residuals are those of windows divided by the
        power of two above their largest range, so that they mean the same in any unit.
    n_windows_used_ : int or None
        Windows of the last working set; None where all were used at once.
    loss_bound_ : float
        How far the loss over all windows may be above what learning from all of them would reach,
        relative to it: an estimate, to which ``tol`` adds; 0 where all were used. ``loss_`` is that
        of all windows or, of more than 25,000, of 20,000 that were left out of the working set.
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
    >>> from mlat.synthetic import rotating_states
    >>> windows = mlat.sliding_windows(rotating_states(), width=10)
    >>> metric = mlat.MLAT().fit(windows)
    >>> metric.blocks_.shape
    (10, 8, 8)
    """

    _: KW_ONLY
    solver: Literal["filter", "admm"] = "filter"
    rho: Annotated[float, Limits(SMALLEST)] = 0.3
    n_taps: Count | None = None
    n_filters: Count | None = None

    @classmethod
    def as_in_paper(cls, **parameters: Any) -> MLAT:
        """Algorithm 1 as printed: ADMM, the nearest targets wherever they are, no shrinkage.

        The paper gives neither its c nor the number of targets; 0.5 and 3 are the usual choices.
        """
        paper = {
            "solver": "admm",
            "n_targets": 3,
            "target_gap": 0,
            "push_weight": 0.5,
            "shrinkage": 0.0,
        }
        return cls(**{**paper, **parameters})

    def _grows(self, n: int) -> bool:
        return self.solver == "filter" and super()._grows(n)

    def _solve(
        self, problem: Problem, start: Solution | None = None, roughly: float = 1.0
    ) -> Solution:
        if self.solver == "admm":
            return solve_admm(
                problem,
                rho=float(self.rho),
                max_iter=self.max_iter,
                tol=self.tol,
                init=self._start((None, problem.width * problem.n_channels)),
                listener=self._listener(),
            )
        return solve_filter(
            problem,
            n_taps=self.n_taps,
            n_filters=self.n_filters,
            max_iter=self.max_iter,
            tol=roughly * self.tol,
            init=self._start((None, None, problem.n_channels)) if start is None else start.found,
            random_state=check_random_state(self.random_state),
            listener=self._listener(),
        )

    def _keep_map(self, solution: Solution) -> None:
        for name in ("taps_", "components_", "blocks_"):  # of a fit before
            self.__dict__.pop(name, None)
        found = self._own_unit(solution.found, 1)
        if self.solver == "filter":
            self.taps_ = found
        else:
            self.components_ = found
            self.blocks_ = self._own_unit(cast(Floats, solution.blocks), 2)

    def _map_of(self, solution: Solution, width: int) -> Floats:
        # R of ``T = QR`` gives the distances of the convolution T with fewer rows.
        T = toeplitz.convolution_matrix(solution.found, width)
        return np.asarray(np.linalg.qr(T).R)

    def embedding(self) -> Embedding:
        if hasattr(self, "taps_"):
            return convolution(self.taps_, self.width_)
        return Linear(self.components_)

    def __getattr__(self, name: str) -> Any:
        # Of "filter" they follow from the taps at every access: reading keeps nothing. Of "admm"
        # they are kept as they were found.
        follow = {"blocks_": toeplitz.autocorrelation, "components_": toeplitz.convolution_matrix}
        if name in follow and "taps_" in vars(self):
            return follow[name](self.taps_, self.width_)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def metric_(self) -> Floats:
        if hasattr(self, "taps_"):
            return toeplitz.to_matrix(self.blocks_)
        return self.components_.T @ self.components_


class LMNN(MarginMetric):
    """A Mahalanobis metric over windows by the same loss (Eq. 2), without the Toeplitz constraint.

    Parameters
    ----------
    width, n_targets, target_gap, push_weight, shrinkage, max_iter, tol, init, working_set, \
random_state, verbose
        As for :class:`MLAT`. (``random_state`` is accepted for uniformity; nothing is random.)

    Attributes
    ----------
    components_ : array of shape (w*d, w*d)
        L with ``M = LᵀL``.
    metric_ : array of shape (w*d, w*d)
    loss_, initial_loss_, history_, n_windows_used_, loss_bound_, n_iter_, converged_, message_, \
width_, n_channels_, scale_
        As for :class:`MLAT`.
    """

    def _solve(
        self, problem: Problem, start: Solution | None = None, roughly: float = 1.0
    ) -> Solution:
        return solve_lmnn(
            problem,
            max_iter=self.max_iter,
            tol=roughly * self.tol,
            init=self._start((None, problem.width * problem.n_channels))
            if start is None
            else start.found,
            listener=self._listener(),
        )

    def _keep_map(self, solution: Solution) -> None:
        self.components_ = self._own_unit(solution.found, 1)

    def _map_of(self, solution: Solution, width: int) -> Floats:
        return solution.found

    def embedding(self) -> Embedding:
        return Linear(self.components_)

    @property
    def metric_(self) -> Floats:
        L: Floats = self.components_
        return L.T @ L


def encode_states(labels: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """The states, and the index of each window's state.

    Raises
    ------
    InputError
        If there are fewer than two states.
    """
    states, codes = np.unique(labels, return_inverse=True)
    if states.dtype.kind == "U" and states[0] == NO_STATE_NAME:
        raise InputError(
            f"{int((codes == 0).sum())} of {len(codes)} windows have no state; leave them out"
        )
    if len(states) < 2:
        raise InputError(
            f"all {len(codes)} windows are of one class, {states[0]!s}; "
            "a metric is learned from at least two"
        )
    return states, codes


def _warn_if_shuffled(codes: Ints) -> None:
    if switches_at_random(codes):
        warnings.warn(
            "the windows seem to be in random order, so that neighbouring rows are not neighbours "
            "in time, and target_gap keeps out no overlapping windows; give start and run of each "
            "window, or set target_gap=0",
            UserWarning,
            stacklevel=4,
        )


def _threads(problem: Problem) -> int | None:
    """How many threads the matrix products may use; None for all.

    Products of paper-size problems are short. Where the machine does anything else besides, threads
    that wait for each other cost far more than they save.
    """
    n, values = len(problem), problem.width * problem.n_channels
    return 1 if n * n * values < MANY_PRODUCTS else None
