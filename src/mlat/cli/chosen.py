"""What a classifier chose and what it makes of the channels, on the screen."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from ..classifier.classifier import StreamClassifier
from ..classifier.selection import Selection


def print_selection(screen: Console, classifier: StreamClassifier) -> None:
    """What was tried, what was chosen and why; nothing where nothing was to be chosen."""
    selection = classifier.selection_
    if selection is None:
        return
    if selection.trials:
        screen.print(_table(selection))
    chosen = f"Chosen: {selection.chosen}"
    if classifier.n_neighbors_ != selection.choice.n_neighbors:
        chosen += f"; {classifier.n_neighbors_} neighbours vote, as was asked"
    screen.print(f"{chosen}.", soft_wrap=True)
    screen.print(f"Why: {selection.why}. It took {selection.seconds:.1f} s.", soft_wrap=True)


def _table(selection: Selection) -> Table:
    table = Table("choice", title="What was tried, in this order", title_justify="left")
    for name in ("score", "accuracy", "error", "seconds"):
        table.add_column(name, justify="right")
    table.add_column("")
    for number, trial in enumerate(selection.trials):
        is_chosen = trial.choice == selection.choice
        table.add_row(
            str(trial.choice),
            f"{trial.score:.3f}",
            f"{trial.accuracy:.1f}%",
            f"{trial.error:.3f}" if number else "",  # the first is compared with none
            f"{trial.seconds:.1f}",
            "chosen" if is_chosen else "kept" if trial.kept else "",
            style="bold" if is_chosen else None,
        )
    return table


def print_features(screen: Console, classifier: StreamClassifier) -> None:
    """What the distance is taken of, and how far back a state looks."""
    features = classifier.features_
    whitened = "" if features.mixing is None else ", whitened within states"
    maps = ", ".join(features.lift.maps)
    screen.print(
        f"Features: {features.n_features} at each step ({maps}{whitened}). A state depends on "
        f"the last {classifier.width_ + features.lift.memory} steps.",
        soft_wrap=True,
    )


def is_plain(classifier: StreamClassifier) -> bool:
    """Whether the distance is taken of the channels as they are."""
    features = classifier.features_
    return tuple(features.lift.maps) == ("identity",) and features.mixing is None
