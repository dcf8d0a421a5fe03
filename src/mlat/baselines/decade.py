"""DECADE (Che et al. 2017): expected alignment of what a network makes of each step."""

from __future__ import annotations

from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from ..errors import InputError
from ..margin_metric import check_number
from ..neighbors import NearestNeighbors
from ..targets import Gap, select_targets
from .deep import glorot
from .deep_alignment import Draws, ExpectedAlignment, draw_paths, drawn_distances
from .deep_knn import DeepKNN
from .deep_margin import MarginLearner
from .deep_training import Learner
from .deep_validation import Division
from .knn import check_count
from .lanes import FloatArray, IntArray


class DECADE(DeepKNN):
    """k nearest neighbours under the expected alignment of a learned representation of steps.

    A small network f maps each step; windows are compared along random paths, and f is learned so
    that each window is nearer to its targets (of its label) than to impostors (of others), by a
    margin. The search uses the expectation over all paths, which needs no draws.

    Parameters
    ----------
    width : int, optional
        Steps per window, to fold a flat array. Without it a flat array is one channel.
    n_neighbors : int, default=1
    hidden : tuple of int, default=(64,)
        Units of the hidden layers of f.
    n_features : int, default=32
        What f makes of a step.
    n_draws : int, default=8
        Paths per window, drawn anew in each epoch.
    n_targets : int, default=3
        Nearest windows of the same label, under the Euclidean distance.
    target_gap : int or "run", default="run"
        Which windows of the same label may be targets, as for :class:`~mlat.MLAT`.
    n_impostors : int, default=10
        Nearest windows of other labels, under the distance learned so far.
    max_iter : int, default=100
        Epochs at most.
    patience : int, default=40
        Epochs without more accuracy on the validation windows before it stops.
    validation : float, "auto" or None, default="auto"
        The share of each label's windows, its last ones, that judges the epochs; windows of the
        label that end less than a width before them are then not learned from. "auto" is 0.2 where
        there are enough windows, and None, all epochs, elsewhere.
    batch_size : int, default=64
        Windows per step of learning.
    learning_rate : float, default=1e-3
        Of Adam.
    weight_decay : float, default=1e-4
    device : str, default="cpu"
        Where PyTorch computes, such as "cuda".
    n_jobs : int, optional
        Threads of PyTorch; default: as many as it is set to.
    random_state : int, RandomState or None
        The first weights, the paths and the order of windows. With a seed, runs on the CPU repeat
        to the last bit.

    Attributes
    ----------
    weights_, mean_, scale_, validation_, history_, n_iter_, best_epoch_
        As for all networks here: see :class:`~mlat.baselines.deep_knn.DeepKNN`.
    """

    def __init__(
        self,
        width: int | None = None,
        n_neighbors: int = 1,
        hidden: tuple[int, ...] = (64,),
        n_features: int = 32,
        n_draws: int = 8,
        n_targets: int = 3,
        target_gap: Gap = "run",
        n_impostors: int = 10,
        max_iter: int = 100,
        patience: int = 40,
        validation: float | Literal["auto"] | None = "auto",
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-4,
        device: Any = "cpu",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.width = width
        self.n_neighbors = n_neighbors
        self.hidden = hidden
        self.n_features = n_features
        self.n_draws = n_draws
        self.n_targets = n_targets
        self.target_gap = target_gap
        self.n_impostors = n_impostors
        self.max_iter = max_iter
        self.patience = patience
        self.validation = validation
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state

    def represent(self, X: Any) -> FloatArray:
        """``f`` of each step of each window, shape (n, w, n_features)."""
        return self._outputs(self._check_windows(X))

    def distance(
        self, X: Any, Y: Any = None, *, n_draws: int | None = None, random_state: Any = None
    ) -> FloatArray:
        """Distances of all windows of X to all of Y (default: X), shape (n, m).

        Parameters
        ----------
        n_draws : int, optional
            Along that many paths of each window; default: the expectation over all paths. Windows
            of X that are compared with themselves keep their paths, and are at distance 0.
        random_state : int, RandomState or None
            Of the draws.
        """
        F = self.represent(X)
        G = F if Y is None else self.represent(Y)
        if n_draws is None:
            distances = ExpectedAlignment(F.shape[1]).distances(F, G)
            if Y is None:
                np.fill_diagonal(distances, 0.0)
            return distances
        check_count(n_draws, "n_draws")
        n = len(F) if Y is None else len(F) + len(G)
        steps, weights = draw_paths(n, F.shape[1], n_draws, check_random_state(random_state))
        return drawn_distances(
            F, G, Draws(steps[: len(F)], weights), Draws(steps[n - len(G) :], weights)
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("n_features", "n_draws", "n_targets", "n_impostors"):
            check_count(getattr(self, name), name)
        if not isinstance(self.hidden, tuple | list):
            raise InputError(f"hidden must be a tuple of units per layer, not {self.hidden!r}")
        for units in self.hidden:
            check_count(units, "each of hidden")
        if self.target_gap != "run":
            check_number(self, "target_gap", Integral, 0, or_else=' or "run"')
        check_number(self, "learning_rate", Real, np.nextafter(0, 1))
        check_number(self, "weight_decay", Real, 0)

    def _sizes(self, n_channels: int) -> list[int]:
        return [n_channels, *self.hidden, self.n_features]

    def _make_network(self, torch: Any, n_channels: int) -> Any:
        nn = torch.nn
        sizes = self._sizes(n_channels)
        layers: list[Any] = []
        for n_in, n_out in pairwise(sizes):
            layers += [nn.Linear(n_in, n_out, device="meta"), nn.ReLU()]
        return nn.Sequential(*layers[:-1]).to_empty(device="cpu")

    def _first_weights(self, rng: np.random.RandomState, n_channels: int) -> dict[str, Any]:
        sizes = self._sizes(n_channels)
        weights: dict[str, Any] = {}
        for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
            weights[f"{2 * layer}.weight"] = glorot(rng, n_out, n_in)
            weights[f"{2 * layer}.bias"] = np.zeros(n_out, dtype=np.float32)
        return weights

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
        rows = division.learn
        start, run = when
        fewest = int(np.bincount(codes[rows]).min())
        targets = select_targets(
            X.cpu().numpy().astype(np.float64).reshape(len(X), -1)[rows],
            codes[rows],
            min(self.n_targets, max(1, fewest - 1)),
            gap=self.target_gap,
            start=start[rows],
            run=run[rows],
            width=X.shape[1],
            names=self.classes_,
        )
        return MarginLearner(
            torch,
            network,
            X,
            codes,
            division,
            targets,
            rng,
            n_impostors=self.n_impostors,
            n_draws=self.n_draws,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
        )

    def _index(self, outputs: FloatArray) -> None:
        self._expected = ExpectedAlignment(outputs.shape[1])
        centres = self._expected.centres(outputs)
        scatter = self._expected.scatters(outputs, centres)
        # A window's scatter is a coordinate more, in which every query is at 0.
        self._references = NearestNeighbors(np.column_stack([centres, np.sqrt(scatter)]))

    def _search(self, windows: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        outputs = self._outputs(windows)
        centres = self._expected.centres(outputs)
        queries = np.column_stack([centres, np.zeros(len(centres))])
        distances, nearest = self._references.query(queries, k)
        own = self._expected.scatters(outputs, centres)[:, None]
        return np.sqrt(distances**2 + own), nearest
