"""Errors by kind. Every message is one line: what is wrong, where, and what to do.

The command line prints that line and exits with status 2.
"""

from __future__ import annotations

import importlib
from typing import Any


class MlatError(Exception):
    """Base class of the errors that mlat explains."""


class InputError(MlatError, ValueError):
    """The input is wrong. A ``ValueError``, as scikit-learn's conventions want it."""


class NamesError(InputError):
    """A column holds names where numbers belong, as one of states that is not given as such.

    Attributes
    ----------
    column : str
    """

    column = ""


class DiskError(MlatError):
    """A file or folder cannot be read or written: a full disk, missing rights, in use."""


class WorkerError(MlatError, RuntimeError):
    """A worker process or machine died, or has too little memory."""


class ServiceError(MlatError, RuntimeError):
    """A broker, a scheduler or a port cannot be reached or used."""


class MissingPackageError(MlatError, ImportError):
    """A package that only an extra installs is not installed."""


def require_package(
    package: str, extra: str, what: str, *, title: str | None = None, of: str = "mlat"
) -> Any:
    """Import a package that an extra installs.

    Parameters
    ----------
    package : str
        Such as "torch".
    extra : str
        The extra that installs it.
    what : str
        What needs it, for the message.
    title : str, optional
        The package's name in the message; default ``package``.
    of : str
        The distribution that has the extra.

    Raises
    ------
    MissingPackageError
        If it is not installed, or cannot be loaded.
    """
    title = title or package
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] != package.split(".")[0]:
            raise
        raise MissingPackageError(
            f"{what} needs {title}; install it: pip install '{of}[{extra}]'"
        ) from None
    except (OSError, RuntimeError) as error:  # such as pylsl without its library
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise MissingPackageError(
            f"{what} needs {title}, which cannot be loaded: {reason}"
        ) from None
