"""DECADE (Che et al. 2017): expected alignment of a learned representation of each step.

A small network f maps single steps. Series are compared along random paths instead of the best
one. A *path* of length L through a series of w steps begins at the first step, ends at the last,
and at each place moves on by one step or stays: ``0 = p_1 ≤ … ≤ p_L = w − 1``. A draw is a length
L, the same for all series, and for each series one of its ``C(L−1, w−1)`` paths, all equally
likely. The squared distance of two series is the mean over draws of

    (1/L) Σ_l ‖f(x_{p_l}) − f(y_{q_l})‖²        p the path of x, q the path of y

While a series keeps its paths, this is the squared Euclidean distance of the aligned series, so
its root is a pseudo-metric. Its expectation needs no draws: a step a of x meets a step b of y with
a probability that depends only on w (`meeting_weights`).

First the estimator, then the alignments in NumPy, then the training in PyTorch.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from sklearn.utils import check_random_state

from mlat.base.checks import SMALLEST, Floats, Ints, check_real, check_whole
from mlat.base.errors import InputError
from mlat.metric.targets import Gap, select_targets
from mlat.neighbours.search import NearestNeighbors
from mlat.stream.windows import Windows

from .dtw import components
from .networks import DeepKNN, Learner, Task, Weights, batches

PULL = 0.1  # weight of the distance to the targets beside the hinges
ROWS = 512  # windows per block of an all-pairs search
PAIR_BYTES = 64 << 20  # of the meeting weights of a part of a batch, which is taken in parts


class DECADE(DeepKNN):
    """k nearest neighbours under the expected alignment of a learned representation of steps.

    The network f is learned so that each window is nearer to its targets (of its label) than to
    impostors (of other labels), by a margin. The search uses the expectation over all paths, which
    needs no draws.

    Parameters
    ----------
    width : int, optional
        Steps per window, to fold a flat array. Without it a flat array is one channel.
    n_neighbors : int, default=1
    hidden : tuple of int, default=(64,)
        Units of the hidden layers of f.
    n_features : int, default=32
        Outputs of f for a step.
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
        Epochs without a gain in accuracy on the validation windows before it stops.
    validation : float, "auto" or None, default="auto"
        The fraction of each label's windows, its last ones, that is for validation; windows of
        the label that end less than a width before them are then not used. "auto" is 0.2 where
        there are enough windows, and otherwise None, which trains all epochs.
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
        See :class:`~mlat_lab.rivals.networks.DeepKNN`.
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

    def represent(self, X: Any) -> Floats:
        """``f`` of each step of each window, shape (n, w, n_features)."""
        return self._outputs(self._check_windows(X))

    def distance(
        self, X: Any, Y: Any = None, *, n_draws: int | None = None, random_state: Any = None
    ) -> Floats:
        """Distances of all windows of X to all of Y (default: X), shape (n, m).

        Parameters
        ----------
        n_draws : int, optional
            Use this many paths of each window; default: the expectation over all paths. A window
            of X that is compared with itself keeps its paths and is at distance 0.
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
        check_whole(n_draws, "n_draws")
        n = len(F) if Y is None else len(F) + len(G)
        steps, weights = draw_paths(n, F.shape[1], n_draws, check_random_state(random_state))
        return drawn_distances(
            F, G, Draws(steps[: len(F)], weights), Draws(steps[n - len(G) :], weights)
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("n_features", "n_draws", "n_targets", "n_impostors"):
            check_whole(getattr(self, name), name)
        if not isinstance(self.hidden, tuple | list):
            raise InputError(f"hidden must be a tuple of units per layer, not {self.hidden!r}")
        for units in self.hidden:
            check_whole(units, "each of hidden")
        if self.target_gap != "run":
            check_whole(self.target_gap, "target_gap", 0, or_else=' or "run"')
        check_real(self.learning_rate, "learning_rate", SMALLEST)
        check_real(self.weight_decay, "weight_decay", 0)

    def _sizes(self, n_channels: int) -> list[int]:
        return [n_channels, *self.hidden, self.n_features]

    def _make_network(self, torch: Any, n_channels: int) -> Any:
        nn = torch.nn
        layers: list[Any] = []
        for n_in, n_out in pairwise(self._sizes(n_channels)):
            layers += [nn.Linear(n_in, n_out, device="meta"), nn.ReLU()]
        return nn.Sequential(*layers[:-1]).to_empty(device="cpu")

    def _first_weights(self, rng: np.random.RandomState, n_channels: int) -> Weights:
        weights: Weights = {}
        for layer, (n_in, n_out) in enumerate(pairwise(self._sizes(n_channels))):
            weights[f"{2 * layer}.weight"] = glorot(rng, n_out, n_in)
            weights[f"{2 * layer}.bias"] = np.zeros(n_out, dtype=np.float32)
        return weights

    def _make_learner(self, task: Task) -> Learner:
        rows = task.split.learn
        windows = task.X.cpu().numpy().astype(np.float64)[rows]
        start, run = task.start[rows], task.run[rows]
        fewest = int(np.bincount(task.codes[rows]).min())
        targets = select_targets(
            Windows.of_array(windows, task.codes[rows], start, run),
            min(self.n_targets, max(1, fewest - 1)),
            gap=self.target_gap,
            start=start,
            run=run,
            names=self.classes_,
        )
        return MarginLearner(task, targets, self)

    def _set_references(self, outputs: Floats) -> None:
        self._expected = ExpectedAlignment(outputs.shape[1])
        centres = self._expected.centres(outputs)
        scatter = self._expected.scatters(outputs, centres)
        # A window's scatter is one more coordinate, in which every query is at 0.
        self._references = NearestNeighbors(np.column_stack([centres, np.sqrt(scatter)]))

    def _search(self, windows: Floats, k: int) -> tuple[Floats, Ints]:
        outputs = self._outputs(windows)
        centres = self._expected.centres(outputs)
        queries = np.column_stack([centres, np.zeros(len(centres))])
        distances, nearest = self._references.query(queries, k)
        own = self._expected.scatters(outputs, centres)[:, None]
        return np.sqrt(distances**2 + own), nearest


def glorot(rng: np.random.RandomState, n_out: int, n_in: int) -> NDArray[np.float32]:
    """Weights of a layer, shape (n_out, n_in), uniform as in Glorot & Bengio (2010)."""
    limit = np.sqrt(6.0 / (n_out + n_in))
    return rng.uniform(-limit, limit, size=(n_out, n_in)).astype(np.float32)


class ExpectedAlignment:
    """The expectation over all draws, for series of ``width`` steps.

    With ``W = BᵀB`` it is ``‖BF − BG‖² + s(F) + s(G)``: the distance of the expected aligned
    series, plus for each series the scatter of its own paths around that,
    ``s(F) = Σ_a ‖F_a‖²/w − ‖BF‖²``. So it is a metric too: the scatter of a series is a coordinate
    of its own, orthogonal to all others.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.root = components(meeting_weights(width))

    def centres(self, F: Floats) -> Floats:
        """The expected aligned series ``BF``, flat, shape (n, w*k)."""
        return np.einsum("ab,nbk->nak", self.root, F).reshape(len(F), -1)

    def scatters(self, F: Floats, centres: Floats) -> Floats:
        """``s(F)`` for each series, shape (n,)."""
        own = np.einsum("nak,nak->n", F, F) / self.width - np.einsum("nc,nc->n", centres, centres)
        return np.maximum(own, 0.0)

    def distances(self, F: Floats, G: Floats) -> Floats:
        """Distances of all series F (n, w, k) to all of G (m, w, k), shape (n, m)."""
        a, b = self.centres(F), self.centres(G)
        return np.sqrt(_between(a, b) + self.scatters(F, a)[:, None] + self.scatters(G, b)[None, :])


