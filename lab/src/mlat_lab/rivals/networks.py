"""What the rivals that train a network share: the estimator, the training, PyTorch on use.

Nothing here imports PyTorch at the top: the library must load without the extra ``deep``. Nothing
draws from PyTorch's random numbers either. They all come from the estimator's ``random_state``, so
the caller's stay untouched and every device starts from the same network.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from mlat.base import work
from mlat.base.checks import Floats, Ints, check_whole
from mlat.base.errors import InputError, require_package
from mlat.metric.targets import episodes
from mlat.neighbours.votes import vote

from .dtw import distinct_points
from .knn import TimedKNN

VALIDATION_FRACTION = 0.2
BATCH = 4096  # windows that go through a network at once, when nothing is learned

Weights = dict[str, NDArray[Any]]


class DeepKNN(TimedKNN):
    """k nearest neighbours over the outputs of a network for windows.

    A subclass says what the network is, how it learns, and how its outputs are searched.

    Attributes
    ----------
    weights_ : dict of str to array
        Of the network.
    mean_, scale_ : arrays of shape (d,)
        Of the training steps; the network gets ``(x - mean_) / scale_``.
    validation_ : array
        Rows of the validation windows among the training windows; the search has them all.
    history_ : list of Epoch
    n_iter_ : int
        Epochs.
    best_epoch_ : int
        The epoch whose weights were kept, from 0.
    """

    max_iter: int
    patience: int
    batch_size: int
    validation: float | Literal["auto"] | None
    device: Any
    n_jobs: int | None
    random_state: Any

    @abstractmethod
    def _make_network(self, torch: Any, n_channels: int) -> Any:
        """The network on the CPU, its weights not set."""

    @abstractmethod
    def _first_weights(self, rng: np.random.RandomState, n_channels: int) -> Weights:
        """The weights it starts from."""

    @abstractmethod
    def _make_learner(self, task: Task) -> Learner:
        """What trains the network."""

    @abstractmethod
    def _set_references(self, outputs: Floats) -> None:
        """Set what ``_search`` needs from the outputs for the training windows."""

    def _forward(self, network: Any, X: Any) -> Any:
        """The network's outputs for standardised windows X (n, w, d), a tensor."""
        return network(X)

    def _check_parameters(self) -> None:
        for name in ("max_iter", "patience", "batch_size"):
            check_whole(getattr(self, name), name)
        fraction = self.validation
        known = fraction is None or fraction == "auto"
        if not known and not (isinstance(fraction, int | float) and 0 < fraction <= 0.5):
            raise InputError(
                f'validation must be a share from 0 to 0.5, "auto" or None, not {fraction!r}'
            )

    def _learn(self, windows: Floats, codes: Ints, start: Ints, run: Ints) -> None:
        self._check_two_classes()
        self._check_parameters()
        torch = self._torch()
        device = pick_device(torch, self.device)
        rng = check_random_state(self.random_state)
        n_channels = windows.shape[2]
        split = self._split(codes, start, run, windows.shape[1])
        self.mean_, self.scale_ = _scaling(windows)
        with limited_threads(torch, self.n_jobs):
            network = self._make_network(torch, n_channels)
            network = put_weights(torch, network, self._first_weights(rng, n_channels)).to(device)
            X = torch.as_tensor(self._standardised(windows), dtype=torch.float32, device=device)
            trained = train(
                self._make_learner(Task(torch, network, X, codes, start, run, split, rng)),
                codes,
                split,
                max_iter=self.max_iter,
                patience=self.patience,
                n_neighbors=self.n_neighbors,
                name=type(self).__name__,
            )
        self.weights_, self.best_epoch_, self.history_ = trained
        self.n_iter_, self.validation_ = len(self.history_), split.validation
        self._set_references(self._outputs(windows))

    def _torch(self) -> Any:
        return require_package("torch", "deep", type(self).__name__, title="PyTorch")

    def _split(self, codes: Ints, start: Ints, run: Ints, width: int) -> Split:
        everything = Split(np.arange(len(codes)), np.empty(0, dtype=np.int64))
        if self.validation is None:
            return everything
        auto = isinstance(self.validation, str)
        fraction = VALIDATION_FRACTION if auto else float(self.validation)
        split = hold_out(codes, start, run, width, fraction)
        if split is not None:
            return split
        line = (
            f"too few windows for a validation block: fewer than two states have 2 windows left "
            f"that end {width} steps before their last {fraction:.0%}"
        )
        if not auto:
            raise InputError(f"{line}; label more, or set validation=None")
        warnings.warn(f"{line}; all {self.max_iter} epochs are trained", UserWarning, stacklevel=4)
        return everything

    def _standardised(self, windows: Floats) -> Floats:
        return (windows - self.mean_) / self.scale_

    def _outputs(self, windows: Floats) -> Floats:
        """The network's outputs for windows, in double precision, on the CPU."""
        torch = self._torch()
        device = pick_device(torch, self.device)
        # Double precision where the device has it: results then do not depend on the batch.
        dtype = torch.float32 if device.type == "mps" else torch.float64
        network = put_weights(torch, self._make_network(torch, windows.shape[2]), self.weights_)
        network = network.to(device=device, dtype=dtype)
        parts = []
        with limited_threads(torch, self.n_jobs), torch.inference_mode():
            for begin in range(0, len(windows), BATCH):
                part = self._standardised(windows[begin : begin + BATCH])
                out = self._forward(network, torch.as_tensor(part, dtype=dtype, device=device))
                parts.append(out.cpu().numpy().astype(np.float64))
        return np.concatenate(parts)


