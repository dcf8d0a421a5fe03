"""Seconds per epoch and peak memory of DECADE and the siamese LSTM, on a device.

Windows of noise around a mean per label, as many as a person of the paper's sets has (2,500 of ten
steps), with 3, 8 and 27 channels. An epoch is the difference of a fit of many epochs and a fit of
one, so loading, the first allocations and the search do not count; validation does. Beside the
clock's seconds stand the processor's, which a busy machine does not change. Memory is the peak of
the process on the CPU, PyTorch and NumPy included (it never falls, so the first rows tell most),
and the peak that PyTorch allocated on a CUDA device.
"""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import numpy as np
import typer

from mlat.base.errors import InputError, require_package

from ..rivals.decade import DECADE
from ..rivals.networks import pick_device
from ..rivals.siamese import SiameseLSTM
from .harness import Bench, Row, Stopwatch, peak_mb

ESTIMATORS = {"DECADE": DECADE, "SiameseLSTM": SiameseLSTM}
N_LABELS = 5


def make_windows(n: int, width: int, n_channels: int) -> tuple[Any, Any]:
    """Labelled windows in runs, so that there is a validation block to cut off."""
    rng = np.random.default_rng(0)
    y = np.sort(np.arange(n) % N_LABELS)
    X = rng.normal(size=(n, width, n_channels)) + rng.normal(size=(N_LABELS, 1, n_channels))[y]
    return X, y


def epochs(
    bench: Bench,
    device: Annotated[str, typer.Option(help="As PyTorch names it.")] = "cpu",
    system: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(ESTIMATORS)}; default both.")
    ] = None,
    windows: Annotated[int, typer.Option(min=10)] = 2500,
    width: Annotated[int, typer.Option(min=1)] = 10,
    channels: Annotated[list[int] | None, typer.Option(help="Default 3, 8 and 27.")] = None,
    batch_size: Annotated[list[int] | None, typer.Option(help="Default the system's own.")] = None,
    n_epochs: Annotated[int, typer.Option("--epochs", min=1)] = 10,
    threads: Annotated[int | None, typer.Option(help="Of PyTorch; default its own.")] = None,
) -> None:
    """Networks: seconds per epoch and peak memory of DECADE and the siamese LSTM, on a device."""
    torch = require_package("torch", "deep", "this benchmark", title="PyTorch")
    where = pick_device(torch, device)
    on_gpu = where.type == "cuda"

    def fit(estimator: Any, n: int) -> Any:
        with Stopwatch() as spent:
            estimator.set_params(max_iter=n, patience=n).fit(X, y)
            if on_gpu:
                torch.cuda.synchronize(where)
        return np.array([spent.clock, spent.cpu])

    rows = []
    for name in system or ESTIMATORS:
        if name not in ESTIMATORS:
            raise InputError(f"no system {name!r}; there are {', '.join(ESTIMATORS)}")
        for d in channels or [3, 8, 27]:
            X, y = make_windows(windows, width, d)
            for size in batch_size or [0]:
                estimator = ESTIMATORS[name](device=device, n_jobs=threads, random_state=0)
                if size:
                    estimator.set_params(batch_size=size)
                if on_gpu:
                    torch.cuda.reset_peak_memory_stats(where)
                with warnings.catch_warnings():
                    warnings.simplefilter("error", UserWarning)  # without validation: not the same
                    fit(estimator, 1)  # compiles and allocates
                    one, many = fit(estimator, 1), fit(estimator, 1 + n_epochs)
                with Stopwatch() as predicted:
                    estimator.predict(X)
                peak = torch.cuda.max_memory_allocated(where) / 1e6 if on_gpu else peak_mb()
                clock, cpu = ((many - one) / n_epochs).tolist()
                row: Row = {"system": name, "windows": len(X), "channels": d}
                row |= {"batch": estimator.batch_size, "s/epoch": clock, "CPU_s/epoch": cpu}
                row |= {"fit_of_one_s": float(one[0]), "predict_s": predicted.clock}
                rows.append({**row, "peak_MB": peak})
                bench.keep(rows)
    what = torch.cuda.get_device_name(where) if on_gpu else "CPU"
    title = f"{what}, PyTorch {torch.__version__}, {threads or torch.get_num_threads()} threads"
    bench.table(title, rows)
