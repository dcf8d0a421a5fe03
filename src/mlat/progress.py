"""Word from long work to whoever wants to show it, without the mathematics knowing of screens.

A solver reports; a command that shows a bar listens. Nobody listening costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Report:
    """Step ``step`` of at most ``total`` of a task, with its figures."""

    task: str
    step: int
    total: int
    figures: dict[str, float]


_listener: ContextVar[Callable[[Report], Any] | None] = ContextVar("listener", default=None)


@contextmanager
def listen(listener: Callable[[Report], Any]) -> Iterator[None]:
    """Send every report made inside the ``with`` block to ``listener``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(task: str, step: int, total: int, figures: dict[str, float]) -> None:
    listener = _listener.get()
    if listener is not None:
        listener(Report(task, step, total, figures))
