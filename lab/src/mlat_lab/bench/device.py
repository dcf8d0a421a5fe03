"""A device of PyTorch: the loss of many windows, a whole fit, and a search among references."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from mlat.base.checks import Ints
from mlat.base.errors import require_package
from mlat.metric.filter import default_taps, initial_taps, solve_filter
from mlat.metric.problem import Problem
from mlat.metric.torch_problem import TorchProblem
from mlat.neighbours.search import ClassDistances
from mlat.stream.windows import Windows, sliding_windows

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


@dataclass(frozen=True)
class Search:
    """Windows compared with references: seconds on the device and on the processor."""

    n_references: int
    n_windows: int
    width: int
    on_device: float
    on_processor: float
    same: bool


def measure_search(n: int, m: int, width: int, channels: int, device: str) -> Search:
    """The nearest reference of every state, for windows of another stream."""
    references = sliding_windows(recording(-(-n // 5) + width - 1, channels), width)
    asked = sliding_windows(recording(-(-m // 5) + width - 1, channels, seed=1), width)
    codes = np.unique(references.y, return_inverse=True)[1]
    search = ClassDistances(references.X.reshape(len(codes), -1), codes, int(codes.max()) + 1)
    points = asked.X.reshape(len(asked), -1)
    taken, found = [], []
    for where in (device, None):
        search.query_rows(points[:100], device=where)  # prepares both
        began = time.perf_counter()
        found.append(search.query_rows(points, device=where))
        taken.append(time.perf_counter() - began)
    same = all(np.array_equal(one, other) for one, other in zip(*found, strict=True))
    return Search(len(codes), len(asked), width, taken[0], taken[1], same)


def show(
    rows: list[Row], searches: list[Search], device: str, channels: int, console: Console
) -> None:
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
    headings = ["references", "windows", "steps", device, "processor", "same to the last bit"]
    cells = [
        [
            *(f"{one.n_references:,}", f"{one.n_windows:,}", str(one.width)),
            *(f"{one.on_device:.2f} s", f"{one.on_processor:.2f} s", "yes" if one.same else "NO"),
        ]
        for one in searches
    ]
    if cells:
        title = f"The nearest reference of every state, {channels} channels"
        console.print(table(title, headings, cells, left=0))


def main(
    device: Annotated[str, typer.Option(help="As PyTorch names it.")] = "cuda",
    windows: Annotated[list[int] | None, typer.Option(help="How many; several times.")] = None,
    widths: Annotated[list[int] | None, typer.Option(help="Steps; several times.")] = None,
    channels: Annotated[int, typer.Option(help="Of each step.")] = 27,
    asked: Annotated[int, typer.Option(help="Windows to predict; 0 leaves that out.")] = 20_000,
    out: Annotated[Path | None, typer.Option(help="Write the figures to this JSON file.")] = None,
) -> None:
    """Device: one loss over all pairs of windows, a whole fit, and a search among them."""
    require_package("torch", "deep", "a fit on a device")
    console = bench_console()
    rows = [
        measure(n, width, channels, device)
        for n in windows or [3500, 100_000]
        for width in widths or [10, 50]
    ]
    searches = [
        measure_search(n, asked, width, channels, device)
        for n in (windows or [3500, 100_000] if asked else [])
        for width in widths or [10, 50]
    ]
    show(rows, searches, device, channels, console)
    figures = {"rows": [asdict(r) for r in rows], "searches": [asdict(s) for s in searches]}
    write_json(out, {"device": device, "channels": channels, **figures})