def _scaling(windows: Floats) -> tuple[Floats, Floats]:
    """Mean and deviation of each channel over the steps; shared steps count once."""
    steps = distinct_points(windows)[0]
    deviation = steps.std(axis=0)
    # A constant channel carries no information: centred it is 0, whatever it is divided by.
    constant = deviation <= 1e-12 * np.abs(steps).max(axis=0)
    return steps.mean(axis=0), np.where(constant, 1.0, deviation)


# Training: epochs, each followed by a classification of the validation windows, until that gets
# no better.


class Task(NamedTuple):
    """What a learner works on.

    Attributes
    ----------
    torch : module
    network : torch.nn.Module
        On its device.
    X : tensor of shape (n, w, d)
        All windows, standardised, on the device.
    codes, start, run : arrays of shape (n,)
        The label of each window as an index, the step it begins at, and its run.
    split : Split
    rng : RandomState
    """

    torch: Any
    network: Any
    X: Any
    codes: Ints
    start: Ints
    run: Ints
    split: Split
    rng: np.random.RandomState


class Learner(Protocol):
    """A network that learns from windows, one epoch at a time."""

    network: Any

    def epoch(self) -> float:
        """Go once through the windows to learn from; the mean loss."""

    def neighbours(self, k: int) -> tuple[Floats, Ints]:
        """For each validation window, distances and positions of the nearest to learn from."""


class Epoch(NamedTuple):
    """Record of one epoch.

    Attributes
    ----------
    loss : float
        Mean over the epoch.
    accuracy : float
        Of nearest neighbours on the validation windows, after it; NaN without such windows.
    """

    loss: float
    accuracy: float


class Trained(NamedTuple):
    """The weights of the best epoch, its number from 0, and all epochs."""

    weights: Weights
    best: int
    history: list[Epoch]


def train(
    learner: Learner,
    codes: Ints,
    split: Split,
    *,
    max_iter: int,
    patience: int,
    n_neighbors: int,
    name: str,
) -> Trained:
    """Train for at most ``max_iter`` epochs and keep the best.

    The best epoch is the most accurate on the validation windows, and of equally accurate ones the
    one with the smaller loss. Training ends after ``patience`` epochs without a gain in accuracy.
    Without validation windows it runs to the end, and the last epoch is kept.
    """
    validated = len(split.validation) > 0
    history: list[Epoch] = []
    weights, best, highest, waited = take_weights(learner.network), -1, -np.inf, 0
    for number in range(max_iter):
        loss = learner.epoch()
        accuracy = _accuracy(learner, codes, split, n_neighbors) if validated else np.nan
        history.append(Epoch(loss, accuracy))
        figures = {"loss": loss, "accuracy": accuracy} if validated else {"loss": loss}
        work.report(name, number + 1, max_iter, figures)
        more = accuracy > highest
        if not validated or more or (accuracy == highest and loss < history[best].loss):
            weights, best = take_weights(learner.network), number
        highest, waited = max(highest, accuracy), 0 if more else waited + 1
        if validated and waited >= patience:
            break
    return Trained(weights, best, history)


def _accuracy(learner: Learner, codes: Ints, split: Split, k: int) -> float:
    distances, nearest = learner.neighbours(min(k, len(split.learn)))
    found = vote(codes[split.learn][nearest], distances, int(codes.max()) + 1)[0]
    return float(np.mean(found == codes[split.validation]))


