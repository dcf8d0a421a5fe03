"""Work that takes long: in threads of our own, and with word of how far it is.

Where loops stand between short matrix products, a product by several threads of linear algebra
wastes most of them. Here each thread makes its own products, and runs its own loops, which hold no
lock.

A solver calls :func:`report`. A command that shows a progress bar wraps the solver in
:func:`listen`. Without a listener a report costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, cast

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
MOST_THREADS = 8  # each thread has sums and products of its own, up to tens of megabytes


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def one_thread() -> AbstractContextManager[Any]:
    """Linear algebra in one thread: its rounding does not depend on how many there are."""
    return cast(AbstractContextManager[Any], _controller().limit(limits=1))


def n_threads() -> int:
    """How many threads the products of matrices may use now, up to eight."""
    return min(
        max((int(pool["num_threads"]) for pool in _controller().info()), default=1), MOST_THREADS
    )


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


@dataclass(frozen=True)
class Report:
    """Step ``step`` of at most ``total`` steps of a task, with figures such as the loss."""

    task: str
    step: int
    total: int
    figures: dict[str, float]


_listener: ContextVar[Callable[[Report], Any] | None] = ContextVar("listener", default=None)


@contextmanager
def listen(listener: Callable[[Report], Any]) -> Iterator[None]:
    """Send every report of the ``with`` block to ``listener``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(task: str, step: int, total: int, figures: dict[str, float]) -> None:
    """Report a step to the listener, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(Report(task, step, total, figures))
