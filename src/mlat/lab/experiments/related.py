"""The table of the related systems: three more learned distances, beside those of Table 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..rivals.decade import DECADE
from ..rivals.lmnn_dtw import LMNNDTW
from ..rivals.siamese import SiameseLSTM
from .people import People
from .runner import Experiment
from .systems import ALL, SYSTEMS, System

# Those that the paper names as related work and does not compare with.
RELATED = ("LMNN-DTW", "DECADE", "LSTM")
NEED_TORCH = ("DECADE", "LSTM")


def _lmnn_dtw(data_set: str, size: str) -> Any:
    return LMNNDTW.as_in_paper(n_jobs=1)


def _decade(data_set: str, size: str) -> Any:
    # As in the literature: the nearest windows are the targets, wherever in time they are.
    return DECADE(target_gap=0, n_jobs=1, random_state=0)


def _lstm(data_set: str, size: str) -> Any:
    return SiameseLSTM(n_jobs=1, random_state=0)


def related_systems(without: tuple[str, ...] = ()) -> dict[str, System]:
    """The rivals of Table 2, the related systems, and MLAT.

    Parameters
    ----------
    without : tuple of str
        Related systems to leave out.
    """
    makers = dict(zip(RELATED, (_lmnn_dtw, _decade, _lstm), strict=True))
    related = [
        System(name, make, needs="torch" if name in NEED_TORCH else None)
        for name, make in makers.items()
        if name not in without
    ]
    rivals = [system for system in SYSTEMS.values() if system.is_rival]
    ours = [system for system in SYSTEMS.values() if not system.is_rival]
    return {system.name: system for system in (*rivals, *related, *ours)}


def related_experiment(people: Mapping[str, People], without: tuple[str, ...] = ()) -> Experiment:
    """The splits of Table 2, with the related systems among its rivals."""
    return Experiment(people, related_systems(without))


def on_all_windows(experiment: Experiment) -> Experiment:
    """The same with everyone on all windows, in the place of Table 2's few."""
    systems = {
        name: replace(system, sizes=(ALL,)) for name, system in experiment.systems.items()
    }  # fmt: skip
    return replace(experiment, systems=systems)
