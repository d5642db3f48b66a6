"""Time scales by executorch's names."""

from __future__ import annotations

from enum import Enum
from typing import Any

from etq.errors import ArgumentError


class TimeScale(Enum):
    """A unit of ticks or of results. Functions that take a TimeScale also accept its value as text."""

    NS = "ns"
    US = "us"
    MS = "ms"
    S = "s"
    CYCLES = "cycles"


def time_scale_of(scale: Any) -> TimeScale:
    """Return an argument as TimeScale; it may be a TimeScale, its value, or a member of executorch's enumeration.

    Raises `EtqError` for anything else.
    """
    try:
        return TimeScale(getattr(scale, "value", scale))
    except ValueError:
        known = ", ".join(scale.value for scale in TimeScale)
        raise ArgumentError(f"no time scale {scale!r}; known are {known}") from None
