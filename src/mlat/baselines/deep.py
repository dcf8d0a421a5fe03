"""PyTorch on use: whether it is there, on which device, with how many threads.

Nothing here imports it at the top: a library without the extra ``deep`` must still load. Nothing
draws from PyTorch's own random numbers either; they all come from the estimator's
``random_state``, so the caller's stay untouched and every device starts from the same network.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from ..errors import InputError

Weights = dict[str, NDArray[Any]]


def require_torch(who: str) -> Any:
    """The module ``torch``, or one line about how to install it."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise InputError(f"{who} needs PyTorch; install it: pip install 'mlat[deep]'") from None


def pick_device(torch: Any, name: Any) -> Any:
    """The device of that name, such as "cpu", "cuda" or "cuda:1", if it can be used."""
    try:
        device = torch.device(name)
        # Only using a device tells whether it is there; "meta" computes, but gives nothing back.
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError):
        raise InputError(
            f"there is no device {name!r}; PyTorch {torch.__version__} finds "
            f"{', '.join(_devices(torch))}"
        ) from None
    return device


def _devices(torch: Any) -> list[str]:
    names = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        names.append("mps")
    return names


@contextmanager
def limited_threads(torch: Any, n_jobs: int | None) -> Iterator[None]:
    """At most ``n_jobs`` threads (-1: one per processor) inside; None leaves them as they are."""
    if n_jobs is None:
        yield
        return
    before = torch.get_num_threads()
    # Also where it is the number already: under threadpoolctl's limits PyTorch reads OpenMP's
    # number here while its own is another, and the two together cost thirty times the time.
    torch.set_num_threads(effective_n_jobs(n_jobs))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def exact_dtype(torch: Any, device: Any) -> Any:
    """Double precision where the device has it, for results that do not depend on the batch."""
    return torch.float32 if device.type == "mps" else torch.float64


def take_weights(network: Any) -> Weights:
    """A copy of a network's weights that needs neither PyTorch nor the device."""
    return {name: w.detach().cpu().numpy().copy() for name, w in network.state_dict().items()}


def put_weights(torch: Any, network: Any, weights: Mapping[str, NDArray[Any]]) -> Any:
    """The network itself, with these weights."""
    network.load_state_dict({name: torch.from_numpy(w) for name, w in weights.items()})
    return network


def glorot(rng: np.random.RandomState, n_out: int, n_in: int) -> NDArray[np.float32]:
    """Weights of a layer, shape (n_out, n_in), uniform as Glorot & Bengio (2010) have them."""
    limit = np.sqrt(6.0 / (n_out + n_in))
    return rng.uniform(-limit, limit, size=(n_out, n_in)).astype(np.float32)
