"""Arithmetic whose last digit depends on neither company nor unit.

In a matrix product by BLAS the rounding of a row depends on how many rows there are. Here every
entry is summed in one fixed order, with every product and every sum rounded. So the result is the
same bit by bit for any cut of the rows into chunks and any number of threads.

Squares of numbers beyond 1e154 overflow, those of numbers below 1e-162 vanish. Divided by a power
of two first, which changes no digit, numbers of any unit give the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array
from numpy.typing import ArrayLike, NDArray

from .checks import Floats
from .compiled import jit

LANES = 8  # columns are padded to a multiple of this, the widest vector of a processor
TILE = 64  # columns of a tile
# Rows and columns whose sums are in registers at a time: sixteen of the widest vectors at most.
ROWS = 4
ACROSS = TILE if binding.get_host_cpu_features().get("avx512f") else TILE // 4


def exponent_of(values: ArrayLike) -> int:
    """The least e with all finite values below ``2**e`` in magnitude; 0 where all are 0."""
    return int(np.frexp(np.abs(values).max(initial=0.0))[1])


def power_above(size: float) -> float:
    """The power of two above a size, as far as there is one with an inverse; 1 for 0."""
    return float(np.ldexp(1.0, min(max(exponent_of(size), -1022), 1022)))


class Product:
    """``X @ B`` for a fixed B of shape (k, r) and any X of shape (…, k)."""

    def __init__(self, B: Floats) -> None:
        self.n_columns = B.shape[1]
        self._B = padded(B)

    def __call__(self, X: Floats) -> Floats:
        rows = np.ascontiguousarray(X.reshape(X.size // X.shape[-1], X.shape[-1]), dtype=np.float64)
        out = np.zeros((len(rows), self._B.shape[1]))
        multiply(rows, self._B, out)
        return out[:, : self.n_columns].reshape(*X.shape[:-1], self.n_columns)


def padded(B: Floats) -> Floats:
    """Add columns of zeros up to a multiple of ``LANES``."""
    extra = -B.shape[-1] % LANES
    return np.ascontiguousarray(np.pad(B, [(0, 0)] * (B.ndim - 1) + [(0, extra)]))


# No fastmath, which would allow another order of sums and fused products.


@jit()
def multiply(X, B, out):  # type: ignore[no-untyped-def]
    """Add ``X @ B`` to ``out``. Four rows at a time, for which B is read once."""
    n_fours = len(X) - len(X) % 4
    for i in range(0, n_fours, 4):
        _multiply_four(X[i : i + 4], B, out[i : i + 4])
    for i in range(n_fours, len(X)):
        _multiply_one(X[i], B, out[i])


# Four products per load and store, still summed one after the other.


@jit()
def _multiply_one(x, B, out):  # type: ignore[no-untyped-def]
    n_fours = len(x) - len(x) % 4
    for k in range(0, n_fours, 4):
        a, b, c, e = x[k], x[k + 1], x[k + 2], x[k + 3]
        p, q, r, s = B[k], B[k + 1], B[k + 2], B[k + 3]
        for j in range(len(out)):
            out[j] = (((out[j] + a * p[j]) + b * q[j]) + c * r[j]) + e * s[j]
    for k in range(n_fours, len(x)):
        a, p = x[k], B[k]
        for j in range(len(out)):
            out[j] += a * p[j]


@jit()
def _multiply_four(X, B, out):  # type: ignore[no-untyped-def]
    w, x, y, z = X[0], X[1], X[2], X[3]
    of_w, of_x, of_y, of_z = out[0], out[1], out[2], out[3]
    n_fours = len(B) - len(B) % 4
    for k in range(0, n_fours, 4):
        w0, w1, w2, w3 = w[k], w[k + 1], w[k + 2], w[k + 3]
        x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
        y0, y1, y2, y3 = y[k], y[k + 1], y[k + 2], y[k + 3]
        z0, z1, z2, z3 = z[k], z[k + 1], z[k + 2], z[k + 3]
        p, q, r, s = B[k], B[k + 1], B[k + 2], B[k + 3]
        for j in range(B.shape[1]):
            a, b, c, e = p[j], q[j], r[j], s[j]
            of_w[j] = (((of_w[j] + w0 * a) + w1 * b) + w2 * c) + w3 * e
            of_x[j] = (((of_x[j] + x0 * a) + x1 * b) + x2 * c) + x3 * e
            of_y[j] = (((of_y[j] + y0 * a) + y1 * b) + y2 * c) + y3 * e
            of_z[j] = (((of_z[j] + z0 * a) + z1 * b) + z2 * c) + z3 * e
    for k in range(n_fours, len(B)):
        for i in range(4):
            a, p, total = X[i, k], B[k], out[i]
            for j in range(B.shape[1]):
                total[j] += a * p[j]


# In single precision, with the columns in tiles: what is read of these serves many rows, and sums
# stay in registers. The products are not rounded where a processor can leave that out.


def in_tiles(B: Floats) -> NDArray[np.float32]:
    """The columns of B (k, r), of which there are whole tiles, as tiles (r / TILE, k, TILE)."""
    n = B.size
    room = np.empty(n + TILE, np.float32)
    begin = -room.ctypes.data % TILE // room.itemsize  # where a line of the cache begins
    tiles = room[begin : begin + n].reshape(-1, len(B), TILE)
    tiles[:] = B.reshape(len(B), -1, TILE).transpose(1, 0, 2)
    return tiles


def _adding(n_rows: int) -> Callable[..., None]:
    """A function that adds the product of some rows with a tile, over some of their numbers."""

    def add(context, x, row, first, last, tile, out, column):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
            X, B, sums = (
                make_array(kind)(context, builder, value).data
                for kind, value in ((x, given[0]), (tile, given[4]), (out, given[5]))
            )
            strides = [
                cgutils.unpack_tuple(builder, make_array(kind)(context, builder, value).shape)[1]
                for kind, value in ((x, given[0]), (out, given[5]))
            ]

            def at(array: Any, row: Any, stride: Any, column: Any) -> Any:
                return builder.gep(array, [builder.add(builder.mul(row, stride), column)])

            number, single = given[1].type, ir.FloatType()
            vector, all_first = ir.VectorType(single, ACROSS), ir.VectorType(ir.IntType(32), ACROSS)
            rows = [builder.add(given[1], number(r)) for r in range(n_rows)]
            for begin in range(0, TILE, ACROSS):
                totals = [cgutils.alloca_once(builder, vector) for _ in rows]
                for total in totals:
                    builder.store(vector([0.0] * ACROSS), total)
                with cgutils.for_range_slice(builder, given[2], given[3], number(1)) as (k, _):
                    place = at(B, k, number(TILE), number(begin))
                    y = builder.load(builder.bitcast(place, vector.as_pointer()), align=4)
                    for row, total in zip(rows, totals, strict=True):
                        value = builder.load(at(X, row, strides[0], k))
                        value = builder.insert_element(vector(ir.Undefined), value, number(0))
                        value = builder.shuffle_vector(value, vector(ir.Undefined), all_first(None))
                        more = builder.fmul(value, y, flags=("contract",))
                        more = builder.fadd(builder.load(total), more, flags=("contract",))
                        builder.store(more, total)
                for row, total in zip(rows, totals, strict=True):
                    place = at(sums, row, strides[1], builder.add(given[6], number(begin)))
                    place = builder.bitcast(place, vector.as_pointer())
                    before = builder.load(place, align=4)
                    builder.store(builder.fadd(before, builder.load(total)), place, align=4)
            return context.get_dummy_value()

        whole = (types.int64,) * 3
        return types.none(x, *whole, tile, out, types.int64), generate

    return intrinsic(add)


_add_one, _add_some = _adding(1), _adding(ROWS)


def _tile_at(context: Any, builder: Any, kind: Any, array: Any, first: Any) -> Any:
    """Where so many numbers of an array (n,) begin, as one vector."""
    place = builder.gep(make_array(kind)(context, builder, array).data, [first])
    return builder.bitcast(place, ir.VectorType(place.type.pointee, TILE).as_pointer())


def _least(builder: Any, values: Any) -> Any:
    """The least of a vector without NaN."""
    one, size = values.type.element, 64 if values.type.element == ir.DoubleType() else 32
    name = f"llvm.vector.reduce.fmin.v{TILE}f{size}"
    found = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(one, [values.type]), name
    )
    return builder.call(found, [values], fastmath=("nnan", "nsz"))


@intrinsic
def least_of_tile(context, squared, product, first):  # type: ignore[no-untyped-def]
    """The least ``squared - 2 product`` of the tile that begins at ``first``."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        y, p = (
            builder.load(_tile_at(context, builder, kind, array, given[2]), align=4)
            for kind, array in zip((squared, product), given, strict=False)
        )
        return _least(builder, builder.fsub(y, builder.fadd(p, p)))

    return squared.dtype(squared, product, types.int64), generate


