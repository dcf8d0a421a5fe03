"""Products in which many references, or many outputs, lie side by side in a processor's lanes.

Both kernels add in one fixed order, each result in a lane of its own: a sum is the same, bit by
bit, whichever others are worked out with it. They are written as vectors of LLVM, which every
processor has in some width: loops in Python leave the sums in memory, which takes six times as
long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

TILE = 64  # references side by side: four registers of sixteen single-precision numbers
LANES = 8  # outputs side by side in double precision: one register
CHAINS = 4  # sums that run beside each other, since one waits for its own last addition
ROWS = 4  # queries that share what is read of the references

_INDEX = ir.IntType(64)


def _at(builder: Any, pointer: Any, *index: Any) -> Any:
    """The address ``Σ index`` entries on."""
    for step in index:
        step = ir.Constant(_INDEX, step) if isinstance(step, int) else step
        pointer = builder.gep(pointer, [step])
    return pointer


def _bytes(vector: Any) -> int:
    """Of each lane."""
    return 4 if isinstance(vector.element, ir.FloatType) else 8


def _load(builder: Any, pointer: Any, vector: Any) -> Any:
    loaded = builder.load(builder.bitcast(pointer, vector.as_pointer()))
    loaded.align = _bytes(vector)  # arrays of numpy promise no more
    return loaded


def _store(builder: Any, value: Any, pointer: Any) -> None:
    stored = builder.store(value, builder.bitcast(pointer, value.type.as_pointer()))
    stored.align = _bytes(value.type)


def _spread(builder: Any, scalar: Any, vector: Any) -> Any:
    """A vector that holds the scalar in every lane."""
    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, scalar, ir.Constant(ir.IntType(32), 0))
    lanes = ir.VectorType(ir.IntType(32), vector.count)
    return builder.shuffle_vector(first, nothing, ir.Constant(lanes, [0] * vector.count))


def _multiply_add(builder: Any, vector: Any) -> Callable[[Any, Any, Any], Any]:
    """``a * b + c``, in one instruction where the processor has it."""
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(vector, [vector] * 3),
        f"llvm.fmuladd.v{vector.count}f{8 * _bytes(vector)}",
    )
    return lambda a, b, c: builder.call(function, [a, b, c])


def _zeros(builder: Any, vector: Any, n: int) -> list[Any]:
    zero = ir.Constant(vector, [0.0] * vector.count)
    return [cgutils.alloca_once_value(builder, zero) for _ in range(n)]


def _tile_products(n_rows: int) -> Any:
    """The kernel for one tile of references and so many rows of queries."""

    @intrinsic
    def products(context, left, row, right, tile, n_parts, out):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            L, R, out = (
                context.make_array(signature.args[i])(context, builder, arguments[i])
                for i in (0, 2, 5)
            )
            _, row, _, tile, n_parts, _ = arguments
            width = cgutils.unpack_tuple(builder, L.shape)[1]
            n_out = cgutils.unpack_tuple(builder, out.shape)[1]
            part = builder.udiv(width, n_parts)
            single = ir.FloatType()
            vector = ir.VectorType(single, 16)
            n = TILE // 16
            multiply_add = _multiply_add(builder, vector)
            size = ir.Constant(_INDEX, TILE)
            columns = _at(builder, R.data, builder.mul(builder.mul(tile, width), size))
            lefts, outs = [], []
            for r in range(n_rows):
                here = builder.add(row, ir.Constant(_INDEX, r))
                lefts.append(_at(builder, L.data, builder.mul(here, width)))
                outs.append(
                    _at(builder, out.data, builder.mul(here, n_out), builder.mul(tile, size))
                )
            total = [_zeros(builder, vector, n) for _ in range(n_rows)]
            of_part = [_zeros(builder, vector, n) for _ in range(n_rows)]
            with cgutils.for_range(builder, n_parts) as parts:
                for sums in of_part:
                    for s in sums:
                        builder.store(ir.Constant(vector, [0.0] * 16), s)
                begin = builder.mul(parts.index, part)
                with cgutils.for_range(builder, part) as within:
                    f = builder.add(begin, within.index)
                    column = _at(builder, columns, builder.mul(f, size))
                    read = [_load(builder, _at(builder, column, 16 * v), vector) for v in range(n)]
                    for pointer, sums in zip(lefts, of_part, strict=True):
                        factor = _spread(builder, builder.load(_at(builder, pointer, f)), vector)
                        for s, y in zip(sums, read, strict=True):
                            builder.store(multiply_add(factor, y, builder.load(s)), s)
                for totals, sums in zip(total, of_part, strict=True):
                    for t, s in zip(totals, sums, strict=True):
                        builder.store(builder.fadd(builder.load(t), builder.load(s)), t)
            for totals, pointer in zip(total, outs, strict=True):
                for v, t in enumerate(totals):
                    _store(builder, builder.load(t), _at(builder, pointer, 16 * v))
            return context.get_dummy_value()

        return types.void(left, row, right, tile, n_parts, out), codegen

    return products


_one_row, _four_rows = _tile_products(1), _tile_products(ROWS)


def _lane_sums(n_tiles: int) -> Any:
    """The kernel for so many tiles of outputs: ``out[l] = Σ_i left[begin + i] right[row + i, l]``.

    i runs below n, a multiple of ``CHAINS``. There are always as many sums as chains: a tile alone
    has all of them, each over every fourth product; four tiles have one each.
    """
    n_chains = CHAINS // n_tiles

    @intrinsic
    def sums_of(context, left, begin, right, tile, row, n, out):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            L, R, out = (
                context.make_array(signature.args[i])(context, builder, arguments[i])
                for i in (0, 2, 6)
            )
            _, begin, _, tile, row, n, _ = arguments
            double = ir.VectorType(ir.DoubleType(), LANES)
            stored = ir.VectorType(R.data.type.pointee, LANES)
            multiply_add = _multiply_add(builder, double)
            lanes = ir.Constant(_INDEX, LANES)
            n_rows = cgutils.unpack_tuple(builder, R.shape)[1]
            first = _at(builder, L.data, begin)
            columns = []
            for t in range(n_tiles):
                here = builder.add(tile, ir.Constant(_INDEX, t))
                at = builder.add(builder.mul(here, n_rows), row)
                columns.append(_at(builder, R.data, builder.mul(at, lanes)))
            sums = [_zeros(builder, double, n_chains) for _ in columns]
            every = ir.Constant(_INDEX, n_chains)
            with cgutils.for_range(builder, builder.udiv(n, every)) as loop:
                i = builder.mul(loop.index, every)
                place = builder.mul(i, lanes)
                for c in range(n_chains):
                    factor = _spread(builder, builder.load(_at(builder, first, i, c)), double)
                    for column, chains in zip(columns, sums, strict=True):
                        y = _load(builder, _at(builder, column, place, c * LANES), stored)
                        if stored != double:
                            y = builder.fpext(y, double)
                        added = multiply_add(factor, y, builder.load(chains[c]))
                        builder.store(added, chains[c])
            for t, chains in enumerate(sums):
                total = [builder.load(s) for s in chains]
                while len(total) > 1:
                    total = [
                        builder.fadd(a, b) for a, b in zip(total[::2], total[1::2], strict=True)
                    ]
                place = builder.mul(builder.add(tile, ir.Constant(_INDEX, t)), lanes)
                _store(builder, total[0], _at(builder, out.data, place))
            return context.get_dummy_value()

        return types.void(left, begin, right, tile, row, n, out), codegen

    return sums_of


_one_tile, _four_tiles = _lane_sums(1), _lane_sums(CHAINS)


@intrinsic
def _move_tile(context, sums, grown, squared, tile):  # type: ignore[no-untyped-def]
    """Move one tile of running sums on; the least of ``squared - 2 sums`` among them."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        G, grown, squared = (
            context.make_array(signature.args[i])(context, builder, arguments[i]).data
            for i in range(3)
        )
        begin = builder.mul(arguments[3], ir.Constant(_INDEX, TILE))
        double = ir.VectorType(ir.DoubleType(), LANES)
        single = ir.VectorType(ir.FloatType(), LANES)
        two = ir.Constant(double, [2.0] * LANES)
        moved = []
        for at in range(0, TILE, LANES):
            old = _load(builder, _at(builder, G, begin, at), double)
            new = builder.fpext(_load(builder, _at(builder, grown, begin, at), single), double)
            moved.append(builder.fadd(old, new))
        least = None
        for at, sums_here in zip(range(0, TILE, LANES), moved, strict=True):
            _store(builder, sums_here, _at(builder, G, begin, at, 1))
            own = _load(builder, _at(builder, squared, begin, at), double)
            value = builder.fsub(own, builder.fmul(two, sums_here))
            if least is not None:
                less = builder.fcmp_ordered("<", value, least)
                value = builder.select(less, value, least)
            least = value
        low = builder.extract_element(least, ir.Constant(ir.IntType(32), 0))
        for lane in range(1, LANES):
            other = builder.extract_element(least, ir.Constant(ir.IntType(32), lane))
            low = builder.select(builder.fcmp_ordered("<", other, low), other, low)
        return low

    return types.float64(sums, grown, squared, tile), codegen