def meeting_weights(width: int) -> Floats:
    """The expected weight W of each pair of steps, shape (w, w), symmetric, adding up to 1.

    W is positive semidefinite, and each row adds up to 1/w: no step counts more than another.

    Examples
    --------
    >>> meeting_weights(2).round(3).tolist()
    [[0.458, 0.042], [0.042, 0.458]]
    """
    total = np.zeros((width, width))
    for length in range(width, 2 * width):
        at = step_probabilities(width, length)
        total += at.T @ at / length
    return total / width


def step_probabilities(width: int, length: int) -> Floats:
    """The probability that a path of this length is at each step in each place, (length, width).

    After l of L − 1 moves, of which w − 1 move on, it has moved on a times: hypergeometric.
    """
    place, step = np.arange(length)[:, None], np.arange(width)[None, :]
    logs = (
        _log_choose(place, step)
        + _log_choose(length - 1 - place, width - 1 - step)
        - _log_choose(np.array(length - 1), np.array(width - 1))
    )
    probabilities: Floats = np.exp(logs)
    return probabilities


def _log_choose(n: Ints, k: Ints) -> Floats:
    possible = (k >= 0) & (k <= n)
    n, k = np.where(possible, n, 0), np.where(possible, k, 0)
    logs = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.where(possible, logs, -np.inf)


