"""What the nearest-neighbour classifiers that train a network share."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from ..errors import InputError
from .deep import exact_dtype, limited_threads, pick_device, put_weights, require_torch
from .deep_training import Learner, train
from .deep_validation import Division, hold_out
from .knn import check_count
from .lanes import FloatArray, IntArray, distinct_points
from .timed_knn import TimedKNN

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
        codes: IntArray,
        division: Division,
        when: tuple[IntArray, IntArray],
        rng: np.random.RandomState,
    ) -> Learner:
        """What trains the network on standardised windows X (n, w, d), a tensor on its device."""

    @abstractmethod
    def _index(self, outputs: FloatArray) -> None:
        """Make the network's outputs of the training windows ready to be searched."""

    def _check_parameters(self) -> None:
        for name in ("max_iter", "patience", "batch_size"):
            check_count(getattr(self, name), name)
        share = self.validation
        known = share is None or share == "auto"
        if not known and not (isinstance(share, int | float) and 0 < share <= 0.5):
            raise InputError(
                f'validation must be a share from 0 to 0.5, "auto" or None, not {share!r}'
            )

    def _learn(self, windows: FloatArray, codes: IntArray) -> None:
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

    def _hold_out(self, codes: IntArray, when: tuple[IntArray, IntArray], width: int) -> Division:
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

    def _standardised(self, windows: FloatArray) -> FloatArray:
        return (windows - self.mean_) / self.scale_

    def _outputs(self, windows: FloatArray) -> FloatArray:
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


def _scaling(windows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and deviation of each channel over the steps, those that windows share counted once."""
    steps = distinct_points(windows)[0]
    deviation = steps.std(axis=0)
    # A channel that never moves says nothing: centred it is 0, whatever it is divided by.
    still = deviation <= 1e-12 * np.abs(steps).max(axis=0)
    return steps.mean(axis=0), np.where(still, 1.0, deviation)