@njit(cache=True, nogil=True)
def move_on(sums, grown, squared, least):  # type: ignore[no-untyped-def]
    """``sums[j + 1] = sums[j] + grown[j]``, all at once.

    Parameters
    ----------
    sums : array of shape (n + 1,)
    grown : array of shape (n,), in single precision
    squared : array of shape (n,)
    least : array of shape (n / TILE,)
        Takes the least ``squared[j] - 2 sums[j + 1]`` of each tile.
    """
    for tile in range(len(least) - 1, -1, -1):
        least[tile] = _move_tile(sums, grown, squared, tile)


@njit(cache=True, nogil=True)
def increments(left, right, n_parts, out):  # type: ignore[no-untyped-def]
    """Rows of queries times all tiles of references, in single precision.

    Parameters
    ----------
    left : array of shape (m, C)
    right : array of shape (n_tiles, C, TILE)
    n_parts : int
        A sum is that of its parts, each over ``C / n_parts`` columns: shorter sums round less.
    out : array of shape (m, n_tiles * TILE)
    """
    m = len(left)
    whole = m - m % ROWS
    for tile in range(len(right)):
        for row in range(0, whole, ROWS):
            _four_rows(left, row, right, tile, n_parts, out)
        for row in range(whole, m):
            _one_row(left, row, right, tile, n_parts, out)