def batches(n: int, size: int, rng: np.random.RandomState) -> list[Ints]:
    """Rows 0 to n − 1 once each, in random order, in nearly equal parts of about ``size``."""
    return np.array_split(rng.permutation(n), max(1, round(n / size)))


# Validation windows. They are never drawn at random: successive windows of a stream share all but
# one step, so a validation window would find its near-copy among those learned from. The last
# windows of each state are one validation block, and windows too close before it are not used.


class Split(NamedTuple):
    """Rows of windows to learn from and of validation windows; some rows are in neither."""

    learn: Ints
    validation: Ints


def hold_out(
    codes: Ints, start: Ints, run: Ints, width: int, fraction: float, least: int = 2
) -> Split | None:
    """The last ``fraction`` of each state's windows, and those at least ``width`` steps before.

    Parameters
    ----------
    codes : array of shape (n,)
        The state of each window, as an index.
    start, run : arrays of shape (n,)
        When each window begins, and the run it lies in. Runs of a state that follow each other
        within two widths count as one, as a lost sample cuts a run in two.
    width : int
        Steps per window. At least as many lie between a validation window and a window of the
        same state that is learned from.
    fraction : float
        Of each state's windows, for validation.
    least : int
        Windows of each state that are needed for learning. A state with fewer is learned from
        as a whole and has no validation windows.

    Returns
    -------
    Split or None
        None where fewer than two states have validation windows.

    Examples
    --------
    >>> codes, start = np.repeat([0, 1], 10), np.arange(20)
    >>> split = hold_out(codes, start, codes, width=2, fraction=0.2)
    >>> split.validation.tolist(), split.learn.tolist()
    ([8, 9, 18, 19], [0, 1, 2, 3, 4, 10, 11, 12, 13, 14])
    """
    learn, validation = [], []
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        block, before = _last_block(start[rows], run[rows], width, fraction)
        if len(block) < 1 or len(before) < least:
            learn.append(rows)
        else:
            learn.append(rows[before])
            validation.append(rows[block])
    if len(validation) < 2:
        return None
    return Split(np.sort(np.concatenate(learn)), np.sort(np.concatenate(validation)))


def _last_block(start: Ints, run: Ints, width: int, fraction: float) -> tuple[Ints, Ints]:
    """Positions of the last block of one state's windows, and of those far enough from it."""
    episode = episodes(start, run, 2 * width)
    order = np.lexsort((start, episode))
    n_rest = len(order) - round(fraction * len(order))
    rest, block = order[:n_rest], order[n_rest:]
    if not len(block):
        return block, rest
    first = block[0]  # the block's later episodes are far from the rest
    same = episode[rest] == episode[first]
    # Starts 2w apart leave w steps between the end of one window and the beginning of the other.
    return block, rest[~same | (start[first] - start[rest] >= 2 * width)]


# PyTorch: devices, threads, weights.


def pick_device(torch: Any, name: Any) -> Any:
    """The device of that name, such as "cpu", "cuda" or "cuda:1", if it can be used."""
    try:
        device = torch.device(name)
        # Only use shows whether a device is there; "meta" computes, but gives nothing back.
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError):
        found = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        if torch.backends.mps.is_available():
            found.append("mps")
        raise InputError(
            f"there is no device {name!r}; PyTorch {torch.__version__} finds {', '.join(found)}"
        ) from None
    return device


@contextmanager
def limited_threads(torch: Any, n_jobs: int | None) -> Iterator[None]:
    """At most ``n_jobs`` threads (-1: one per processor) inside; None leaves them as they are."""
    if n_jobs is None:
        yield
        return
    before = torch.get_num_threads()
    # Also where the number does not change: under threadpoolctl's limits PyTorch reads OpenMP's
    # number here while its own differs, and the two together cost thirty times the time.
    torch.set_num_threads(effective_n_jobs(n_jobs))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def take_weights(network: Any) -> Weights:
    """A copy of a network's weights that needs neither PyTorch nor the device."""
    return {name: w.detach().cpu().numpy().copy() for name, w in network.state_dict().items()}


def put_weights(torch: Any, network: Any, weights: Mapping[str, NDArray[Any]]) -> Any:
    """The network itself, with these weights."""
    network.load_state_dict({name: torch.from_numpy(w) for name, w in weights.items()})
    return network
