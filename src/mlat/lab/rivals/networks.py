"""What the nearest-neighbour classifiers that train a network share."""

from __future__ import annotations

import importlib
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ... import progress
from ...checks import Floats, Ints, check_whole
from ...errors import InputError
from ...metric.targets import episodes
from ...neighbours.votes import vote
from .dtw_kernels import distinct_points
from .knn import TimedKNN

# -------------------------------------------------------------------- deep_validation
# Which training windows judge a network while it learns from the others.
#
# Never random windows: in a stream, successive ones share all but one step, and a validation window
# would find itself among those learned from. Each state gives its last windows as one block, and
# what starts too near before it is left out of learning.


class Division(NamedTuple):
    """Rows of windows to learn from and rows to judge by; some are in neither."""

    learn: Ints
    judge: Ints


def hold_out(
    codes: Ints, start: Ints, run: Ints, width: int, share: float, least: int = 2
) -> Division | None:
    """The last ``share`` of each state's windows, and those at least ``width`` steps before.

    Parameters
    ----------
    codes : array of shape (n,)
        The state of each window, as an index.
    start, run : arrays of shape (n,)
        When each window begins, and the run it lies in. Runs of a state that follow each other
        within two widths count as one, as a lost sample cuts a run in two.
    width : int
        Steps per window. At least as many lie between a window that is judged and one of the same
        state that is learned from.
    share : float
        Of each state's windows, for judging.
    least : int
        Windows of each state that are needed for learning. A state that cannot be divided so is
        learned from whole and not judged.

    Returns
    -------
    Division or None
        None where fewer than two states can be judged.

    Examples
    --------
    >>> codes, start = np.repeat([0, 1], 10), np.arange(20)
    >>> division = hold_out(codes, start, codes, width=2, share=0.2)
    >>> division.judge.tolist(), division.learn.tolist()
    ([8, 9, 18, 19], [0, 1, 2, 3, 4, 10, 11, 12, 13, 14])
    """
    learn, judge = [], []
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        near, far = _divide(start[rows], run[rows], width, share)
        if len(near) < 1 or len(far) < least:
            learn.append(rows)
        else:
            learn.append(rows[far])
            judge.append(rows[near])
    if len(judge) < 2:
        return None
    return Division(np.sort(np.concatenate(learn)), np.sort(np.concatenate(judge)))


def _divide(start: Ints, run: Ints, width: int, share: float) -> tuple[Ints, Ints]:
    """Positions of the last block of one state's windows, and of those far enough from it."""
    episode = episodes(start, run, 2 * width)
    order = np.lexsort((start, episode))
    n_judge = round(share * len(order))
    block, rest = order[len(order) - n_judge :], order[: len(order) - n_judge]
    if not n_judge:
        return block, rest
    first = order[len(order) - n_judge]  # later episodes of the block are no matter to the rest
    same = episode[rest] == episode[first]
    # Starts 2w apart leave w steps between the end of one window and the beginning of the other.
    return block, rest[~same | (start[first] - start[rest] >= 2 * width)]


# -------------------------------------------------------------------- deep_training
# Epochs of training, judged by nearest neighbours after each, until that gets no better.


class Epoch(NamedTuple):
    """What one epoch came to.

    Attributes
    ----------
    loss : float
        Mean over the epoch.
    accuracy : float
        Of nearest neighbours on the validation windows, after it; NaN without such windows.
    """

    loss: float
    accuracy: float


class Learner(Protocol):
    """A network that learns from windows, one epoch at a time."""

    network: Any

    def epoch(self) -> float:
        """Go once through the windows to learn from; the mean loss."""

    def neighbours(self, k: int) -> tuple[Floats, Ints]:
        """For each window to judge by, distances and positions of the nearest to learn from."""


class Trained(NamedTuple):
    """The weights of the best epoch, its number from 0, and all epochs."""

    weights: Weights
    best: int
    history: list[Epoch]


