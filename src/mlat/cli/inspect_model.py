"""``mlat inspect``: what the metric of a model learned, as text and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table

from .. import learned, toeplitz
from ..classifier import StreamClassifier
from ..estimators import MLAT
from ..files.model_file import load
from .output import make_folder
from .predict import ModelFile
from .show import console, size_of

MAX_LAGS = 24  # rows of the table by lag; wider windows are shown in groups of lags
MAX_CHANNELS = 20
N_EIGENVALUES = 8


def inspect_model(
    model: ModelFile,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Where to write the pictures; default MODEL-pictures."
        ),
    ] = None,
    pictures: Annotated[bool, typer.Option(help="Write pictures at all.")] = True,
) -> None:
    """Show what a model learned: its weights by lag and by channel, and its eigenvalues."""
    classifier = load(model)
    screen = console()
    _print_model(screen, classifier, model)
    metric = classifier.metric_
    if metric is None:
        screen.print("Distance: Euclidean. Nothing was learned, so there is nothing to draw.")
        return
    blocks = learned.blocks_of(metric)
    _print_solution(screen, metric)
    screen.print(_lag_table(blocks))
    screen.print(_in_words(blocks), soft_wrap=True)
    screen.print(_channel_table(blocks, classifier.channels_))
    _print_spectrum(screen, metric)
    if pictures:
        folder = make_folder(out or Path(f"{model.stem}-pictures"))
        from ..plots import plot_blocks, plot_history, save_figure

        save_figure(plot_blocks(metric, channels=classifier.channels_), folder / "blocks.png")
        save_figure(plot_history(metric), folder / "history.png")
        screen.print(f"Pictures: {folder / 'blocks.png'}, {folder / 'history.png'}", soft_wrap=True)


def _print_model(screen: Console, classifier: StreamClassifier, file: Path) -> None:
    screen.print(
        f"{file} ({size_of(file.stat().st_size)}): windows of {classifier.width} steps of "
        f"{classifier.n_channels_} channels, {classifier.n_neighbors} nearest",
        soft_wrap=True,
    )
    table = Table("state")
    table.add_column("references", justify="right")
    for state in classifier.classes_:
        table.add_row(str(state), str(int((classifier.windows_.y == state).sum())))
    screen.print(table)


def _print_solution(screen: Console, metric: Any) -> None:
    if isinstance(metric, MLAT):
        name = f"MLAT, solver {metric.solver}: block Toeplitz"
        if metric.solver == "admm":
            off = _toeplitz_residual(metric)
            name += "" if off is None else f" up to a relative residual of {off:.2g}"
    else:
        off = _toeplitz_residual(metric)
        name = "LMNN: not block Toeplitz"
        if off is not None:
            name += f", relative residual {off:.2g}; the nearest metric that is stands below"
    screen.print(f"Metric: {name}.", soft_wrap=True)
    state = "converged" if metric.converged_ else "not converged"
    screen.print(
        f"Loss {metric.loss_:.4g} after {metric.n_iter_} iterations; {state}: {metric.message_}.",
        soft_wrap=True,
    )


def _toeplitz_residual(metric: Any) -> float | None:
    if metric.width_ * metric.n_channels_ > learned.MAX_SIZE:
        return None
    return toeplitz.residual(metric.metric_, metric.width_)


def _lag_table(blocks: NDArray[np.float64]) -> Table:
    """The size of the blocks by lag; of many lags, the root mean square of each group."""
    norms = learned.lag_norms(blocks)
    groups = np.array_split(np.arange(len(norms)), min(len(norms), MAX_LAGS))
    sizes = [float(np.sqrt((norms[group] ** 2).mean())) for group in groups]
    table = Table("lag", title="By lag: size of the block", title_justify="left")
    table.add_column("size", justify="right")
    table.add_column("against the largest")
    for group, size in zip(groups, sizes, strict=True):
        name = str(group[0]) if len(group) == 1 else f"{group[0]}–{group[-1]}"
        table.add_row(name, f"{size:.3g}", _bar(size, max(sizes)))
    return table


def _in_words(blocks: NDArray[np.float64]) -> str:
    shares = learned.lag_shares(blocks)
    if len(shares) == 1:
        return "Windows of one step have no lags: every step is judged on its own."
    norms = learned.lag_norms(blocks)
    strongest = 1 + int(np.argmax(norms[1:]))
    return (
        f"Dependence between different moments makes up {1 - shares[0]:.0%} of the metric "
        f"(squared norm); the strongest lag after 0 is {strongest}. A Euclidean distance has 0%."
    )


def _channel_table(blocks: NDArray[np.float64], channels: tuple[str, ...]) -> Table:
    shares = learned.channel_shares(blocks)
    order = np.argsort(-shares, kind="stable")
    title = "By channel: share in the weight of single steps"
    if len(order) > MAX_CHANNELS:
        title += f" (the {MAX_CHANNELS} largest of {len(order)})"
    table = Table("channel", title=title, title_justify="left")
    table.add_column("share", justify="right")
    table.add_column("against the largest")
    for channel in order[:MAX_CHANNELS]:
        share = float(shares[channel])
        table.add_row(channels[channel], f"{share:.1%}", _bar(share, float(shares.max())))
    return table


def _bar(value: float, largest: float) -> ProgressBar:
    # Rich's own progress bar falls back to plain characters where a terminal has no others.
    return ProgressBar(total=largest or 1.0, completed=max(value, 0.0), width=30)


def _print_spectrum(screen: Console, metric: Any) -> None:
    size = metric.width_ * metric.n_channels_
    found = learned.spectrum(metric)
    if found is None:
        screen.print(
            f"Eigenvalues: left out, for the matrix would have {size} by {size} entries "
            f"(more than {learned.MAX_SIZE} by {learned.MAX_SIZE})."
        )
        return
    leading = ", ".join(f"{value:.3g}" for value in found.eigenvalues[:N_EIGENVALUES])
    more = ", …" if size > N_EIGENVALUES else ""
    screen.print(
        f"Eigenvalues: {leading}{more}; effective rank {found.effective_rank:.1f} of {size}.",
        soft_wrap=True,
    )
