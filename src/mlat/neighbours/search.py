"""Exact search in the learned space: the k nearest references, and the nearest of every state.

The search is that of :mod:`mlat.metric.nearest`: a matrix product in single precision bounds every
distance, and only references that the bounds cannot rule out are compared in double precision. So a
point has the same distances, bit by bit, whichever points it is queried together with.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from ..base.checks import Floats, Ints
from ..base.errors import InputError
from ..base.fixed_order import power_above
from ..metric.nearest import ANYWHERE, FAR, Candidates
from .clusters import TimeClusters

# Queries per product with 16,384 references: 16 MB, all the memory that grows with both.
QUERIES = 256
# From so many references on, clusters of neighbours in time may pass over most of them.
MANY_REFERENCES = 20_000
# Up to this share of all coordinates, reading them one after the other is quicker than a product
# with all of them: for a few points, and for many, which share what a product reads.
MOST_LEFT, MOST_LEFT_OF_MANY = 1 / 3, 1 / 20
FEW_POINTS = 8
PROBES = 64  # references that say how many are left
NEARBY = 500  # rows before and after such a one that are held out, being near-copies of it


class NearestNeighbors:
    """The k nearest among reference points.

    Parameters
    ----------
    references : array of shape (n, r)

    Attributes
    ----------
    mean : array of shape (r,)
    scale : float
        A power of two.
    points : array of shape (n, r)
        ``(references - mean) / scale``: within 1, so that rounding errors are small. Dividing by a
        power of two changes no digit.
    rows : array of shape (n,)
        The row number of each point.
    """

    def __init__(self, references: Floats) -> None:
        self.mean = references.mean(axis=0)
        self._hold(np.ascontiguousarray(references - self.mean, dtype=np.float64), None)

    @classmethod
    def of_own(cls, points: Floats, mean: Floats, rows: Ints) -> NearestNeighbors:
        """Of references in the order of ``rows``, whose memory is taken over."""
        search = cls.__new__(cls)
        search.mean = mean
        points -= mean
        search._hold(points, rows)
        return search

    def _hold(self, points: Floats, rows: Ints | None) -> None:
        largest = max(points.max(initial=0.0), -points.min(initial=0.0))
        self.points, self.scale = points, power_above(largest)
        self.points /= self.scale
        self.candidates = Candidates(self.points, self.points, rows, np.float32, tiled=True)
        self.rows = self.candidates.rows

    def __len__(self) -> int:
        return len(self.points)

    def query(self, points: Floats, n_neighbors: int = 1) -> tuple[Floats, Ints]:
        """Distances and rows of the nearest references, both (m, k), nearest first.

        Equally near references come in the order of their rows.
        """
        if not 1 <= n_neighbors <= len(self):
            raise InputError(
                f"n_neighbors is {n_neighbors}, but there are {len(self)} reference windows"
            )
        every = np.array([0, len(self)])
        squared, rows = self.nearest_of_each(points, n_neighbors, every)
        return self.scale * np.sqrt(squared), rows

    def nearest_of_each(
        self,
        points: Floats,
        k: int,
        edges: Ints,
        *,
        exclude: Ints | None = None,
        clusters: TimeClusters | None = None,
    ) -> tuple[Floats, Ints]:
        """The same of each of S segments of ``self.points``, both (m, S * k).

        Free places are infinite and -1, those of a point with a NaN are NaN and -1.

        Parameters
        ----------
        points : array of shape (m, r)
        k : int
        edges : array of shape (S + 1,)
            Where each segment begins.
        exclude : array of shape (m, 2), optional
            For each point the rows ``[first, last)`` that are held out.
        clusters : TimeClusters, optional
            A search for the nearest one of each segment.
        """
        squared = np.full((len(points), (len(edges) - 1) * k), np.inf)
        rows = np.full(squared.shape, -1, np.int64)
        here, there = (ANYWHERE,) * 2 if exclude is None else self._places(exclude)
        for begin in range(0, len(points), QUERIES):
            some = slice(begin, begin + QUERIES)
            x = np.ascontiguousarray((points[some] - self.mean) / self.scale)
            is_near = bool(np.abs(x).max(initial=0.0) < FAR)  # a NaN is not
            if is_near and clusters is not None:
                clusters.query(x, squared[some], rows[some])
            else:
                between = (here[some], there)
                self.candidates.compare(x, x, rows[some], squared[some], between, edges)
                if not is_near:
                    squared[some][np.isnan(x).any(axis=1)] = np.nan
        return squared, rows

    def _places(self, exclude: Ints) -> tuple[Ints, Ints]:
        """Tables of :class:`~mlat.metric.nearest.Places` that hold out rows.

        A row r is in ``[first, last)`` where ``|2r - (first + last - 1)| < last - first``.
        """
        first, last = exclude.T
        here, there = np.zeros((len(exclude), 4), np.int64), np.zeros((len(self), 4), np.int64)
        here[:, 0], here[:, 1], here[:, 3] = -1, first + last - 1, last - first
        there[:, 0], there[:, 1] = self.rows, 2 * self.rows
        return here, there


class ClassDistances:
    """The distance of points to the nearest reference of every state.

    Parameters
    ----------
    references : array of shape (n, r)
    codes : array of shape (n,)
        The state of each reference, from 0 to ``n_classes - 1``.
    n_classes : int

    Attributes
    ----------
    n_classes : int
    edges : array of shape (n_classes + 1,)
        Where each state begins among the points of ``nearest``.
    nearest : NearestNeighbors
        The same references, for k nearest neighbours whatever their state. Its ``points`` are held
        state by state, and shared.

    Examples
    --------
    >>> search = ClassDistances(np.array([[0.0], [1.0], [5.0]]), np.array([0, 0, 1]), 2)
    >>> search.query(np.array([[2.0]])).tolist()
    [[1.0, 3.0]]
    """

    def __init__(self, references: Floats, codes: Ints, n_classes: int) -> None:
        codes = np.asarray(codes)
        if len(codes) != len(references) or not len(codes):
            raise InputError(f"there are {len(references)} references and {len(codes)} codes")
        if not 0 <= codes.min() <= codes.max() < n_classes:
            raise InputError(
                f"codes must be 0 to {n_classes - 1}, not {codes.min()} to {codes.max()}"
            )
        self._hold([(slice(None), references)], references.shape[1], codes, n_classes)

    @classmethod
    def of_blocks(
        cls, blocks: Iterable[tuple[slice, Floats]], n_dimensions: int, codes: Ints, n_classes: int
    ) -> ClassDistances:
        """The same from some references at a time, in their order: they are in memory once."""
        search = cls.__new__(cls)
        search._hold(blocks, n_dimensions, codes, n_classes)
        return search

    def _hold(
        self, blocks: Iterable[tuple[slice, Floats]], n_dimensions: int, codes: Ints, n_classes: int
    ) -> None:
        # State by state, so that the inner loops run over contiguous memory.
        rows = np.argsort(codes, kind="stable").astype(np.int64)
        place = np.empty_like(rows)
        place[rows] = np.arange(len(rows))
        points, total = np.empty((len(rows), n_dimensions)), None
        for block, Z in blocks:
            points[place[block]] = Z
            # One after the other, as the mean of all at once sums them: to the last bit.
            total = np.add.reduce(Z if total is None else np.concatenate([total[None], Z]), axis=0)
        assert total is not None
        self.n_classes = n_classes
        self.edges = np.searchsorted(codes[rows], np.arange(n_classes + 1)).astype(np.int64)
        self.nearest = NearestNeighbors.of_own(points, total / len(rows), rows)

    def __len__(self) -> int:
        return len(self.nearest)

    def query(self, Z: Floats, *, exclude: Ints | None = None) -> Floats:
        """The distances of points (m, r), shape (m, n_classes).

        Infinite where a state has no reference left, NaN for a point with a NaN.

        Parameters
        ----------
        Z : array of shape (m, r)
        exclude : array of shape (m, 2), optional
            For each point the rows ``[first, last)`` of references to hold out, as
            :func:`mlat.classifier.held_out.rows_nearby` gives them for the references themselves.
        """
        return self.query_rows(Z, exclude=exclude)[0]

    def query_rows(self, Z: Floats, *, exclude: Ints | None = None) -> tuple[Floats, Ints]:
        """The same, and the rows of these references, shape (m, n_classes).

        Of equally near references the first; -1 where a distance is NaN or infinite.
        """
        Z = np.asarray(Z, dtype=np.float64)
        if Z.ndim != 2 or Z.shape[1] != self.nearest.points.shape[1]:
            raise InputError(
                f"windows must have shape (m, {self.nearest.points.shape[1]}), not {Z.shape}"
            )
        if exclude is not None and exclude.shape != (len(Z), 2):
            raise InputError(f"exclude must have shape ({len(Z)}, 2), not {exclude.shape}")
        most = MOST_LEFT if len(Z) <= FEW_POINTS else MOST_LEFT_OF_MANY
        clusters = None
        if exclude is None and self.clusters is not None:
            clusters = self.clusters if self.share_left <= most else None
        best, where = self.nearest.nearest_of_each(
            Z, 1, self.edges, exclude=exclude, clusters=clusters
        )
        where[np.isinf(best)] = -1
        return self.nearest.scale * np.sqrt(best), where

    @cached_property
    def clusters(self) -> TimeClusters | None:
        """The references in clusters, where there are many."""
        if len(self) < MANY_REFERENCES:
            return None
        return TimeClusters(self.nearest.points, self.nearest.rows, self.edges)

    @cached_property
    def share_left(self) -> float:
        """The share of all coordinates that a search by clusters reads; 1 where there are none.

        Some of the references are sought, each without those near it in time. They are the same
        ones each time, so that the share is, too.
        """
        if self.clusters is None:
            return 1.0
        rng = np.random.default_rng(0)
        at = np.sort(rng.choice(len(self), min(PROBES, len(self)), replace=False))
        x, rows = self.nearest.points[at], self.nearest.rows[at]
        exclude = np.stack([rows - NEARBY, rows + NEARBY + 1], axis=1)
        distances = self.query(x * self.nearest.scale + self.nearest.mean, exclude=exclude)
        reach = np.where(np.isfinite(distances), distances / self.nearest.scale, -np.inf)
        return self.clusters.share_left(x, reach)
