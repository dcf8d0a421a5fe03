"""The data sets of the paper, as one `Stream` per person.

Each loader reads UCI's own files from a folder or zip. ``mlat data fetch`` downloads
them, ``mlat data check`` verifies a copy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from ...stream import Stream
from . import emg, vicon
from .arem import load_arem
from .catalog import SETS, People, UciSet, get_set
from .emg import load_emg
from .scma import load_scma
from .vicon import load_vicon

__all__ = [
    "PAPER_ACTIVITIES",
    "SETS",
    "UciSet",
    "load",
    "load_arem",
    "load_emg",
    "load_scma",
    "load_vicon",
]

# The activities of the paper's protocol, for the sets with more than five.
PAPER_ACTIVITIES: Mapping[str, tuple[str, ...]] = {
    "emg": emg.PAPER_ACTIVITIES,
    "vicon": vicon.PAPER_ACTIVITIES,
}

_LOADERS: dict[str, Callable[..., dict[str, Stream]]] = {
    "scma": load_scma,
    "arem": load_arem,
    "emg": load_emg,
    "vicon": load_vicon,
}


def load(
    name: str,
    data: str | os.PathLike[str] | None = None,
    people: People = None,
    **options: Any,
) -> dict[str, Stream]:
    """Load a set by name.

    Parameters
    ----------
    name : {"scma", "arem", "emg", "vicon"}
    data : path, optional
        A folder or zip in UCI's layout; default MLAT_DATA, else the cache folder.
    people : iterable of str or int, optional
        Only these people; see ``SETS[name].people``. Default all.
    **options
        Passed to the set's own loader.

    Returns
    -------
    dict of str to Stream
        A stream per person.
    """
    return _LOADERS[get_set(name).name](data, people, **options)