def train(
    learner: Learner,
    codes: Ints,
    division: Division,
    *,
    max_iter: int,
    patience: int,
    n_neighbors: int,
    task: str,
) -> Trained:
    """Train for at most ``max_iter`` epochs and keep the best.

    The best is the one most accurate on the validation windows; of epochs that are equally
    accurate, the one with the smaller loss. It ends after ``patience`` epochs without more
    accuracy. Without validation windows it runs to the end, and the last epoch counts.
    """
    judged = len(division.judge) > 0
    history: list[Epoch] = []
    weights, best, highest, waited = take_weights(learner.network), -1, -np.inf, 0
    for number in range(max_iter):
        loss = learner.epoch()
        accuracy = _accuracy(learner, codes, division, n_neighbors) if judged else np.nan
        history.append(Epoch(loss, accuracy))
        figures = {"loss": loss, "accuracy": accuracy} if judged else {"loss": loss}
        progress.report(task, number + 1, max_iter, figures)
        more = accuracy > highest
        if not judged or more or (accuracy == highest and loss < history[best].loss):
            weights, best = take_weights(learner.network), number
        highest, waited = max(highest, accuracy), 0 if more else waited + 1
        if judged and waited >= patience:
            break
    return Trained(weights, best, history)


def _accuracy(learner: Learner, codes: Ints, division: Division, k: int) -> float:
    k = min(k, len(division.learn))
    distances, nearest = learner.neighbours(k)
    found = vote(codes[division.learn][nearest], distances, int(codes.max()) + 1)[0]
    return float(np.mean(found == codes[division.judge]))


def batches(n: int, size: int, rng: np.random.RandomState) -> list[Ints]:
    """Rows 0 to n − 1 once each, in random order, in parts as near to ``size`` as can be equal."""
    return np.array_split(rng.permutation(n), max(1, round(n / size)))


# -------------------------------------------------------------------- deep
# PyTorch on use: whether it is there, on which device, with how many threads.
#
# Nothing here imports it at the top: a library without the extra ``deep`` must still load. Nothing
# draws from PyTorch's own random numbers either; they all come from the estimator's
# ``random_state``, so the caller's stay untouched and every device starts from the same network.

Weights = dict[str, NDArray[Any]]


def require_torch(who: str) -> Any:
    """The module ``torch``, or one line about how to install it."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise InputError(f"{who} needs PyTorch; install it: pip install 'mlat[deep]'") from None


def pick_device(torch: Any, name: Any) -> Any:
    """The device of that name, such as "cpu", "cuda" or "cuda:1", if it can be used."""
    try:
        device = torch.device(name)
        # Only using a device tells whether it is there; "meta" computes, but gives nothing back.
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError):
        raise InputError(
            f"there is no device {name!r}; PyTorch {torch.__version__} finds "
            f"{', '.join(_devices(torch))}"
        ) from None
    return device


def _devices(torch: Any) -> list[str]:
    names = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        names.append("mps")
    return names


@contextmanager
def limited_threads(torch: Any, n_jobs: int | None) -> Iterator[None]:
    """At most ``n_jobs`` threads (-1: one per processor) inside; None leaves them as they are."""
    if n_jobs is None:
        yield
        return
    before = torch.get_num_threads()
    # Also where it is the number already: under threadpoolctl's limits PyTorch reads OpenMP's
    # number here while its own is another, and the two together cost thirty times the time.
    torch.set_num_threads(effective_n_jobs(n_jobs))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def exact_dtype(torch: Any, device: Any) -> Any:
    """Double precision where the device has it, for results that do not depend on the batch."""
    return torch.float32 if device.type == "mps" else torch.float64


def take_weights(network: Any) -> Weights:
    """A copy of a network's weights that needs neither PyTorch nor the device."""
    return {name: w.detach().cpu().numpy().copy() for name, w in network.state_dict().items()}


def put_weights(torch: Any, network: Any, weights: Mapping[str, NDArray[Any]]) -> Any:
    """The network itself, with these weights."""
    network.load_state_dict({name: torch.from_numpy(w) for name, w in weights.items()})
    return network


def glorot(rng: np.random.RandomState, n_out: int, n_in: int) -> NDArray[np.float32]:
    """Weights of a layer, shape (n_out, n_in), uniform as Glorot & Bengio (2010) have them."""
    limit = np.sqrt(6.0 / (n_out + n_in))
    return rng.uniform(-limit, limit, size=(n_out, n_in)).astype(np.float32)


VALIDATION_SHARE = 0.2
BATCH = 4096  # windows that go through a network at once, when nothing is learned


