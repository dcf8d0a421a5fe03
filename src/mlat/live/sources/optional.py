"""Packages that only some sources need."""

from __future__ import annotations

import importlib
from typing import Any

from ...errors import InputError


def need(package: str, what: str) -> Any:
    """The module, imported on use; `InputError` with the remedy where it is not installed."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise InputError(f"{what} needs {package}; install it: pip install 'mlat[live]'") from None
    except (OSError, RuntimeError) as error:  # pylsl without its library
        why = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        raise InputError(f"{what} needs {package}, which cannot be loaded: {why}") from None
