"""Time scales, by the names that executorch gives them."""

from __future__ import annotations

from enum import Enum
from typing import Any

from etq.errors import EtqError


class TimeScale(Enum):
    """What one tick is, or what times are shown in. Wherever one is taken, its value as text is, too."""

    NS = "ns"
    US = "us"
    MS = "ms"
    S = "s"
    CYCLES = "cycles"


def time_scale_of(given: Any) -> TimeScale:
    """The time scale that is meant: by itself, by its value, or by executorch's enumeration.

    Raises `EtqError` for anything else.
    """
    try:
        return TimeScale(getattr(given, "value", given))
    except ValueError:
        known = ", ".join(scale.value for scale in TimeScale)
        raise EtqError(f"no time scale {given!r}; known are {known}") from None
