"""The clock of a file: its counter's width, wraparounds, and impossible times."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from etq.errors import counted
from etq.ingest.events.event import Ticks

WRAP: Final = 2**32


class HostClock:
    """The properties of a file's clock, collected run by run. `given_bits` is the counter's width if the user states
    it.

    Otherwise the width is taken to be 32 bits as soon as an event whose times are below 2**32 ends before it starts.
    """

    def __init__(self, known_bits: int | None) -> None:
        self.known_bits = known_bits
        self.has_wrapped = False
        self._wraps = 0
        self._backward = 0
        self._beyond_63_bits = 0
        self._unended = 0
        self._is_beyond_32_bits = False

    def wrapped_runs(
        self, start: Ticks, elapsed: Ticks, ends: npt.NDArray[np.int64], is_host: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Return the runs in which a 32-bit counter passed zero before the end of an event.

        `start` and `elapsed` hold all events of consecutive runs; those of run i end at index `ends[i]`. `is_host`
        marks the events on the host's clock.
        """
        wrapped = np.zeros(len(ends), np.bool_)
        self._beyond_63_bits += int(np.count_nonzero(start < 0))
        if not self._is_beyond_32_bits and is_host.any():
            end = start + elapsed
            # Times of 2**63 and more are negative here.
            lowest = min(int(start.min(where=is_host, initial=0)), int(end.min(where=is_host, initial=0)))
            highest = max(int(start.max(where=is_host, initial=0)), int(end.max(where=is_host, initial=0)))
            self._is_beyond_32_bits = lowest < 0 or highest >= WRAP
        if not len(elapsed) or elapsed.min() >= 0:
            return wrapped
        is_unended = are_unended(start, elapsed)
        self._unended += int(np.count_nonzero(is_unended))
        backward = np.flatnonzero((elapsed < 0) & ~is_unended)
        wraps = backward[(start[backward] >= 0) & (start[backward] < WRAP) & (elapsed[backward] > -WRAP)]
        self._backward += len(backward)
        self._wraps += len(wraps)
        on_host = wraps[is_host[wraps]]
        self.has_wrapped |= len(on_host) > 0
        if self.known_bits != 64:
            wrapped[np.searchsorted(ends, on_host, side="right")] = True
        return wrapped

    def bits(self) -> int:
        """The width of the counter in bits, known after the whole file is read."""
        if self.known_bits is not None:
            return self.known_bits
        return 32 if self.has_wrapped and not self._is_beyond_32_bits else 64

    def durations(self, start: Ticks, elapsed: Ticks) -> Ticks:
        """Return the durations of events, as in the view `events`, but 0 for impossible times.

        The counter is taken to have 32 bits until a time proves that it has more.
        """
        if not len(elapsed) or elapsed.min() >= 0:
            return elapsed
        if not self._may_wrap():
            return np.maximum(elapsed, 0)
        return np.where(_may_be_turned(start, elapsed), elapsed + WRAP, np.maximum(elapsed, 0))

    def turned(self, start: Ticks, elapsed: Ticks) -> npt.NDArray[np.bool_]:
        """Return in which events the counter passed zero. There are none unless the counter has 32 bits according to
        the events so far.
        """
        return _may_be_turned(start, elapsed) & (self.bits() == 32)

    def since(self, start: Ticks, elapsed: Ticks, inner: npt.NDArray[np.int64], outer: npt.NDArray[np.int64]) -> Ticks:
        """Return the ticks from the start of each `outer` event to that of its `inner` one,
        even if the counter passes zero between them.
        """
        since: Ticks = start[inner] - start[outer]
        if not self._may_wrap():
            return since
        length = elapsed[outer]
        is_turned = (since < 0) & (length < 0) & (length > -WRAP) & ~are_unended(start[outer], length)
        return np.where(is_turned, since + WRAP, since)

    def _may_wrap(self) -> bool:
        return self.known_bits == 32 or (self.known_bits is None and not self._is_beyond_32_bits)

    def findings(self) -> list[tuple[str, str]]:
        """Return findings about the file's times, (rule, detail), after all of the file is read."""
        found = []
        bits = self.bits()
        if self._wraps and bits == 32:
            events = counted(self._wraps, "event ends", "events end")
            found.append(("wrapped clock", f"{events} after the 32-bit counter passed zero"))
        if self._unended:
            events = counted(self._unended, "event has", "events have")
            found.append(
                ("unended events", f"{events} no end: what they measure was interrupted, and lasts no known time")
            )
        impossible = self._backward - (self._wraps if bits == 32 else 0)
        if impossible:
            events = counted(impossible, "event ends", "events end")
            found.append(("impossible times", f"{events} before the start: the duration is null"))
        if self._beyond_63_bits:
            events = counted(self._beyond_63_bits, "event starts", "events start")
            where = "at 2**63 ticks or later, which no clock reaches: their start is negative here"
            found.append(("impossible times", f"{events} {where}"))
        return found


def _may_be_turned(start: Ticks, elapsed: Ticks) -> npt.NDArray[np.bool_]:
    """Return which events end before they start because a 32-bit counter may have passed zero."""
    found: npt.NDArray[np.bool_] = (
        (elapsed < 0) & (elapsed > -WRAP) & (start >= 0) & (start < WRAP) & ~are_unended(start, elapsed)
    )
    return found


def are_unended(start: Ticks, elapsed: Ticks) -> npt.NDArray[np.bool_]:
    """Return which events started but did not end: their end is 0."""
    found: npt.NDArray[np.bool_] = (elapsed == -start) & (start > 0)
    return found
