"""A device of PyTorch: the loss of many windows, and a whole fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
import typer

from mlat.base.checks import Ints
from mlat.base.errors import require_package
from mlat.metric.problem import Problem
from mlat.metric.solvers import default_taps, initial_taps, solve_filter
from mlat.metric.torch_problem import TorchProblem
from mlat.stream.windows import Windows, sliding_windows

from .fit import recording
from .harness import Bench, Row, Stopwatch

N_TARGETS, GAP = 3, 10
BLOCK = 2048


def nearest_targets(windows: Windows, codes: Ints, device: str) -> Ints:
    """The nearest windows of the same state, more than a window away, on the device."""
    import torch

    found = np.empty((len(codes), N_TARGETS), np.int64)
    flat = windows.X.reshape(len(codes), -1)
    for state in np.unique(codes):
        rows = np.flatnonzero(codes == state)
        points = torch.as_tensor(flat[rows] - flat.mean(axis=0), dtype=torch.float32, device=device)
        squares = (points * points).sum(dim=1)
        start = torch.as_tensor(windows.start[rows], device=device)
        for i in range(0, len(rows), BLOCK):
            D = squares - 2 * points[i : i + BLOCK] @ points.T
            near = (start[i : i + BLOCK, None] - start).abs() < max(GAP, windows.width)
            nearest = D.masked_fill_(near, torch.inf).topk(N_TARGETS, largest=False).indices
            found[rows[i : i + BLOCK]] = rows[nearest.cpu().numpy()]
    return found


def measure(n: int, width: int, channels: int, device: str) -> Row:
    """One loss with its gradient, the best of five, and a whole fit."""
    import torch

    on_gpu = torch.device(device).type == "cuda"
    stream = recording(-(-n // 5) + width - 1, channels)
    windows = sliding_windows(stream, width)
    codes = np.unique(windows.y, return_inverse=True)[1]
    with Stopwatch() as found:
        targets = nearest_targets(windows, codes, device)
    plain = Problem(replace(windows, y=codes), targets)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    problem = TorchProblem(plain, device)
    taps = initial_taps(problem, default_taps(width), channels)
    loss = problem.filter_loss()
    taken = []
    for _ in range(6):  # the first prepares the device
        with Stopwatch() as spent:
            loss(taps)
        taken.append(spent.clock)
    with Stopwatch() as fitted:
        solution = solve_filter(problem, max_iter=100, tol=1e-5)
    return {
        "windows": len(codes),
        "steps": width,
        "targets_s": found.clock,
        "one_loss_ms": 1e3 * min(taken[1:]),
        "whole_fit_s": fitted.clock,
        "iterations": solution.n_iter,
        "memory_GiB": torch.cuda.max_memory_allocated() / 2**30 if on_gpu else None,
    }


def on_device(
    bench: Bench,
    device: Annotated[str, typer.Option(help="As PyTorch names it.")] = "cuda",
    windows: Annotated[list[int] | None, typer.Option(help="How many; several times.")] = None,
    widths: Annotated[list[int] | None, typer.Option(help="Steps; several times.")] = None,
    channels: Annotated[int, typer.Option(help="Of each step.")] = 27,
) -> None:
    """Device: one loss over all pairs of windows, and a whole fit."""
    require_package("torch", "deep", "a fit on a device")
    sizes = [(n, width) for n in windows or [3500, 100_000] for width in widths or [10, 50]]
    rows = [measure(n, width, channels, device) for n, width in sizes]
    bench.table(f"Learning on {device}, {channels} channels, all pairs of windows", rows, left=0)
    bench.keep({"device": device, "channels": channels, "rows": rows})
