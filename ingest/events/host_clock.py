"""The clock of a file: its counter's width, wraparounds, and impossible times."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from etq.errors import counted
from etq.ingest.events.event import Ticks

WRAP: Final = 2**32
_HALF: Final = WRAP // 2


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
        self._last_logged = 0

    def begin_dump(self) -> None:
        """Note that the next runs are of another dump, whose clock may have begun again."""
        self._last_logged = 0

    def comparable_starts(
        self,
        start: Ticks,
        elapsed: Ticks,
        logged: Ticks,
        ends: npt.NDArray[np.int64],
        is_host: npt.NDArray[np.bool_],
    ) -> tuple[Ticks, npt.NDArray[np.bool_]]:
        """Return starts that can be compared within a run, and the runs in which a 32-bit counter passed zero.

        `start` and `elapsed` hold all events of consecutive runs; those of run i end at index `ends[i]`. `logged` has
        the time at which each event was logged: its end in an ETDump, its start in a prof_result. `is_host` marks the
        events on the host's clock.
        """
        self._beyond_63_bits += int(np.count_nonzero(start < 0))
        if not self._is_beyond_32_bits and is_host.any():
            end = start + elapsed
            # Times of 2**63 and more are negative here.
            lowest = min(int(start.min(where=is_host, initial=0)), int(end.min(where=is_host, initial=0)))
            highest = max(int(start.max(where=is_host, initial=0)), int(end.max(where=is_host, initial=0)))
            self._is_beyond_32_bits = lowest < 0 or highest >= WRAP
        turned = self._note_backward(start, elapsed)
        is_wrapped = np.zeros(len(ends), np.bool_)
        if not self._may_wrap():
            return start, is_wrapped
        # An event without an end has no time at which it was logged, unless that is its start.
        host = np.flatnonzero(is_host & ((logged == start) | ~are_unended(start, elapsed)))
        falls = np.diff(logged[host], prepend=self._last_logged) < -_HALF
        self._last_logged = int(np.append(self._last_logged, logged[host])[-1])
        turned = turned[is_host[turned]]
        if not len(turned) and not falls.any():
            return start, is_wrapped
        self.has_wrapped = True
        run = np.searchsorted(ends, host, side="right")
        is_wrapped[np.searchsorted(ends, turned, side="right")] = True
        is_wrapped[run[1:][falls[1:] & (run[1:] == run[:-1])]] = True
        all_runs = np.searchsorted(ends, np.arange(len(start)), side="right")
        return _unwrapped(start, elapsed, logged, host, all_runs, is_wrapped), is_wrapped

    def _note_backward(self, start: Ticks, elapsed: Ticks) -> npt.NDArray[np.int64]:
        """Count the events that end before they start. Return those in which a 32-bit counter may have passed zero."""
        if not len(elapsed) or elapsed.min() >= 0:
            return np.zeros(0, np.int64)
        is_unended = are_unended(start, elapsed)
        self._unended += int(np.count_nonzero(is_unended))
        self._backward += int(np.count_nonzero((elapsed < 0) & ~is_unended))
        turned = np.flatnonzero(_may_be_turned(start, elapsed))
        self._wraps += len(turned)
        return turned

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
                ("unended events", f"{events} no end: the measured work was interrupted, and its time is unknown")
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


def _unwrapped(
    start: Ticks,
    elapsed: Ticks,
    logged: Ticks,
    host: npt.NDArray[np.int64],
    run: npt.NDArray[np.int64],
    is_wrapped: npt.NDArray[np.bool_],
) -> Ticks:
    """Return the starts of events; in wrapped runs, as if the counter did not pass zero.

    Events of the host are logged in the order of time. So a time of the counter that is lower than the one before means
    that it passed zero, unless it is lower by less than half of the counter's range, and neither event is longer: such
    events are out of order. The start of any event is taken to be in the range before the next event of the host was
    logged; if there is none in its run, in the ranges' halves around the last one.
    """
    length = elapsed[host] % WRAP
    step = np.diff(logged[host]) % WRAP
    step -= WRAP * ((step > _HALF) & (np.maximum(length[1:], length[:-1]) <= _HALF))
    times = np.cumsum(np.append(logged[host[0]], step))
    at = np.flatnonzero(is_wrapped[run])
    following = np.searchsorted(host, at)
    is_last = np.append(run[host], -1)[following] != run[at]
    following -= is_last
    back = (logged[host[following]] - start[at]) % WRAP
    back -= WRAP * (is_last & (back > _HALF))
    found = start.copy()
    found[at] = times[following] - back
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
