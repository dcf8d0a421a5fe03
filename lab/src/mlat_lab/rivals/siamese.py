"""The siamese LSTM (Mueller & Thyagarajan 2016): windows compared by the last state of an LSTM.

First the estimator, then the training in PyTorch.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from mlat.base.checks import SMALLEST, Floats, Ints, check_real, check_whole

from .networks import DeepKNN, Learner, Task, Weights, batches

FORGET_BIAS = 2.5
SMALL = 0.1  # deviation of the first weights: with larger ones all similarities begin at 0
ROWS = 512  # queries at a time, so that memory is bounded by the block


class SiameseLSTM(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    DeepKNN,
):
    """k nearest neighbours under the L1 distance of an LSTM's last hidden states.

    Pairs of windows, half of them of one label, go through one LSTM. The loss is the squared error
    of their similarity ``exp(−‖h − h'‖₁)`` against 1 (same label) or 0.

    Parameters
    ----------
    width : int, optional
        Steps per window, to fold a flat array. Without it a flat array is one channel.
    n_neighbors : int, default=1
    n_units : int, default=50
        Of the LSTM.
    max_iter : int, default=100
        Epochs at most; each draws two pairs for every window.
    patience : int, default=40
        Epochs without a gain in accuracy on the validation windows before it stops.
    validation : float, "auto" or None, default="auto"
        The fraction of each label's windows, its last ones, that is for validation; windows of
        the label that end less than a width before them are then not used. "auto" is 0.2 where
        there are enough windows, and otherwise None, which trains all epochs.
    batch_size : int, default=64
        Windows per step of learning, each with two partners.
    learning_rate : float, default=1
        Of Adadelta.
    clip : float, default=1
        Gradients longer than this are shortened to it.
    device : str, default="cpu"
        Where PyTorch computes, such as "cuda".
    n_jobs : int, optional
        Threads of PyTorch; default: as many as it is set to.
    random_state : int, RandomState or None
        The first weights, the pairs and their order. With a seed, runs on the CPU repeat to the
        last bit.

    Attributes
    ----------
    hidden_ : array of shape (n, n_units)
        The last hidden states of the training windows.
    weights_, mean_, scale_, validation_, history_, n_iter_, best_epoch_
        See :class:`~mlat_lab.rivals.networks.DeepKNN`.
    """

    def __init__(
        self,
        width: int | None = None,
        n_neighbors: int = 1,
        n_units: int = 50,
        max_iter: int = 100,
        patience: int = 40,
        validation: float | Literal["auto"] | None = "auto",
        batch_size: int = 64,
        learning_rate: float = 1.0,
        clip: float = 1.0,
        device: Any = "cpu",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.width = width
        self.n_neighbors = n_neighbors
        self.n_units = n_units
        self.max_iter = max_iter
        self.patience = patience
        self.validation = validation
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.clip = clip
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state

    def transform(self, X: Any) -> Floats:
        """The last hidden state of each window, shape (n, n_units)."""
        return self._outputs(self._check_windows(X))

    def distance(self, X: Any, Y: Any = None) -> Floats:
        """L1 distances of the hidden states, of all windows of X to all of Y (default: X)."""
        h = self.transform(X)
        return np.asarray(cdist(h, h if Y is None else self.transform(Y), "cityblock"))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole(self.n_units, "n_units")
        check_real(self.learning_rate, "learning_rate", SMALLEST)
        check_real(self.clip, "clip", SMALLEST)

    def _make_network(self, torch: Any, n_channels: int) -> Any:
        # Time is the second axis of a window, and must be the LSTM's sequence.
        network = torch.nn.LSTM(n_channels, self.n_units, batch_first=True, device="meta")
        return network.to_empty(device="cpu")

    def _first_weights(self, rng: np.random.RandomState, n_channels: int) -> Weights:
        gates = 4 * self.n_units  # input, forget, cell and output, in this order
        bias = np.zeros(gates, dtype=np.float32)
        bias[self.n_units : 2 * self.n_units] = FORGET_BIAS
        return {
            "weight_ih_l0": gaussian(rng, gates, n_channels),
            "weight_hh_l0": gaussian(rng, gates, self.n_units),
            "bias_ih_l0": bias,
            "bias_hh_l0": np.zeros_like(bias),
        }

    def _make_learner(self, task: Task) -> Learner:
        return PairLearner(task, self)

    def _forward(self, network: Any, X: Any) -> Any:
        return last_hidden(network, X)

    @property
    def _n_features_out(self) -> int:
        return self.hidden_.shape[1]

    def _set_references(self, outputs: Floats) -> None:
        self.hidden_ = outputs

    def _search(self, windows: Floats, k: int) -> tuple[Floats, Ints]:
        hidden = self._outputs(windows)
        distances, nearest = np.empty((len(hidden), k)), np.empty((len(hidden), k), np.int64)
        for begin in range(0, len(hidden), ROWS):
            rows = slice(begin, begin + ROWS)
            apart = cdist(hidden[rows], self.hidden_, "cityblock")
            # Both take the earlier of windows at equal distance.
            order = apart.argmin(1)[:, None] if k == 1 else apart.argsort(1, kind="stable")[:, :k]
            distances[rows], nearest[rows] = np.take_along_axis(apart, order, 1), order
        return distances, nearest


def gaussian(rng: np.random.RandomState, n_out: int, n_in: int) -> NDArray[np.float32]:
    """Small Gaussian weights, shape (n_out, n_in)."""
    return rng.normal(scale=SMALL, size=(n_out, n_in)).astype(np.float32)


class PairLearner:
    """Squared error of the similarity ``exp(−‖h − h'‖₁)`` against 1 (same label) or 0."""

    def __init__(self, task: Task, model: SiameseLSTM) -> None:
        self.torch, self.network, self.X, self.rng = task.torch, task.network, task.X, task.rng
        self.model, self.split = model, task.split
        self.codes = task.codes[task.split.learn]
        self.optimiser = task.torch.optim.Adadelta(
            self.network.parameters(), lr=model.learning_rate, rho=0.95, eps=1e-6
        )

    def epoch(self) -> float:
        torch, rows = self.torch, self.split.learn
        same, other = draw_pairs(self.codes, self.rng)
        total = 0.0
        for batch in batches(len(rows), self.model.batch_size, self.rng):
            triple = np.concatenate([batch, same[batch], other[batch]])
            picked = torch.as_tensor(rows[triple], device=self.X.device)
            h, near, far = last_hidden(self.network, self.X[picked]).chunk(3)
            to_same = torch.exp(-(h - near).abs().sum(1))
            to_other = torch.exp(-(h - far).abs().sum(1))
            loss = ((to_same - 1.0) ** 2).mean() / 2 + (to_other**2).mean() / 2
            self.optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.model.clip)
            self.optimiser.step()
            total += loss.item() * len(batch)
        return total / len(rows)

    def neighbours(self, k: int) -> tuple[Floats, Ints]:
        torch = self.torch
        with torch.inference_mode():
            rows = [torch.as_tensor(part, device=self.X.device) for part in self.split]
            learn, queries = (last_hidden(self.network, self.X[part]) for part in rows)
            found = [
                torch.cdist(part, learn, p=1).topk(k, largest=False) for part in queries.split(ROWS)
            ]
            distances = torch.cat([f.values for f in found]).cpu().numpy().astype(np.float64)
            return distances, torch.cat([f.indices for f in found]).cpu().numpy()


def last_hidden(network: Any, X: Any) -> Any:
    """The hidden state after the last step, (n, units), of windows (n, w, d)."""
    return network(X)[1][0][0]


def draw_pairs(codes: Ints, rng: np.random.RandomState) -> tuple[Ints, Ints]:
    """For each window another one of its label, and one of another label, both at random.

    Examples
    --------
    >>> codes = np.array([0, 1, 0, 1])
    >>> same, other = draw_pairs(codes, np.random.RandomState(0))
    >>> same.tolist(), bool((codes[other] != codes).all())
    ([2, 3, 0, 1], True)
    """
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    first = np.cumsum(sizes) - sizes
    place = np.empty(len(codes), dtype=np.int64)
    place[order] = np.arange(len(codes))
    size, begin = sizes[codes], first[codes]
    # Any other window of the label; a label's only window is its own partner.
    onward = 1 + rng.randint(0, np.maximum(size - 1, 1))
    same = begin + (place - begin + onward) % size
    other = rng.randint(0, len(codes) - size)
    other += np.where(other >= begin, size, 0)
    return order[same], order[other]
