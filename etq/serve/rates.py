"""Limits of how often something may be done in a minute."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MINUTE: Final = 60.0
# Names that are remembered; the one not seen for longest is forgotten first.
MOST: Final = 10_000


class Rates:
    """Counts what is done under each name: a minute's worth at once, and then as much as the rate allows.

    It keeps one time for each name, that at which all that was done would be done at the rate (the generic cell rate
    algorithm).
    """

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._step = MINUTE / per_minute
        self._clock = clock
        self._done = OrderedDict[str, float]()

    def wait(self, name: str) -> float:
        """Count one, and return 0; or, if it is too early, the seconds until one is allowed."""
        now = self._clock()
        done = max(now, self._done.pop(name, now)) + self._step
        is_early = done - now > MINUTE + 1e-6
        self._done[name] = done - self._step if is_early else done
        if len(self._done) > MOST:
            self._done.popitem(last=False)
        return done - now - MINUTE if is_early else 0.0
