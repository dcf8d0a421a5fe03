"""A disk that is full for a while: no file of this process may be longer than some bytes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mlat.base.errors import DiskError


def fill_the_disk(append: Callable[[int], object], size: int) -> tuple[int, str]:
    """Append until no file can grow beyond a size, then once more when there is room.

    The write that fails has written a part of its entry.

    Returns
    -------
    n : int
        How many there was room for at first.
    said : str
        What was said then.
    """
    resource = pytest.importorskip("resource", reason="no limit of a file's size here")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    n = 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        while n < 1000:
            append(n)
            n += 1
        raise AssertionError("the disk was never full")
    except DiskError as error:
        said = str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    append(n)
    return n, said
