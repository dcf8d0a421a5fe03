"""A device of PyTorch, how accurate its products are, and work on it that is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


class Recorded:
    """What a function of a tensor starts on a GPU, recorded once and replayed for others.

    For many short kernels, which take less time than to start them one by one. The function must
    not wait for the device.

    Parameters
    ----------
    function : callable
        Gives tensors.
    x : tensor
        The shape of all that follow.
    """

    def __init__(self, function: Callable[[Any], tuple[Any, ...]], x: Any) -> None:
        import torch

        self._given = x.clone()
        here, aside = torch.cuda.current_stream(x.device), torch.cuda.Stream(x.device)
        aside.wait_stream(here)
        with torch.cuda.stream(aside):  # libraries take their memory in a first run, unrecorded
            for _ in range(2):
                function(self._given)
        here.wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._result = function(self._given)

    def __call__(self, x: Any) -> tuple[Any, ...]:
        """Of x; the next call uses the memory of the result again."""
        self._given.copy_(x)
        self._graph.replay()
        return self._result
