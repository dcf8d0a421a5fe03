"""A device of PyTorch, and how accurate its products are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from ..base.errors import InputError, require_package


def open_device(name: str, what: str) -> Any:
    """The device that PyTorch names so, such as ``"cuda"`` or ``"cpu"``.

    Raises
    ------
    InputError
        If PyTorch has no such device here.
    MissingPackageError
        Without PyTorch, which ``what`` needs.
    """
    require_package("torch", "deep", what)
    import torch

    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"PyTorch cannot use the device {name!r} here: {reason}") from None
    return device


@contextmanager
def products(accuracy: Literal["highest", "high"]) -> Iterator[None]:
    """Products of single precision: ``"high"`` may use matrix units, which keep fewer digits."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(accuracy)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