@njit(cache=True, nogil=True)
def lane_products(left, begin, n, right, row, out):  # type: ignore[no-untyped-def]
    """A vector times matrices that lie in lanes: ``out = left[begin : begin + n] @ right``.

    Parameters
    ----------
    left : array of shape (p,)
    begin, n : int
        What of it to take; n is a multiple of ``CHAINS``.
    right : array of shape (n_tiles, q, LANES)
        In single or double precision; the sums are in double.
    row : int
        The row of ``right`` that belongs to ``left[begin]``.
    out : array of shape (n_tiles * LANES,)
    """
    n_tiles = len(right)
    whole = n_tiles - n_tiles % CHAINS
    for tile in range(0, whole, CHAINS):
        _four_tiles(left, begin, right, tile, row, n, out)
    for tile in range(whole, n_tiles):
        _one_tile(left, begin, right, tile, row, n, out)


def in_lanes(matrix: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
    """A matrix (q, c) as ``lane_products`` takes it: (n_tiles, q, LANES), padded with zeros."""
    q, c = matrix.shape
    n_tiles = max(1, -(-c // LANES))
    padded = np.zeros((q, n_tiles * LANES))
    padded[:, :c] = matrix
    tiles = padded.reshape(q, n_tiles, LANES).transpose(1, 0, 2)
    return np.ascontiguousarray(tiles, dtype=dtype)
