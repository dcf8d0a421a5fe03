"""The loss of many windows on a device of PyTorch: seconds, memory, and a whole fit."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from ...checks import Ints
from ...errors import require_package
from ...metric.filter import default_taps, initial_taps, solve_filter
from ...metric.problem import Problem
from ...metric.torch_problem import TorchProblem
from ...stream.windows import Windows, sliding_windows
from .live import recording
from .output import bench_console, table, write_json

N_TARGETS, GAP = 3, 10
BLOCK = 2048


@dataclass(frozen=True)
class Row:
    """One problem; seconds, and bytes of the device at most (0 where it does not tell)."""

    n_windows: int
    width: int
    targets: float
    loss: float
    fit: float
    n_iter: int
    n_bytes: int


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
    began = time.perf_counter()
    targets = nearest_targets(windows, codes, device)
    found = time.perf_counter() - began
    plain = Problem(windows.X, codes, targets, windows.start, windows.run)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    problem = TorchProblem(plain, device)
    taps = initial_taps(problem, default_taps(width), channels)
    loss = problem.filter_loss(*taps.shape[:2])
    taken = []
    for _ in range(6):  # the first prepares the device
        began = time.perf_counter()
        loss(taps)
        taken.append(time.perf_counter() - began)
    began = time.perf_counter()
    solution = solve_filter(problem, max_iter=100, tol=1e-5)
    fitted = time.perf_counter() - began
    n_bytes = torch.cuda.max_memory_allocated() if on_gpu else 0
    return Row(len(codes), width, found, min(taken[1:]), fitted, solution.n_iter, n_bytes)


def show(rows: list[Row], device: str, channels: int, console: Console) -> None:
    """Print the table."""
    headings = ["windows", "steps", "targets", "one loss", "whole fit", "iterations", "memory"]
    cells = [
        [
            *(f"{row.n_windows:,}", str(row.width), f"{row.targets:.2f} s"),
            *(f"{1e3 * row.loss:.1f} ms", f"{row.fit:.1f} s", str(row.n_iter)),
            f"{row.n_bytes / 2**30:.1f} GiB" if row.n_bytes else "–",
        ]
        for row in rows
    ]
    title = f"Learning on {device}, {channels} channels, all pairs of windows"
    console.print(table(title, headings, cells, left=0))


def main(
    device: Annotated[str, typer.Option(help="As PyTorch names it.")] = "cuda",
    windows: Annotated[list[int] | None, typer.Option(help="How many; several times.")] = None,
    widths: Annotated[list[int] | None, typer.Option(help="Steps; several times.")] = None,
    channels: Annotated[int, typer.Option(help="Of each step.")] = 27,
    out: Annotated[Path | None, typer.Option(help="Write the figures to this JSON file.")] = None,
) -> None:
    """Device: one loss and gradient over all pairs of windows, and a whole fit."""
    require_package("torch", "deep", "a fit on a device")
    console = bench_console()
    rows = [
        measure(n, width, channels, device)
        for n in windows or [3500, 100_000]
        for width in widths or [10, 50]
    ]
    show(rows, device, channels, console)
    write_json(out, {"device": device, "channels": channels, "rows": [asdict(r) for r in rows]})
