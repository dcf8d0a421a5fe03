"""An expert whose metric is a forest, as plain numbers.

Leaves with the same distribution are one, and most are: those of one state only. So a leaf is a
place in a short table, and only the splits of a tree take room.

In 16 and 8 bits everything is a whole number. Leaves have as many levels as let a sum over all
trees be a power of two times a stored number of a reference's point: that is the *grain*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from ..base.checks import Floats, Ints, ShortRepr
from ..base.errors import InputError
from ..neighbours.references import References
from .tables import STORED, X_BITS, Tables

MOST_TREES = 2**14  # whose sums 32 bits hold
SHORT_MOST = 2**15 - 1
# The numbers of a point sum to at most 2^15 in 8 bits with so many trees, and a squared distance of
# two such points, at most twice the square of that, is one of 32 bits.
NARROW_TREES = 128
LEAST_LEAVES = 32  # different ones, in 8 bits


class StoredForest(NamedTuple):
    """A forest in some bits: its numbers, and what they mean.

    Attributes
    ----------
    forest : PlainForest
    threshold_power : int
        A threshold is in 2 to this power, times the unit of its feature.
    point_unit : float
        Of leaves and their sums.
    grain : int
        A number of a stored point, in those units.
    """

    forest: PlainForest
    threshold_power: int
    point_unit: float
    grain: int

    def in_reals(self, unit: Floats) -> PlainForest:
        """What it is to the device, for features in such units."""
        one = self.forest
        return replace(
            one,
            threshold=one.threshold * 2.0**self.threshold_power * one.of_splits(unit),
            leaves=one.leaves * self.point_unit,
            points=one.points * (self.point_unit * self.grain),
        )


@dataclass(frozen=True, eq=False, repr=False)
class PlainForest(ShortRepr):
    """One expert.

    Attributes
    ----------
    width : int
    columns : array of shape (n,)
        The features that it sees.
    sizes : array of shape (T,)
        Splits of each tree.
    feature, threshold : arrays of shape (N,)
        The value of a window (w*n) that a split is by, and what is at most on its first side.
    links : array of shape (N, 2)
        Where each side leads: a split, counted within its tree, or -1 - a row of leaves.
    leaves : array of shape (R, S)
        Distributions over states, divided by T.
    points : array of shape (n, S)
        Of the references.
    weight, typical : float
        As in :class:`~mlat.export.plain_model.PlainExpert`.
    """

    width: int
    columns: Ints
    sizes: Ints
    feature: Ints
    threshold: Floats
    links: Ints
    leaves: Floats
    points: Floats
    weight: float
    typical: float

    @classmethod
    def of(
        cls, references: References, columns: Ints, weight: float, typical: float
    ) -> PlainForest:
        """Raises InputError for trees over whitened features."""
        if references.view.mixing is not None:
            raise InputError(
                "a forest over whitened features cannot be exported; fit the model with "
                "whiten=False"
            )
        forest = references.metric
        node, n_trees = np.arange(len(forest.feature_)), len(forest.roots_)
        if n_trees > MOST_TREES:
            raise InputError(f"a forest of more than {MOST_TREES:,} trees cannot be exported")
        is_leaf = forest.feature_ < 0
        is_split = ~is_leaf
        is_split[forest.roots_] = True  # a tree of one leaf has a split, both sides of which are it
        count = np.append(0, np.cumsum(is_split))
        tree = np.searchsorted(forest.roots_, node, side="right") - 1
        goes = np.where(is_leaf, -np.cumsum(is_leaf), count[node] - count[forest.roots_][tree])
        child = np.where(is_leaf, node, forest.child_)
        links = np.stack([goes[child], goes[child + is_split * ~is_leaf]], axis=1)[is_split]
        leaves = forest.value_[is_leaf] / n_trees
        return cls(
            references.windows.width,
            columns,
            np.bincount(tree[is_split], minlength=n_trees),
            np.maximum(forest.feature_, 0)[is_split],
            forest.threshold_[is_split],
            links,
            leaves,
            references.embedded(),
            weight,
            typical,
        )._merged()

    @property
    def depth(self) -> int:
        """Splits on the longest way to a leaf."""
        first = np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        level, depth = np.unique(np.cumsum(self.sizes) - self.sizes), 0
        while len(level):
            depth += 1
            links = self.links[level]
            level = (links + first[level, None])[links >= 0]
        return depth

    def of_splits(self, values: Floats) -> Floats:
        """What features have (F,), by the feature of each split, (N,)."""
        seen: Floats = values[self.columns][self.feature % len(self.columns)]
        return seen

    def points_of(self, windows: Floats) -> Floats:
        """The points (n, S) of windows (n, w, c) in the features that it sees."""
        return np.asarray(self.leaves[self._rows(windows)].sum(axis=1))

    def ranked(self, windows: Floats) -> PlainForest:
        """The same with its trees in such an order that the mean of the first few is, on some
        windows, near that of all: greedily, by the sum of squares."""
        told = self.leaves[self._rows(windows)]  # (n, T, S)
        apart = (
            (told - told.mean(axis=1, keepdims=True)).transpose(1, 0, 2).reshape(told.shape[1], -1)
        )
        gram = apart @ apart.T
        order: list[int] = []
        left = np.diag(gram).copy()  # of the sum so far with each tree
        for _ in range(len(gram)):
            order.append(int(np.argmin(left)))
            left = np.diag(gram) + 2 * gram[order].sum(axis=0)
            left[order] = np.inf
        return self._of_trees(np.array(order))

    def _of_trees(self, trees: Ints) -> PlainForest:
        """The same with some of its trees, in an order; leaves are as they were."""
        tree = np.repeat(np.arange(len(self.sizes)), self.sizes)
        split = np.concatenate([np.flatnonzero(tree == t) for t in trees])
        return replace(
            self,
            sizes=self.sizes[trees],
            feature=self.feature[split],
            threshold=self.threshold[split],
            links=self.links[split],
        )

    def _rows(self, windows: Floats) -> Ints:
        """The leaf (n, T) of each window in each tree."""
        flat = windows.reshape(len(windows), -1)
        first = np.cumsum(self.sizes) - self.sizes
        at = np.zeros((len(flat), len(first)), np.int64)
        row, tree = np.nonzero(at >= 0)
        while len(row):
            node = first[tree] + at[row, tree]
            high = flat[row, self.feature[node]] > self.threshold[node]
            at[row, tree] = self.links[node, high.astype(np.int64)]
            more = at[row, tree] >= 0
            row, tree = row[more], tree[more]
        rows: Ints = -1 - at
        return rows

    def with_trees(self, n: int, windows: Floats) -> PlainForest:
        """The first so many trees; ``windows`` (n, w, c) are the references in what it sees."""
        leaves = self.leaves * (len(self.sizes) / n)
        fewer = replace(self._of_trees(np.arange(n)), leaves=leaves)
        return replace(fewer, points=fewer.points_of(windows))._merged()

    def in_bits(self, unit: Floats, bits: int) -> StoredForest:
        """As it is stored, for features in units (F,) of their own."""
        threshold, whole = self.threshold / self.of_splits(unit), STORED[bits][1]
        if not whole:
            return StoredForest(replace(self, threshold=threshold), 0, 1.0, 1)
        forest = self
        room = 2**8 - int(self.sizes.max())
        if bits == 8 and LEAST_LEAVES <= room < len(self.leaves):
            forest = self._of_few_leaves(room)  # so that a link has 8 bits
        largest = float(np.abs(threshold).max(initial=0.0))
        power = max(int(np.frexp(largest)[1]) - bits + 1, -X_BITS[bits])
        n_trees = len(self.sizes)
        grain = 2 ** int(np.log2((2 * whole + 1) * n_trees / whole))
        total = whole * grain // n_trees * n_trees
        threshold = np.clip(np.rint(threshold * 2.0**-power), -whole, whole)
        numbers = replace(
            forest,
            threshold=threshold,
            leaves=np.rint(forest.leaves * total),
            points=np.rint(self.points * (total / grain)),
        )
        return StoredForest(numbers._merged(), power, 1.0 / total, grain)

    def _of_few_leaves(self, n: int) -> PlainForest:
        """The same with at most so many distributions: the means of groups of near ones."""
        same = replace(self, leaves=np.round(self.leaves, 9))._merged()
        links = same.links.copy()
        if len(same.leaves) <= n:
            return same
        times = np.bincount(-1 - links[links < 0])
        groups = KMeans(n, n_init=1, max_iter=30, random_state=0)
        groups.fit(same.leaves, sample_weight=times)
        links[links < 0] = -1 - groups.labels_[-1 - links[links < 0]]
        return replace(self, links=links, leaves=groups.cluster_centers_)._merged()

    def _merged(self) -> PlainForest:
        """Each distribution once."""
        used, seen = np.unique(-1 - self.links[self.links < 0], return_inverse=True)
        leaves, row = np.unique(self.leaves[used], axis=0, return_inverse=True)
        row = row.ravel()[seen]
        links = self.links.copy()
        links[links < 0] = -1 - row
        return replace(self, leaves=leaves, links=links)


def forest_types(stored: list[StoredForest], bits: int) -> dict[str, str]:
    """The C types of their tables."""
    real, forests = STORED[bits][0], [one.forest for one in stored]
    values = max(one.width * len(one.columns) for one in forests)
    most = max(len(one.sizes) for one in forests)
    links = max(len(one.leaves) + int(one.sizes.max()) for one in forests)
    return {
        "mlat_split": "unsigned char" if values <= 256 else "unsigned short",
        "mlat_link": _unsigned(links - 1),
        "mlat_threshold": real,
        "mlat_apart": "int32_t" if bits == 8 and most <= NARROW_TREES else "mlat_square",
        "mlat_leaf": {16: "unsigned short", 8: "unsigned char"}.get(bits, real),
    }


def _unsigned(most: int) -> str:
    """The C type of numbers up to one."""
    return "unsigned char" if most < 2**8 else "unsigned short" if most < 2**16 else "int"


def add_forest(
    tables: Tables,
    number: int,
    one: StoredForest,
    codes: Ints,
    types: dict[str, str],
    bits: int,
    runs: Ints | None,
) -> tuple[list[str], int]:
    """Its tables; returns their sizes and names, and how many points are stored.

    References of a state (``codes``) with equal points are one: what counts is the nearest. With
    ``runs`` (sizes and states of references that follow each other) each counts, and all are kept.
    """
    forest = one.forest
    points: NDArray[Any] = forest.points
    if runs is None:
        of_states = np.unique(np.column_stack([codes, points]), axis=0)
        states, points = of_states[:, 0].astype(np.int64), of_states[:, 1:]
        own = np.where(states < points.shape[1], states, 0)
        points = points[np.lexsort([points[np.arange(len(points)), own], states])]
        runs = np.stack(np.unique(states, return_counts=True)[::-1], axis=1)
    names = [str(len(forest.leaves)), str(len(runs))]
    links = np.where(forest.links < 0, -1 - forest.links, forest.links + len(forest.leaves))
    values: NDArray[Any]
    for name, values, kind in (
        ("sizes", forest.sizes, types["mlat_link"]),
        ("splits", forest.feature, types["mlat_split"]),
        ("thresholds", forest.threshold, types["mlat_threshold"]),
        ("links", links, types["mlat_link"]),
        ("leaves", forest.leaves, types["mlat_leaf"]),
        ("points", points, STORED[bits][0]),
        ("point_runs", runs, "int"),
    ):
        names.append(f"{name}_{number}")
        tables.stored(names[-1], values, kind)
    return names, len(points)