@intrinsic
def move_tile(context, sums, more, squared, first):  # type: ignore[no-untyped-def]
    """``sums[j + 1] = sums[j] + more[j]`` at once for a tile; the least ``squared - 2 sums``."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        place, of_more, of_squared = (
            _tile_at(context, builder, kind, array, given[3])
            for kind, array in zip((sums, more, squared), given, strict=False)
        )
        after = builder.add(given[3], given[3].type(1))
        grown = builder.fpext(builder.load(of_more, align=4), place.type.pointee)
        moved = builder.fadd(builder.load(place, align=8), grown)
        builder.store(moved, _tile_at(context, builder, sums, given[0], after), align=8)
        y = builder.load(of_squared, align=8)
        return _least(builder, builder.fsub(y, builder.fadd(moved, moved)))

    return types.float64(sums, more, squared, types.int64), generate


@jit()
def multiply_tiles(X, tiles, n_parts, out):  # type: ignore[no-untyped-def]
    """``out = X @ B``, in one fixed order, for B as :func:`in_tiles` gives it.

    A sum is that of its parts, each over so much of the numbers of a row: shorter sums round less.
    """
    n, size = len(X), tiles.shape[1] // n_parts
    for number in range(len(tiles)):
        tile, column = tiles[number], number * TILE
        out[:, column : column + TILE] = np.float32(0.0)
        for first in range(0, tiles.shape[1], size):
            for row in range(0, n - n % ROWS, ROWS):
                _add_some(X, row, first, first + size, tile, out, column)
            for row in range(n - n % ROWS, n):
                _add_one(X, row, first, first + size, tile, out, column)
