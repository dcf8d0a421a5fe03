"""How long to wait before the next try to connect: exponential backoff with full jitter."""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST_CEILING = 0.5  # seconds
CAP = 30.0  # seconds
LASTING = 5.0  # seconds that a connection must hold to end a series of failures


def delay(failures: int, uniform: Callable[[float, float], float] = random.uniform) -> float:
    """Seconds to wait after so many failures in a row.

    Uniform between 0 and a ceiling that doubles with every failure up to ``CAP``. The draw is from
    the whole range, not from its upper half, so that clients that lost one broker at the same time
    come back spread out.

    Examples
    --------
    >>> [delay(n, lambda low, high: high) for n in range(1, 9)]
    [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    """
    if failures < 1:
        return 0.0
    # 2.0 ** 1100 would overflow; the cap decides long before that.
    ceiling = min(CAP, FIRST_CEILING * 2.0 ** min(failures - 1, 64))
    return uniform(0.0, ceiling)


class Tries:
    """Counts the tries to connect; says how long to wait and when to give up.

    Parameters
    ----------
    max_tries : int, optional
        Give up after so many failed tries in a row; default never.
    """

    def __init__(
        self,
        max_tries: int | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.max_tries = max_tries
        self.failed = 0  # tries in a row without a connection
        self._losses = 0  # the same, with connections that did not last
        self._uniform = uniform

    @property
    def given_up(self) -> bool:
        return self.max_tries is not None and self.failed >= self.max_tries

    def connected(self) -> None:
        self.failed = 0

    def could_not_connect(self) -> float:
        """A try failed: the seconds to wait before the next."""
        self.failed += 1
        self._losses += 1
        return delay(self._losses, self._uniform)

    def news(self, why: Exception, wait: float) -> tuple[str, str]:
        """What is said after a try that failed: the kind of a notice, and its text."""
        if self.given_up:
            return "ended", f"{why}; gave up after {self.failed} tries"
        return "retrying", f"{why}; try {self.failed + 1} in {wait:.1f} s"

    def lost(self, held: float) -> float:
        """A connection that held for some seconds was lost: the seconds to wait.

        One that does not last counts as a failure: otherwise two clients of one name, which push
        each other out of a broker, would do so without a pause.
        """
        self._losses = 1 if held >= LASTING else self._losses + 1
        return delay(self._losses, self._uniform)
