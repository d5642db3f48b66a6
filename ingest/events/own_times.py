"""Computes own times while a file is read. An event's own time is its self time: its duration without its children.
Also computes the number of children, and whether the own time is included in totals.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.arrow import batch, flags, numbers
from etq.ingest.events.blocks import Structure
from etq.ingest.events.event import Ticks
from etq.ingest.events.host_clock import WRAP, HostClock
from etq.ingest.events.keys import NOWHERE, Indexes, Keys

Mask = npt.NDArray[np.bool_]

# Up to this value, sums of integers in floating point are exact.
EXACT: Final = 2.0**53
# A reader yields this name, with no rows, instead of a table's name if own times must be computed again from the rows:
# later events refuted the assumptions on which they rest.
UNSETTLED: Final = "unsettled"


class OwnTimes(NamedTuple):
    """Durations and columns of `event_ticks`, with a value for each event.

    ticks            the event's duration, 0 if its times are impossible
    is_possible      whether its times are possible; None: all are
    children         the number of events that count directly within it
    self_ticks       its own time
    is_additive      whether its own time counts in totals
    is_execute       whether an execute begins with it
    is_unwrapped     whether a 32-bit counter passed zero in it; None: in no event
    """

    ticks: Ticks
    is_possible: Mask | None
    children: npt.NDArray[np.int32]
    self_ticks: Ticks
    is_additive: Mask
    is_execute: Mask
    is_unwrapped: Mask | None

    def columns(self, chosen: Mask | None) -> dict[str, pa.Array]:
        """Return the columns of the chosen events (None: all)."""
        at = slice(None) if chosen is None else chosen
        found = {
            "children": numbers(self.children[at]),
            "self_ticks": numbers(self.self_ticks[at]),
            "is_additive": flags(self.is_additive[at]),
            "is_execute": flags(self.is_execute[at]),
        }
        if self.is_unwrapped is not None and self.is_unwrapped.any():
            found["unwrapped_ticks"] = numbers(self.ticks[at], ~self.is_unwrapped[at])
        return found


class Settling:
    """The own times of a file's events, run by run, as the file is read.

    Whether a delegate's signature counts ticks of the host's clock, and whether the counter has 32 bits, is known only
    when the whole file is read. Until then, both are assumed from the events so far.
    """

    def __init__(self, keys: Keys, clock: HostClock) -> None:
        self._keys = keys
        self._clock = clock
        # For each signature of a delegate: whether some of its events were left out of totals, and whether some were
        # counted.
        self._taken = np.zeros((0, 2), np.bool_)
        # The counter widths with which durations were computed.
        self._bits: set[int] = set()

    def own_times(
        self,
        structure: Structure,
        codes: Indexes,
        start: Ticks,
        elapsed: Ticks,
        before: Indexes,
        detached: Mask | None,
        are_host_ticks: Mask | None,
    ) -> OwnTimes:
        """Return the own times of the events of consecutive runs. `before` has for each event the number of events of
        earlier runs. `detached` marks events that don't count within their parents (None: all count). `are_host_ticks`
        marks signatures whose events are in ticks of the host's clock (None: all are).
        """
        length, is_possible, is_unwrapped = elapsed, None, None
        if len(elapsed) and elapsed.min() < 0:
            is_unwrapped = self._clock.turned(start, elapsed)
            self._bits.add(self._clock.bits())
            length = np.where(is_unwrapped, elapsed + WRAP, np.maximum(elapsed, 0))
            is_possible = is_unwrapped | (elapsed >= 0)
        is_additive = structure.signature != NOWHERE
        if are_host_ticks is not None:
            self._take(structure.signature[is_additive], are_host_ticks)
            is_additive[is_additive] = are_host_ticks[structure.signature[is_additive]]
        counts = is_additive & (structure.parent != NOWHERE)
        is_outermost = structure.execute + before == np.arange(len(elapsed))
        if detached is not None:
            counts, is_additive = counts & ~detached, is_additive & (~detached | is_outermost)
        inner = np.flatnonzero(counts)
        outer = structure.parent[inner] + before[inner]
        children = np.bincount(outer, minlength=len(length)).astype(np.int32)
        self_ticks = length - summed(outer, length[inner], len(length))
        is_execute = self._begins(structure, codes, is_outermost)
        return OwnTimes(length, is_possible, children, self_ticks, is_additive, is_execute, is_unwrapped)

    def _begins(self, structure: Structure, codes: Indexes, is_outermost: Mask) -> Mask:
        """Return which of the outermost events begin an execute.

        A run that is driven step by step is one execute, which begins with the step of the first instruction.
        """
        at = np.flatnonzero(is_outermost)
        is_step = self._keys.column(Keys.ROOT)[codes[at]] == 1
        is_first = (self._keys.column(Keys.FIRST_STEP)[codes[at]] == 1) & (structure.occurrence[at] == 0)
        found = is_outermost.copy()
        found[at] = ~is_step | is_first
        return found

    def _take(self, signature: npt.NDArray[np.int32], are_host_ticks: Mask) -> None:
        """Note the assumptions about events of these signatures."""
        if len(self._taken) < len(are_host_ticks):
            grown = np.zeros((len(are_host_ticks), 2), np.bool_)
            grown[: len(self._taken)] = self._taken
            self._taken = grown
        self._taken[signature, are_host_ticks[signature].astype(np.int8)] = True

    def is_settled(self, are_host_ticks: Mask | None) -> bool:
        """Whether the whole file confirms the assumptions made run by run."""
        if not self._bits <= {self._clock.bits()}:
            return False
        if are_host_ticks is None:
            return True
        of_events = are_host_ticks[: len(self._taken)]
        return not (self._taken[of_events, 0].any() or self._taken[~of_events, 1].any())


def summed(outer: Indexes, ticks: Ticks, number: int) -> Ticks:
    """Return a sum for each of `number` events: of those `ticks` whose `outer` event it is. Sums are limited to 64
    bits.
    """
    if np.abs(ticks).sum(dtype=np.float64) < EXACT:
        return np.bincount(outer, weights=ticks, minlength=number).astype(np.int64)
    if not len(outer):
        return np.zeros(number, np.int64)
    ordered = np.argsort(outer, kind="stable")
    holders, first = np.unique(outer[ordered], return_index=True)
    found = np.zeros(number, np.int64)
    exact = np.add.reduceat(ticks[ordered].astype(object), first)
    found[holders] = [min(sum_of_event, 2**63 - 1) for sum_of_event in exact]
    return found


def unsettled() -> tuple[str, pa.RecordBatch]:
    """Return the marker that a reader yields if own times must be computed again."""
    return UNSETTLED, batch({})