class Draws(NamedTuple):
    """Paths of n series.

    Attributes
    ----------
    steps : array of shape (n, n_draws, 2w - 1)
        The path of each series in each draw; places after its end have weight 0.
    weights : array of shape (n_draws, 2w - 1)
        ``1 / (n_draws L)`` along a path, so that a distance is a weighted sum.
    """

    steps: Ints
    weights: Floats


def draw_paths(n: int, width: int, n_draws: int, rng: np.random.RandomState) -> Draws:
    """Paths for n series of ``width`` steps, independent of each other.

    All lengths from w to 2w − 1 are equally likely: the lengths that an alignment of two such
    series can have in dynamic time warping.
    """
    longest = 2 * width - 1
    lengths = rng.randint(width, longest + 1, size=n_draws)
    weights = (np.arange(longest) < lengths[:, None]) / (n_draws * lengths[:, None])
    # The w − 1 of the L − 1 moves that move on: those with the smallest random keys.
    keys = rng.random_sample((n, n_draws, longest - 1))
    keys[:, np.arange(longest - 1) >= lengths[:, None] - 1] = np.inf
    moves_on = np.zeros(keys.shape, dtype=bool)
    if width > 1:
        chosen = np.argpartition(keys, width - 2, axis=2)[:, :, : width - 1]
        np.put_along_axis(moves_on, chosen, True, axis=2)
    steps = np.zeros((n, n_draws, longest), dtype=np.int64)
    np.cumsum(moves_on, axis=2, out=steps[:, :, 1:])
    return Draws(steps, weights)


def drawn_distances(F: Floats, G: Floats, of_F: Draws, of_G: Draws) -> Floats:
    """Distances along given paths, of series (n, w, k) and (m, w, k), as (n, m).

    The two draws must be of the same lengths: rows of one ``draw_paths``.
    """
    return np.sqrt(_between(_aligned(F, of_F), _aligned(G, of_G)))


def _aligned(F: Floats, draws: Draws) -> Floats:
    """The series along their paths, weighted and flat."""
    rows = np.arange(len(F))[:, None, None]
    along = F[rows, draws.steps] * np.sqrt(draws.weights)[None, :, :, None]
    return along.reshape(len(F), -1)


def _between(a: Floats, b: Floats) -> Floats:
    """Squared Euclidean distances by differences: an expanded square would lose small ones."""
    out = np.empty((len(a), len(b)))
    for i, row in enumerate(a):
        apart = b - row
        out[i] = np.einsum("mc,mc->m", apart, apart)
    return out


# Training, in PyTorch.


