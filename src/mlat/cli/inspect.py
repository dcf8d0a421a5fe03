"""``mlat inspect``: what a model learned, as text and pictures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress_bar import ProgressBar
from rich.table import Table

from ..base.errors import InputError
from ..classifier.classifier import StreamClassifier
from ..classifier.model_file import load
from ..explain import Expert, experts_of, learned
from ..metric import toeplitz
from ..metric.embedding import Mahalanobis, unmix_blocks
from ..metric.estimators import MLAT
from ..metric.forest import Forest
from .options import ModelFile, described
from .output import make_folder
from .screen import (
    AsJson,
    Screen,
    console,
    is_plain,
    model_of,
    print_committee,
    print_expected,
    print_features,
    print_json,
    print_thinned,
    size_of,
    table_of,
    working,
)

MAX_LAGS = 24  # rows of the table by lag; wider windows are shown in groups of lags
MAX_FEATURES = 20
N_EIGENVALUES = 8


@described
def inspect_model(
    model: ModelFile, out: Path | None = None, pictures: bool = True, as_json: AsJson = False
) -> None:
    """Show what a model learned: experts, features, weights by lag and feature, eigenvalues.

    Parameters
    ----------
    out : DIR
        Where to write the pictures; default MODEL-pictures.
    pictures
        Write pictures at all.
    """
    classifier = load(model)
    screen, experts = console(stderr=as_json), experts_of(classifier)
    if as_json:
        print_json(model_of(classifier, model))
    else:
        _print_model(screen, classifier, model)
        print_features(screen, classifier)
        print_committee(screen, classifier)
        print_expected(screen, classifier)
        for expert in experts:
            _print_expert(screen, expert)
    if len(experts) == 1 and experts[0].references.metric is None and is_plain(classifier):
        return
    if pictures:
        folder = make_folder(out or Path(f"{model.stem}-pictures"))
        with working("drawing"):
            files = [file for one in experts for file in _draw(screen, classifier, one, folder)]
        if files and not as_json:
            screen.say(f"Pictures: {', '.join(map(str, files))}")


def _print_expert(screen: Screen, expert: Expert) -> None:
    metric, mixing = expert.references.metric, expert.mixing
    if expert.name:
        screen.rule(f"{expert.name}, weight {expert.weight:.0%}", align="left")
        seen = f"{len(expert.features)} features, windows of {expert.width} steps"
        screen.say(f"Sees {seen}.")
    if isinstance(metric, Forest):
        n_leaves = int((metric.feature_ < 0).sum())
        screen.say(
            f"Distance: between what the {len(metric.roots_)} trees of a forest, of {n_leaves} "
            "leaves, say of two windows."
        )
    elif metric is not None:
        # Over the features before whitening, which have names.
        blocks = unmix_blocks(learned.blocks_of(metric), mixing)
        _print_solution(screen, metric)
        screen.print(_lag_table(blocks))
        screen.say(_in_words(blocks))
        screen.print(_feature_table(blocks, expert.features))
        _print_spectrum(screen, metric)
    elif mixing is not None:
        screen.print("Distance: Euclidean, of whitened features.")
        screen.print(
            _feature_table(unmix_blocks(np.eye(len(mixing))[None], mixing), expert.features)
        )
    elif expert.maps == ("identity",):
        screen.print("Distance: Euclidean. Nothing was learned, so there is nothing to draw.")
    else:
        screen.print("Distance: Euclidean.")


def _draw(screen: Screen, classifier: StreamClassifier, expert: Expert, folder: Path) -> list[Path]:
    from ..plots.figure import save_figure
    from ..plots.learned import plot_blocks, plot_history, plot_usage

    metric = expert.references.metric
    whose = "".join(f"{word}-" for word in re.findall(r"\w+", expert.name.lower()))
    files = []
    if metric is not None and not isinstance(metric, Forest):
        blocks = unmix_blocks(learned.blocks_of(metric), expert.mixing)
        files = [folder / f"{whose}blocks.png"]
        save_figure(plot_blocks(blocks, channels=expert.features), files[0])
        if not isinstance(metric, Mahalanobis):  # which was not learned here
            files.append(folder / f"{whose}history.png")
            save_figure(plot_history(metric), files[1])
    try:
        usage = folder / f"{whose}usage.png"
        save_figure(plot_usage(classifier, expert=expert.name or None), usage)
        files.append(usage)
    except InputError as error:  # too few references to judge by; the rest is still worth it
        screen.say(f"No picture of usage: {error}.")
    return files


def _print_model(screen: Screen, classifier: StreamClassifier, file: Path) -> None:
    screen.say(
        f"{file} ({size_of(file.stat().st_size)}): windows of {classifier.width_} steps of "
        f"{classifier.n_channels_} channels, {classifier.n_neighbors_} nearest"
    )
    table = table_of("state", "references")
    for state in classifier.classes_:
        table.add_row(str(state), str(int((classifier.windows_.y == state).sum())))
    screen.print(table)
    print_thinned(screen, classifier)
    threshold = classifier.confidence_.threshold
    if np.isfinite(threshold):
        screen.say(
            f"Farther than {threshold:.4g} from every reference the state is unknown: for about "
            f"{classifier.unknown_rate:.2%} of windows like these."
        )


def _print_solution(screen: Screen, metric: Any) -> None:
    if isinstance(metric, MLAT):
        name = f"MLAT, solver {metric.solver}: block Toeplitz"
        if metric.solver == "admm":
            off = _toeplitz_residual(metric)
            name += "" if off is None else f" up to a relative residual of {off:.2g}"
    else:
        off = _toeplitz_residual(metric)
        name = "LMNN"
        if isinstance(metric, Mahalanobis):
            name = f"the linear map of {metric.name}" if metric.name else "a given linear map"
        name += ": not block Toeplitz"
        if off is not None:
            name += f", relative residual {off:.2g}; the nearest metric that is stands below"
    screen.say(f"Metric: {name}.")
    if isinstance(metric, Mahalanobis):  # given, not learned here
        return
    state = "converged" if metric.converged_ else "not converged"
    screen.say(
        f"Loss {metric.loss_:.4g} after {metric.n_iter_} iterations; {state}: {metric.message_}."
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
    table = table_of("lag", "size", title="By lag: size of the block")
    table.add_column("against the largest")
    for group, size in zip(groups, sizes, strict=True):
        name = str(group[0]) if len(group) == 1 else f"{group[0]}–{group[-1]}"
        table.add_row(name, f"{size:.3g}", _bar(size, max(sizes)))
    return table


def _in_words(blocks: NDArray[np.float64]) -> str:
    fractions = learned.lag_fractions(blocks)
    if len(fractions) == 1:
        return "Windows of one step have no lags: every step is judged on its own."
    norms = learned.lag_norms(blocks)
    if not norms[1:].any():
        return "Every step is judged on its own: no two moments of a window count together."
    strongest = 1 + int(np.argmax(norms[1:]))
    return (
        f"Dependence between different moments makes up {1 - fractions[0]:.0%} of the metric "
        f"(squared norm); the strongest lag after 0 is {strongest}. A Euclidean distance has 0%."
    )


def _feature_table(blocks: NDArray[np.float64], names: tuple[str, ...]) -> Table:
    fractions = learned.channel_fractions(blocks)
    order = np.argsort(-fractions, kind="stable")
    title = "By feature: fraction of the weight of single steps"
    if len(order) > MAX_FEATURES:
        title += f" (the {MAX_FEATURES} largest of {len(order)})"
    table = table_of("feature", "fraction", title=title)
    table.add_column("against the largest")
    for feature in order[:MAX_FEATURES]:
        fraction = float(fractions[feature])
        table.add_row(names[feature], f"{fraction:.1%}", _bar(fraction, float(fractions.max())))
    return table


def _bar(value: float, largest: float) -> ProgressBar:
    # Rich's own progress bar falls back to plain characters where a terminal has no others.
    return ProgressBar(total=largest or 1.0, completed=max(value, 0.0), width=30)


def _print_spectrum(screen: Screen, metric: Any) -> None:
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
    screen.say(
        f"Eigenvalues: {leading}{more}; effective rank {found.effective_rank:.1f} of {size}."
    )
