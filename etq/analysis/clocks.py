"""The resolution of a capture's clocks, and times of 0 that are unknown because of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from etq.errors import counted
from etq.verdicts.words import number_text

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture

_CLOCKS: Final = {"host": "the host", "delegate": "the delegates"}
_NANOSECONDS: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


class Clocks:
    """The steps of the clocks that timed a capture's events, by the clock's name in `clock_steps`."""

    def __init__(self, warehouse: Answers, capture: Capture) -> None:
        query = """
            SELECT s.clock, s.step, s.unit, s.zeros, s.events FROM clock_steps($capture) AS s WHERE s.step IS NOT NULL
        """
        self._found = {clock: tuple(more) for clock, *more in warehouse.rows(query, capture=capture)[1]}

    def step(self, clock: str, unit: str) -> float | None:
        """Return the step of a clock in a unit; None if it is unknown."""
        if clock not in self._found:
            return None
        step, own, *_ = self._found[clock]
        if unit == own:
            return float(step)
        if unit not in _NANOSECONDS or own not in _NANOSECONDS:
            return None
        return float(step * _NANOSECONDS[own] / _NANOSECONDS[unit])

    def steps(self, unit: str) -> dict[str, float]:
        """Return the known steps in a unit, by clock."""
        known = {clock: self.step(clock, unit) for clock in self._found}
        return {clock: step for clock, step in known.items() if step is not None}

    def has_zeros(self, clock: str) -> bool:
        """Whether a clock with a known step gave any event a time of 0."""
        return clock in self._found and self._found[clock][2] > 0

    def note(self, clock: str, unit: str) -> str:
        """Return the meaning of a time of 0 by a clock with a known step."""
        *_, zeros, events = self._found[clock]
        step = number_text(self.step(clock, unit) or 0)
        text = f"the clock of {_CLOCKS.get(clock, clock)} has steps of {step} {unit}: "
        found = f"{zeros} of {counted(events, 'event')} took less, and have a time of 0"
        return text + (found if zeros else "a time of 0 is less than that")


def clock_of(kind: str | None) -> str:
    """Return the clock that times events of a kind."""
    return "delegate" if kind == "delegate" else "host"