class MarginLearner:
    """The loss ``[1 + d(i, target) − d(i, impostor)]₊ + 0.1 d(i, target)``.

    d is the squared distance along paths that are drawn anew in each epoch.
    """

    def __init__(self, task: Task, targets: Ints, model: DECADE) -> None:
        torch, X = task.torch, task.X
        self.torch, self.network, self.rng = torch, task.network, task.rng
        self.model, self.targets = model, targets
        self.learn, self.validation = (
            X[torch.as_tensor(rows, device=X.device)] for rows in task.split
        )
        self.codes = torch.as_tensor(task.codes[task.split.learn], device=X.device)
        others = len(self.codes) - int(self.codes.bincount().max())
        self.n_impostors = min(model.n_impostors, others)
        root = components(meeting_weights(X.shape[1]))
        self.root = torch.as_tensor(root, dtype=X.dtype, device=X.device)
        self.optimiser = torch.optim.Adam(
            self.network.parameters(), lr=model.learning_rate, weight_decay=model.weight_decay
        )

    def epoch(self) -> float:
        impostors = self._impostors()
        neighbours = np.concatenate([self.targets, impostors], axis=1)
        n, width, _ = self.learn.shape
        draws = draw_paths(n, width, self.model.n_draws, self.rng)
        pairs = max(1, PAIR_BYTES // (4 * width**2 * neighbours.shape[1]))
        total = 0.0
        for batch in batches(n, self.model.batch_size, self.rng):
            self.optimiser.zero_grad()
            for begin in range(0, len(batch), pairs):
                part = batch[begin : begin + pairs]
                loss = self._loss(part, neighbours[part], draws) / len(batch)
                loss.backward()
                total += loss.item() * len(batch)
            self.optimiser.step()
        return total / n

    def neighbours(self, k: int) -> tuple[Floats, Ints]:
        torch = self.torch
        with torch.inference_mode():
            references, scatter = self._centres(self.learn)
            queries, own = self._centres(self.validation)
            found = []
            for part, s in zip(queries.split(ROWS), own.split(ROWS), strict=True):
                squared = torch.cdist(part, references) ** 2 + scatter + s[:, None]
                found.append(squared.topk(k, largest=False))
            distances = torch.cat([f.values for f in found]).sqrt()
            nearest = torch.cat([f.indices for f in found])
            return distances.cpu().numpy().astype(np.float64), nearest.cpu().numpy()

    def _loss(self, rows: Ints, neighbours: Ints, draws: Draws) -> Any:
        """Summed over the windows ``rows``."""
        torch, device = self.torch, self.learn.device
        used, where = np.unique(np.append(rows, neighbours), return_inverse=True)
        F = self.network(self.learn[torch.as_tensor(used, device=device)])
        of_rows = F[torch.as_tensor(where[: len(rows)], device=device)]
        of_neighbours = F[
            torch.as_tensor(where[len(rows) :].reshape(neighbours.shape), device=device)
        ]
        meet = meetings(torch, draws, rows, neighbours, device)
        d = aligned(of_rows, of_neighbours, meet)
        n_targets = self.targets.shape[1]
        there = torch.as_tensor(neighbours[:, :n_targets] >= 0, device=device)
        to_targets, to_impostors = d[:, :n_targets], d[:, n_targets:]
        hinges = (1.0 + to_targets[:, :, None] - to_impostors[:, None, :]).clamp(min=0.0).mean(2)
        kept = there.sum(1).clamp(min=1)
        return (((hinges + PULL * to_targets) * there).sum(1) / kept).sum()

    def _impostors(self) -> Ints:
        """The nearest windows of other labels under the expected distance, (n, n_impostors)."""
        torch = self.torch
        with torch.inference_mode():
            centres, scatter = self._centres(self.learn)
            found = []
            for begin in range(0, len(centres), ROWS):
                part = slice(begin, begin + ROWS)
                squared = torch.cdist(centres[part], centres) ** 2 + scatter
                squared[self.codes[part, None] == self.codes] = torch.inf
                found.append(squared.topk(self.n_impostors, largest=False).indices)
            nearest: Ints = torch.cat(found).cpu().numpy()
            return nearest

    def _centres(self, X: Any) -> tuple[Any, Any]:
        """Expected aligned series, flat, and their scatters, as in ``ExpectedAlignment``."""
        F = self.network(X)
        centres = (self.root @ F).flatten(1)
        scatter = (F**2).sum((1, 2)) / F.shape[1] - (centres**2).sum(1)
        return centres, scatter.clamp(min=0.0)


def meetings(torch: Any, draws: Draws, rows: Ints, neighbours: Ints, device: Any) -> Any:
    """Weights of each pair of steps of windows (b,) and their neighbours (b, m), (b, m, w, w).

    The sum along the paths of all draws, ``Σ_l weight_l [p_l = a][q_l = b]``. Many places of a
    path have the same pair, so at most w² distances are needed, whatever the draws.
    """
    b, m = neighbours.shape
    width = (draws.steps.shape[2] + 1) // 2
    own = torch.as_tensor(draws.steps[rows].reshape(b, 1, -1), device=device)
    theirs = torch.as_tensor(draws.steps[neighbours].reshape(b, m, -1), device=device)
    weights = torch.as_tensor(draws.weights.ravel(), dtype=torch.float32, device=device)
    meet = torch.zeros(b, m, width * width, device=device)
    meet.scatter_add_(2, own * width + theirs, weights.expand(b, m, -1))
    return meet.view(b, m, width, width)


def aligned(F: Any, G: Any, meet: Any) -> Any:
    """Squared distances (b, m) of series F (b, w, k) to G (b, m, w, k), with these weights."""
    b, m, width, _ = G.shape
    products = (F @ G.flatten(1, 2).transpose(1, 2)).view(b, width, m, width).transpose(1, 2)
    own = ((F**2).sum(2)[:, None] * meet.sum(3)).sum(2)
    theirs = ((G**2).sum(3) * meet.sum(2)).sum(2)
    return own + theirs - 2.0 * (products * meet).sum((2, 3))
