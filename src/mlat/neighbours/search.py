"""Exact k nearest neighbours in the learned space.

One matrix product in single precision gives every squared distance with a known error bound; only
references that the bound cannot rule out are compared in double precision. So the result is that
of the plain search, at the cost of the product.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..checks import Floats
from ..errors import InputError

BLOCK = 512  # queries at a time


class NearestNeighbors:
    """Exact search among reference points (n, r).

    ``mean`` (r,) is for references that are some of many: that of all of them. Distances are then
    the same to the last bit as among all.
    """

    def __init__(self, references: Floats, mean: Floats | None = None) -> None:
        # Around their mean the points are small, and so are the rounding errors.
        self.mean = references.mean(axis=0) if mean is None else mean
        self.references = np.ascontiguousarray(references - self.mean)
        self._single = self.references.astype(np.float32)
        self._squared = np.einsum("ij,ij->i", self.references, self.references)

    def __len__(self) -> int:
        return len(self.references)

    def query(self, points: Floats, n_neighbors: int = 1) -> tuple[Floats, NDArray[np.int64]]:
        """Distances and rows of the nearest references, both (m, k), nearest first.

        Equally near references come in the order of their rows.
        """
        squared, rows = self.query_squared(points, n_neighbors)
        return np.sqrt(squared), rows

    def query_squared(
        self, points: Floats, n_neighbors: int = 1
    ) -> tuple[Floats, NDArray[np.int64]]:
        """The same with the squares of the distances, which tell more of them apart."""
        if not 1 <= n_neighbors <= len(self):
            raise InputError(
                f"n_neighbors is {n_neighbors}, but there are {len(self)} reference windows"
            )
        m = len(points)
        distances = np.empty((m, n_neighbors))
        rows = np.empty((m, n_neighbors), np.int64)
        # |fl(2 x·y) - 2 x·y| ≤ γ_r (‖x‖² + ‖y‖²), and a few more roundings.
        relative = (points.shape[1] + 16) * float(np.finfo(np.float32).eps)
        for begin in range(0, m, BLOCK):
            block = slice(begin, min(begin + BLOCK, m))
            x = np.ascontiguousarray(points[block] - self.mean)
            product = x.astype(np.float32) @ self._single.T
            _select(
                product,
                x,
                np.einsum("ij,ij->i", x, x),
                self.references,
                self._squared,
                relative,
                distances[block],
                rows[block],
            )
        return distances, rows


@njit(cache=True, nogil=True)
def _select(product, x, x_squared, references, squared, relative, distances, rows):  # type: ignore[no-untyped-def]
    m, n = product.shape
    k = distances.shape[1]
    upper = np.empty(k)
    for q in range(m):
        # The k-th smallest upper bound: nothing whose lower bound is above it can be a neighbour.
        upper[:] = np.inf
        for i in range(n):
            total = x_squared[q] + squared[i]
            bound = total - 2.0 * product[q, i] + relative * total
            if bound < upper[k - 1]:
                place = k - 1
                while place > 0 and upper[place - 1] > bound:
                    upper[place] = upper[place - 1]
                    place -= 1
                upper[place] = bound
        cut = upper[k - 1]
        found = 0
        for i in range(n):
            total = x_squared[q] + squared[i]
            if total - 2.0 * product[q, i] - relative * total > cut:
                continue
            distance = 0.0
            for f in range(x.shape[1]):
                difference = x[q, f] - references[i, f]
                distance += difference * difference
            if found < k or distance < distances[q, k - 1]:
                place = found if found < k else k - 1
                while place > 0 and distances[q, place - 1] > distance:
                    distances[q, place] = distances[q, place - 1]
                    rows[q, place] = rows[q, place - 1]
                    place -= 1
                distances[q, place] = distance
                rows[q, place] = i
                found = min(found + 1, k)
