"""Seconds per epoch and peak memory of DECADE and the siamese LSTM, on a device.

    python lab/benchmarks/deep_device.py [--device cuda] [--threads 1] [--batch-size 64 256 1024]

Windows of noise around a mean per label, as many as a person of the paper's sets has (2,500 of ten
steps), with 3, 8 and 27 channels. An epoch is the difference of a fit of many epochs and a fit of
one, so loading, the first allocations and the search do not count; validation does. Beside the
clock's seconds stand the processor's, which a busy machine does not change. Memory is the
peak of the process on the CPU, PyTorch and NumPy included (it never falls, so the first rows tell
most), and the peak that PyTorch allocated on a CUDA device.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import warnings
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mlat.base.errors import MlatError, require_package
from mlat_lab.rivals.decade import DECADE
from mlat_lab.rivals.networks import pick_device
from mlat_lab.rivals.siamese import SiameseLSTM

ESTIMATORS = {"DECADE": DECADE, "SiameseLSTM": SiameseLSTM}
N_LABELS = 5


def make_windows(n: int, width: int, n_channels: int) -> tuple[Any, Any]:
    """Labelled windows in runs, so that there is a validation block to cut off."""
    rng = np.random.default_rng(0)
    y = np.sort(np.arange(n) % N_LABELS)
    X = rng.normal(size=(n, width, n_channels)) + rng.normal(size=(N_LABELS, 1, n_channels))[y]
    return X, y


def seconds(torch: Any, device: Any, estimator: Any, X: Any, y: Any, n_epochs: int) -> Any:
    """Of a fit, by the clock and of the processor."""
    began, busy = time.perf_counter(), time.process_time()
    estimator.set_params(max_iter=n_epochs, patience=n_epochs).fit(X, y)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return np.array([time.perf_counter() - began, time.process_time() - busy])


def peak_mib(torch: Any, device: Any) -> float:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    in_bytes = sys.platform == "darwin"
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if in_bytes else 2**10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help='such as "cuda" (default: cpu)')
    parser.add_argument("--estimator", nargs="+", choices=ESTIMATORS, default=list(ESTIMATORS))
    parser.add_argument("--windows", type=int, default=2500)
    parser.add_argument("--width", type=int, default=10)
    parser.add_argument("--channels", type=int, nargs="+", default=[3, 8, 27])
    parser.add_argument(
        "--batch-size", type=int, nargs="+", default=[0], help="default: the estimator's own"
    )
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=None, help="of PyTorch (default: its own)")
    arguments = parser.parse_args()

    torch = require_package("torch", "deep", "this benchmark", title="PyTorch")
    device = pick_device(torch, arguments.device)
    what = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    threads = arguments.threads or torch.get_num_threads()
    table = Table(
        *["system", "windows", "channels", "batch", "s/epoch", "CPU s/epoch", "fit of one, s"],
        *["predict, s", "peak MiB"],
        title=f"{what}, PyTorch {torch.__version__}, {threads} threads",
    )
    for name in arguments.estimator:
        for n_channels in arguments.channels:
            X, y = make_windows(arguments.windows, arguments.width, n_channels)
            for batch_size in arguments.batch_size:
                estimator = ESTIMATORS[name](
                    device=arguments.device, n_jobs=arguments.threads, random_state=0
                )
                if batch_size:
                    estimator.set_params(batch_size=batch_size)
                if device.type == "cuda":
                    torch.cuda.reset_peak_memory_stats(device)
                seconds(torch, device, estimator, X, y, 1)  # compiles and allocates
                one = seconds(torch, device, estimator, X, y, 1)
                many = seconds(torch, device, estimator, X, y, 1 + arguments.epochs)
                epoch, busy = (many - one) / arguments.epochs
                began = time.perf_counter()
                estimator.predict(X)
                table.add_row(
                    *[name, str(len(X)), str(n_channels), str(estimator.batch_size)],
                    *[f"{epoch:.3f}", f"{busy:.3f}", f"{one[0]:.2f}"],
                    f"{time.perf_counter() - began:.2f}",
                    f"{peak_mib(torch, device):.0f}",
                )
    Console(width=110).print(table)


if __name__ == "__main__":
    warnings.simplefilter("error", UserWarning)  # a fit without validation would not compare
    try:
        main()
    except MlatError as error:
        sys.exit(f"deep_device: {error}")
