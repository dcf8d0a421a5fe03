"""Progress reports from long computations.

A solver calls :func:`report`. A command that shows a progress bar wraps the solver in
:func:`listen`. Without a listener a report costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


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
