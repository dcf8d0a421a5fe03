"""Compilation of loops by numba, with a cache on disk where there is a place for one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import njit
from numba.core import event
from numba.extending import intrinsic

NO_CACHE = (
    "compiled code cannot be kept, for neither mlat's folder nor the user's cache folder can be "
    "written to; every process compiles anew, which takes up to a minute or two; set "
    "NUMBA_CACHE_DIR to a folder that can be written to"
)
_has_warned = False


def jit(*, fastmath: bool | set[str] = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function at its first call. It runs without the interpreter's lock.

    Parameters
    ----------
    fastmath : bool or set of str, default=False
        Which rules of floating-point arithmetic may be broken. Always given to numba: a function
        that is silent about it inherits the setting of whichever caller compiles it first.

    Warns
    -----
    UserWarning
        Once, if there is no folder to cache compiled code in.
    """

    def compile_later(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, nogil=True, fastmath=fastmath)(function)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
        _warn_once()
        return njit(nogil=True, fastmath=fastmath)(function)

    return compile_later


def _warn_once() -> None:
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(NO_CACHE, UserWarning, stacklevel=2)


@intrinsic
def smaller(context, a, b):  # type: ignore[no-untyped-def]
    """The smaller of two numbers, neither NaN, for compiled loops.

    Of Python's ``min`` no vector code is made where a loop finds the least of many: it minds NaN.
    """

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        kind = given[0].type
        least = ir.FunctionType(kind, [kind, kind])
        found = builder.module.declare_intrinsic("llvm.minnum", [kind], least)
        return builder.call(found, given, fastmath=("nnan", "nsz"))

    return a(a, a), generate


@jit()
def copy_into(target, source):  # type: ignore[no-untyped-def]
    """``target[:] = source`` for rows of the same length, in compiled code.

    As an assignment it would compile the text of an error about shapes, too: a fifth of all.
    """
    for i in range(len(target)):
        target[i] = source[i]


@contextmanager
def say_compiling(say: Callable[[str], None]) -> Iterator[None]:
    """Say it before and after, if something in the block has to be compiled, not just loaded."""
    listener = _FirstCompilation(say)
    with event.install_listener("numba:compile", listener):
        yield
    if listener.began is not None:
        say(f"compiled in {time.monotonic() - listener.began:.0f} s")


class _FirstCompilation(event.Listener):  # type: ignore[misc]
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.began: float | None = None

    def on_start(self, event: Any) -> None:
        if self.began is None:
            self.began = time.monotonic()
            self._say("compiling, once; this takes up to a minute or two")

    def on_end(self, event: Any) -> None:
        pass
