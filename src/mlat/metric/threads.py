"""Threads of our own in place of those of linear algebra.

Where loops stand between short matrix products, a product by several threads wastes most of them.
Here each thread makes its own products, and runs its own loops, which hold no lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar, cast

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
MOST = 8  # each thread has sums and products of its own, up to tens of megabytes


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def one_thread() -> AbstractContextManager[Any]:
    """Linear algebra in one thread: its rounding does not depend on how many there are."""
    return cast(AbstractContextManager[Any], _controller().limit(limits=1))


def n_threads() -> int:
    """How many threads the products of matrices may use now, up to eight."""
    return min(max((int(pool["num_threads"]) for pool in _controller().info()), default=1), MOST)


def run_each(function: Callable[[T], Any], items: Iterable[T], n: int) -> None:
    """Call a function with each item, in n threads with one thread of linear algebra each."""
    if n <= 1:
        for item in items:
            function(item)
        return
    with _controller().limit(limits=1), ThreadPoolExecutor(n) as pool:
        try:
            for _ in pool.map(function, items):
                pass
        except BaseException:  # an interrupt, too: what has not begun is not waited for
            pool.shutdown(cancel_futures=True)
            raise
