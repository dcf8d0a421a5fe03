"""How well predicted states agree with true ones, on the screen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ..explain.confusions import Confusions

MAX_CONFUSION = 12  # states whose confusions still make a readable table


def print_score(screen: Console, found: Confusions, known: NDArray[Any]) -> None:
    """Accuracy, and tables by state; ``known`` are the states the model can predict."""
    screen.print(
        f"Accuracy {found.accuracy:.1%}: {found.n_right} of the {found.n_judged} labelled steps "
        f"that were given a state{_unjudged(found)}.",
        soft_wrap=True,
    )
    unseen = np.setdiff1d(found.states[found.counts.any(axis=1)], known)
    if len(unseen):
        names = ", ".join(str(state) for state in unseen)
        screen.print(f"The model never saw {names}: these steps are all wrong.", soft_wrap=True)
    screen.print(_state_table(found))
    if len(found.states) <= MAX_CONFUSION:
        screen.print(_confusion_table(found))


def _unjudged(found: Confusions) -> str:
    return f"; {found.n_unjudged} were given none" if found.n_unjudged else ""


def _state_table(found: Confusions) -> Table:
    table = Table("state", title="By state", title_justify="left")
    for name in ("steps", "recognised", "right when predicted"):
        table.add_column(name, justify="right")
    table.add_column("most often taken for")
    for row, state in enumerate(found.states):
        total = int(found.counts[row].sum())
        wrong = found.counts[row].copy()
        wrong[row] = 0
        worst = int(np.argmax(wrong))
        table.add_row(
            str(state),
            str(total),
            _percent(found.recall[row]),
            _percent(found.precision[row]),
            f"{found.states[worst]!s} ({wrong[worst] / total:.1%})" if wrong[worst] else "",
        )
    return table


def _percent(share: float) -> str:
    return "" if np.isnan(share) else f"{share:.1%}"


def _confusion_table(found: Confusions) -> Table:
    table = Table("true ↓, predicted →", title="Confusions, in steps", title_justify="left")
    for state in found.states:
        table.add_column(str(state), justify="right")
    for state, row in zip(found.states, found.counts, strict=True):
        table.add_row(str(state), *(str(count) if count else "·" for count in row))
    return table
