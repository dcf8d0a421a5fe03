"""How far each window is from the nearest reference of every state.

The same exact search as in :mod:`mlat.neighbours.search`: a matrix product in single precision
bounds every distance, and only references that the bounds cannot rule out are compared in double
precision, by differences. The smallest of these is the same number whatever the product rounds to,
so a window has the same distances, bit by bit, whichever windows it is asked about together with.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..checks import Floats, Ints
from ..errors import InputError

# Queries and references at a time: their product, 16 MB, is all the memory that grows with both.
QUERIES = 256
REFERENCES = 16384
# Points this far out (where references are within 1) would overflow single precision.
FAR = 1e15


def nearest_by_class(
    Z: Floats, references: Floats, codes: Ints, n_classes: int, *, exclude: Ints | None = None
) -> Floats:
    """The distance to the nearest reference of each state.

    Parameters
    ----------
    Z : array of shape (m, r)
        Windows in the learned space. A row with a NaN has no distances.
    references : array of shape (n, r)
    codes : array of shape (n,)
        The state of each reference, from 0 to ``n_classes - 1``.
    n_classes : int
    exclude : array of shape (m, 2), optional
        For each window the rows ``[first, last)`` of references to leave out, as
        :func:`mlat.classifier.held_out.rows_nearby` gives them for the references themselves.

    Returns
    -------
    nearest : array of shape (m, n_classes)
        Infinite where a state has no reference left, NaN for a row with a NaN.

    Examples
    --------
    >>> references = np.array([[0.0], [1.0], [5.0]])
    >>> nearest_by_class(np.array([[2.0]]), references, np.array([0, 0, 1]), 2).tolist()
    [[1.0, 3.0]]
    """
    return ClassDistances(references, codes, n_classes).query(Z, exclude=exclude)


class ClassDistances:
    """References made ready for :func:`nearest_by_class`, to be asked many times."""

    def __init__(self, references: Floats, codes: Ints, n_classes: int) -> None:
        codes = np.asarray(codes)
        if len(codes) != len(references) or not len(codes):
            raise InputError(f"there are {len(references)} references and {len(codes)} codes")
        if not 0 <= codes.min() <= codes.max() < n_classes:
            raise InputError(
                f"codes must be 0 to {n_classes - 1}, not {codes.min()} to {codes.max()}"
            )
        self.n_classes = n_classes
        # State by state, so that the inner loops run over contiguous memory.
        self._rows = np.argsort(codes, kind="stable").astype(np.int64)
        self._edges = np.searchsorted(codes[self._rows], np.arange(n_classes + 1)).astype(np.int64)
        # Around their mean and within 1 the points are small, and so are the rounding errors. The
        # scale is a power of two: it changes no digit.
        self._mean = references.mean(axis=0)
        centred = np.asarray(references, dtype=np.float64)[self._rows] - self._mean
        self._scale = float(np.ldexp(1.0, int(np.frexp(np.abs(centred).max(initial=0.0))[1])))
        self._references = np.ascontiguousarray(centred / self._scale)
        self._single = self._references.astype(np.float32)
        self._squared = np.einsum("ij,ij->i", self._references, self._references)

    def __len__(self) -> int:
        return len(self._rows)

    def query(self, Z: Floats, *, exclude: Ints | None = None) -> Floats:
        """As :func:`nearest_by_class`."""
        return self.query_rows(Z, exclude=exclude)[0]

    def query_rows(self, Z: Floats, *, exclude: Ints | None = None) -> tuple[Floats, Ints]:
        """The same, and the rows of these references, shape (m, n_classes).

        Of equally near references the first; -1 where a distance is NaN or infinite.
        """
        Z = np.asarray(Z, dtype=np.float64)
        if Z.ndim != 2 or Z.shape[1] != self._references.shape[1]:
            raise InputError(
                f"windows must have shape (m, {self._references.shape[1]}), not {Z.shape}"
            )
        if exclude is None:
            exclude = np.zeros((len(Z), 2), np.int64)
        elif exclude.shape != (len(Z), 2):
            raise InputError(f"exclude must have shape ({len(Z)}, 2), not {exclude.shape}")
        best = np.full((len(Z), self.n_classes), np.inf)
        where = np.full(best.shape, -1, np.int64)
        for begin in range(0, len(Z), QUERIES):
            block = slice(begin, begin + QUERIES)
            left_out = np.ascontiguousarray(exclude[block])
            self._query_block(Z[block], left_out, best[block], where[block])
        nearest: Floats = self._scale * np.sqrt(best)
        nearest[np.isnan(Z).any(axis=1)] = np.nan
        return nearest, where

    def _query_block(self, Z: Floats, exclude: Ints, best: Floats, where: Ints) -> None:
        """Squared distances of some queries, in units of the scale, and their rows."""
        x = np.ascontiguousarray((Z - self._mean) / self._scale)
        # Not the far, which are compared with every reference (a NaN, too, is not below).
        bounded = np.abs(x).max(axis=1, initial=0.0) < FAR
        rounded = np.where(bounded[:, None], x, 0.0)
        squared = np.einsum("ij,ij->i", rounded, rounded)
        single = rounded.astype(np.float32)
        # |fl(2 x·y) - 2 x·y| ≤ γ_r (‖x‖² + ‖y‖²), a few more roundings, and what underflows.
        relative = (x.shape[1] + 16) * float(np.finfo(np.float32).eps)
        absolute = (x.shape[1] + 16) * float(np.finfo(np.float32).tiny)
        for begin in range(0, len(self), REFERENCES):
            part = slice(begin, begin + REFERENCES)
            product = single @ self._single[part].T
            edges = self._edges
            if len(self) > REFERENCES:
                edges = np.clip(edges - begin, 0, product.shape[1])
            _nearest(
                product,
                x,
                bounded,
                squared,
                self._references[part],
                self._squared[part],
                self._rows[part],
                edges,
                exclude,
                relative,
                absolute,
                best,
                where,
            )


@njit(cache=True, nogil=True)
def _nearest(  # type: ignore[no-untyped-def]
    product, x, bounded, x_squared, references, squared, rows, edges, exclude, rel, tiny, best, at
):
    for q in range(len(x)):
        for c in range(len(edges) - 1):
            begin, end = edges[c], edges[c + 1]
            # Within a state rows ascend, so what is left out is one stretch of them.
            first, last = end, end
            if exclude[q, 0] < exclude[q, 1]:
                first = begin + np.searchsorted(rows[begin:end], exclude[q, 0])
                last = begin + np.searchsorted(rows[begin:end], exclude[q, 1])
            for low, high in ((begin, first), (last, end)):
                if low >= high:
                    continue
                if not bounded[q]:
                    for i in range(low, high):
                        distance = _distance(x[q], references[i])
                        if distance < best[q, c]:
                            best[q, c], at[q, c] = distance, rows[i]
                    continue
                cut = _least_upper(product[q], squared, low, high, 1.0 + rel)
                cut += (1.0 + rel) * x_squared[q] + tiny
                # The exact best so far is a bound as well; it has met other references.
                cut = min(cut, best[q, c])
                slack = (1.0 - rel) * x_squared[q] - tiny - cut
                for i in range(low, high):
                    if (1.0 - rel) * squared[i] - 2.0 * product[q, i] + slack > 0.0:
                        continue
                    distance = _distance(x[q], references[i])
                    if distance < best[q, c]:
                        best[q, c], at[q, c] = distance, rows[i]


@njit(cache=True, nogil=True, fastmath=True)
def _least_upper(product, squared, low, high, factor):  # type: ignore[no-untyped-def]
    """The smallest upper bound, less what all have in common; finite, so it may be vectorised."""
    least = factor * squared[low] - 2.0 * product[low]
    for i in range(low + 1, high):
        least = min(least, factor * squared[i] - 2.0 * product[i])
    return least


@njit(cache=True, nogil=True)
def _distance(a, b):  # type: ignore[no-untyped-def]
    """Squared, summed in one fixed order."""
    total = 0.0
    for f in range(len(a)):
        difference = a[f] - b[f]
        total += difference * difference
    return total
