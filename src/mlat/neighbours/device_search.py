"""The search for nearest references on a device of PyTorch, to the last bit that of the processor.

The device makes the products in single precision, which bound every distance, and finds the pairs
that the bounds leave. These it compares in double precision, in an order of its own: another,
closer bound. What is left then, usually the nearest alone, is compared on the processor as always,
so that distances and rows are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.checks import Floats, Ints
from ..base.compiled import jit
from ..metric.nearest import insert, squared_distance
from ..metric.torch_device import open_device, products

AT_ONCE = 2**26  # pairs: products of a quarter of a gigabyte
IN_DOUBLE = 2**16  # pairs compared in double precision at a time


class DeviceSearch:
    """References on a device, in segments: the k nearest of each segment are sought.

    Parameters
    ----------
    points : array of shape (n, r)
        References, within 1.
    rows : array of shape (n,)
        Their row numbers.
    edges : array of shape (S + 1,)
        Where each segment begins.
    device : str
        As PyTorch names it: ``"cuda"``, ``"cpu"``.
    """

    def __init__(self, points: Floats, rows: Ints, edges: Ints, device: str) -> None:
        self._device = open_device(device, "a search on a device")
        import torch

        self._points, self._rows = points, rows
        self._edges = [int(edge) for edge in edges]
        self._exact = torch.as_tensor(points, device=self._device)
        self._single = self._exact.float().T.contiguous()
        self._squared = (self._exact**2).sum(dim=1)
        # As for mlat.metric.nearest.Candidates, and twice that: the sums are rounded here, too.
        n = 2 * (points.shape[1] + 16)
        self._rounding = n * float(np.finfo(np.float32).eps), n * float(np.finfo(np.float32).tiny)
        self._in_double = n * float(np.finfo(np.float64).eps)

    def query(self, x: Floats, k: int, squared: Floats, rows: Ints) -> None:
        """Write the nearest of points (m, r) into ``squared`` and ``rows``, both (m, S * k).

        Points must be nearer than ``FAR``. Free places are infinite and -1, as they must be before.
        """
        import torch

        at_once = max(1, AT_ONCE // max(1, len(self._points)))
        with torch.no_grad(), products("highest"):
            for begin in range(0, len(x), at_once):
                some = slice(begin, begin + at_once)
                q, i, segment = self._candidates(x[some], k)
                _compare(
                    np.ascontiguousarray(x[some]), self._points, self._rows, q, i, segment, k,
                    squared[some], rows[some],
                )  # fmt: skip

    def _candidates(self, x: Floats, k: int) -> tuple[Ints, Ints, Ints]:
        """Pairs of points and references that may be near enough, segment by segment."""
        import torch

        queries = torch.as_tensor(np.ascontiguousarray(x), device=self._device)
        norms = (queries**2).sum(dim=1)
        product = queries.float() @ self._single
        relative, absolute = self._rounding
        pairs = []
        for segment, (a, b) in enumerate(zip(self._edges, self._edges[1:], strict=False)):
            if a == b:
                continue
            # ‖x - z‖² of the product, and how far it can be from the distance, in single precision.
            both = norms[:, None].float() + self._squared[a:b].float()
            about = both - 2 * product[:, a:b]
            both = relative * both + absolute
            upper = about + both
            if k < b - a:
                cut = upper.min(1).values if k == 1 else upper.kthvalue(k, dim=1).values
                q, i = (about - both <= cut[:, None]).nonzero(as_tuple=True)
            else:
                q, i = torch.ones_like(about, dtype=torch.bool).nonzero(as_tuple=True)
            pairs.append(self._narrowed(queries, norms, q, i + a, k, segment))
        if not pairs:
            none = np.zeros(0, np.int64)
            return none, none, none
        q, i, segments = (torch.cat(column).cpu().numpy() for column in zip(*pairs, strict=True))
        return q, i, segments

    def _narrowed(
        self, queries: Any, norms: Any, q: Any, i: Any, k: int, segment: int
    ) -> tuple[Any, Any, Any]:
        """Of the pairs of one segment those that double precision leaves."""
        import torch

        if len(q) > k * len(queries):
            distance = torch.empty(len(q), device=self._device, dtype=torch.float64)
            for begin in range(0, len(q), IN_DOUBLE):
                some = slice(begin, begin + IN_DOUBLE)
                apart = queries[q[some]] - self._exact[i[some]]
                distance[some] = (apart * apart).sum(dim=1)
            upper = distance * (1 + self._in_double)
            if k == 1:
                cut = torch.full_like(norms, torch.inf).scatter_reduce_(0, q, upper, "amin")
            else:
                cut = _kth_of_each(q, upper, k, len(queries))
            left = distance * (1 - self._in_double) <= cut[q]
            q, i = q[left], i[left]
        return q, i, torch.full_like(q, segment)


def _kth_of_each(q: Any, values: Any, k: int, n: int) -> Any:
    """The k-th smallest of the values of each of n points; infinite where there are fewer."""
    import torch

    order = values.argsort(stable=True)
    order = order[q[order].argsort(stable=True)]  # by point, then by value
    q, values = q[order], values[order]
    first = torch.searchsorted(q, torch.arange(n, device=q.device))
    place = torch.arange(len(q), device=q.device) - first[q]
    found = torch.full((n,), torch.inf, device=q.device, dtype=values.dtype)
    found[q[place == k - 1]] = values[place == k - 1]
    return found


@jit()
def _compare(x, points, rows, q, i, segment, k, squared, at):  # type: ignore[no-untyped-def]
    """Insert pairs into the k places of their point and segment."""
    for pair in range(len(q)):
        distance, free = squared_distance(x[q[pair]], points[i[pair]]), segment[pair] * k
        insert(distance, rows[i[pair]], squared[q[pair]], at[q[pair]], free, free + k)
