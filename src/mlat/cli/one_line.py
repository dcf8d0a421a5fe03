"""Errors of the commands: one line on standard error, exit status 2, no traceback."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..base.errors import MlatError

BAD_INPUT = 2
INTERRUPTED = 130
PIPE_CLOSED = 1

_REMEDIES = {
    errno.ENOSPC: "free some space, or choose another place",
    errno.EDQUOT: "free some space, or choose another place",
    errno.EACCES: "choose a place you have the right to",
    errno.EPERM: "choose a place you have the right to",
    errno.EROFS: "choose a place that can be written to",
    errno.ENOENT: "check the name",
}


def run_in_one_line(program: Callable[[], None]) -> None:
    """Run a program from its imports on: warnings in one line each, and no traceback for Ctrl-C."""
    try:
        _open_closed_streams()
        _interrupt_outside_llvm()
        with _warnings_in_one_line():
            program()
    except KeyboardInterrupt:
        _say("interrupted")
        sys.exit(INTERRUPTED)


class OneLineCommand(TyperCommand):
    """A command whose help says nothing of the type of a flag, which takes no value."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _hide_types_of_flags(self, ctx)
        super().format_help(ctx, formatter)


class OneLineGroup(TyperGroup):
    """The commands, with every error printed as one line on stderr."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _hide_types_of_flags(self, ctx)
        super().format_help(ctx, formatter)

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        try:
            if hasattr(sys.stdout, "reconfigure"):
                sys.stdout.reconfigure(errors="replace")  # characters that a terminal cannot show
            with _warnings_in_one_line():
                status = super().main(*args, **{**extra, "standalone_mode": False})
                sys.stdout.flush()
        except BrokenPipeError:  # the reader has seen enough
            _let_the_last_flush_succeed()
            status = PIPE_CLOSED
        except Exception as error:
            line = line_for(error)
            if isinstance(error, OSError) and error.errno == errno.EBADF:
                _let_the_last_flush_succeed()
            if line is None:
                raise
            if line:
                _say(line)
            status = BAD_INPUT
        if standalone_mode:
            sys.exit(status if isinstance(status, int) else 0)
        return status

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # here, for typer versions differ in what they make of it
            _say("interrupted")
            raise typer.Exit(INTERRUPTED) from None


def _say(line: str) -> None:
    with suppress(OSError, ValueError):  # nobody can read it: the status still tells
        print(f"mlat: {line}", file=sys.stderr, flush=True)


def line_for(error: Exception) -> str | None:
    """The line of an error; None for an error in the program itself."""
    if isinstance(error, MlatError):
        return " ".join(str(error).split())
    if isinstance(error, MemoryError):
        said = " ".join(str(error).split())
        return (
            f"not enough memory{f' ({said})' if said else ''}; take fewer channels, a smaller "
            "--width or a larger --stride"
        )
    if isinstance(error, OSError):
        if error.errno == errno.EBADF and error.filename is None:
            return f"standard output is closed; send it to a file, or to {os.devnull}"
        where = f"{error.filename}: " if error.filename is not None else ""
        said = error.strerror or (str(error).splitlines() or [type(error).__name__])[0]
        remedy = _REMEDIES.get(error.errno or 0)
        return where + said + (f"; {remedy}" if remedy else "")
    if type(error).__name__ == "NoArgsIsHelpError":  # not an error, and help is not one line
        error.show()  # type: ignore[attr-defined]
        return ""
    # Typer's usage errors have come from different modules over time; all format a message.
    if hasattr(error, "format_message"):
        said = " ".join(str(error.format_message()).split()).rstrip(".")
        said = said.replace("Value error, ", "")  # the parser's own word for any wrong value
        context = getattr(error, "ctx", None)
        return said + (f"; see {context.command_path} --help" if context is not None else "")
    return None


def _hide_types_of_flags(command: Any, ctx: Any) -> None:
    for option in command.get_params(ctx):
        if getattr(option, "is_flag", False):
            option.metavar = ""


def _open_closed_streams() -> None:
    """Put something in the place of a standard stream that whoever started us has closed.

    Else a file that is opened later would take its place, and be written to by mistake. What goes
    to a closed standard output is an error; messages are dropped as was wished.
    """
    for name, mode, flags in (
        ("stdin", "r", os.O_RDONLY),
        ("stdout", "w", os.O_RDONLY),  # not for writing, so that writing fails
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, flags), mode))  # noqa: SIM115


def _interrupt_outside_llvm() -> None:
    """Let Ctrl-C wait for the moment until LLVM returns.

    It calls back into Python, where an exception is lost: the program would go on as if nothing had
    happened, or end with an error of the compiler's.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        within = frame
        while within is not None:
            if within.f_globals.get("__name__", "").startswith("llvmlite.binding"):
                again = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
                again.daemon = True
                again.start()
                return
            within = within.f_back
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)


def _let_the_last_flush_succeed() -> None:
    """Python flushes standard output once more at exit, which would fail, too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        _say(f"warning: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