class DeepKNN(TimedKNN):
    """k nearest neighbours over what a network makes of windows.

    A subclass says what the network is, how it learns, and how its outputs are searched.

    Attributes
    ----------
    weights_ : dict of str to array
        Of the network.
    mean_, scale_ : arrays of shape (d,)
        Of the training steps; the network sees ``(x - mean_) / scale_``.
    validation_ : array
        Rows of the training windows that judged the epochs; the search has them all.
    history_ : list of Epoch
    n_iter_ : int
        Epochs.
    best_epoch_ : int
        The one whose weights were kept, from 0.
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
    def _first_weights(self, rng: np.random.RandomState, n_channels: int) -> dict[str, Any]:
        """The weights it starts from."""

    @abstractmethod
    def _make_learner(
        self,
        torch: Any,
        network: Any,
        X: Any,
        codes: Ints,
        division: Division,
        when: tuple[Ints, Ints],
        rng: np.random.RandomState,
    ) -> Learner:
        """What trains the network on standardised windows X (n, w, d), a tensor on its device."""

    @abstractmethod
    def _index(self, outputs: Floats) -> None:
        """Make the network's outputs of the training windows ready to be searched."""

    def _check_parameters(self) -> None:
        for name in ("max_iter", "patience", "batch_size"):
            check_whole(getattr(self, name), name)
        share = self.validation
        known = share is None or share == "auto"
        if not known and not (isinstance(share, int | float) and 0 < share <= 0.5):
            raise InputError(
                f'validation must be a share from 0 to 0.5, "auto" or None, not {share!r}'
            )

    def _learn(self, windows: Floats, codes: Ints) -> None:
        name = type(self).__name__
        if len(self.classes_) < 2:
            raise InputError(
                f"{name} needs windows of at least 2 classes; y holds 1 class, {self.classes_[0]!s}"
            )
        self._check_parameters()
        torch = require_torch(name)
        device = pick_device(torch, self.device)
        rng = check_random_state(self.random_state)
        n_channels = windows.shape[2]
        when = self._when.of(codes)
        division = self._hold_out(codes, when, windows.shape[1])
        self.mean_, self.scale_ = _scaling(windows)
        with limited_threads(torch, self.n_jobs):
            network = self._make_network(torch, n_channels)
            network = put_weights(torch, network, self._first_weights(rng, n_channels))
            X = torch.as_tensor(self._standardised(windows), dtype=torch.float32, device=device)
            learner = self._make_learner(torch, network.to(device), X, codes, division, when, rng)
            trained = train(
                learner,
                codes,
                division,
                max_iter=self.max_iter,
                patience=self.patience,
                n_neighbors=self.n_neighbors,
                task=name,
            )
        self.weights_, self.best_epoch_, self.history_ = trained
        self.n_iter_, self.validation_ = len(self.history_), division.judge
        self._index(self._outputs(windows))

    def _hold_out(self, codes: Ints, when: tuple[Ints, Ints], width: int) -> Division:
        everything = Division(np.arange(len(codes)), np.empty(0, dtype=np.int64))
        if self.validation is None:
            return everything
        share = VALIDATION_SHARE if isinstance(self.validation, str) else float(self.validation)
        division = hold_out(codes, *when, width, share)
        if division is not None:
            return division
        line = (
            f"too few windows for a validation block: fewer than two states have 2 windows left "
            f"that end {width} steps before their last {share:.0%}"
        )
        if self.validation != "auto":
            raise InputError(f"{line}; label more, or set validation=None")
        warnings.warn(f"{line}; all {self.max_iter} epochs are trained", UserWarning, stacklevel=4)
        return everything

    def _standardised(self, windows: Floats) -> Floats:
        return (windows - self.mean_) / self.scale_

    def _outputs(self, windows: Floats) -> Floats:
        """What the network makes of each window, in double precision, on the CPU."""
        torch = require_torch(type(self).__name__)
        device = pick_device(torch, self.device)
        network = put_weights(torch, self._make_network(torch, windows.shape[2]), self.weights_)
        dtype = exact_dtype(torch, device)
        network = network.to(device=device, dtype=dtype)
        parts = []
        with limited_threads(torch, self.n_jobs), torch.inference_mode():
            for begin in range(0, len(windows), BATCH):
                part = self._standardised(windows[begin : begin + BATCH])
                out = self._forward(network, torch.as_tensor(part, dtype=dtype, device=device))
                parts.append(out.cpu().numpy().astype(np.float64))
        return np.concatenate(parts)

    def _forward(self, network: Any, X: Any) -> Any:
        return network(X)


def _scaling(windows: Floats) -> tuple[Floats, Floats]:
    """Mean and deviation of each channel over the steps, those that windows share counted once."""
    steps = distinct_points(windows)[0]
    deviation = steps.std(axis=0)
    # A channel that never moves says nothing: centred it is 0, whatever it is divided by.
    still = deviation <= 1e-12 * np.abs(steps).max(axis=0)
    return steps.mean(axis=0), np.where(still, 1.0, deviation)
