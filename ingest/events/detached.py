"""Finds events that don't fit into their parent, and therefore aren't counted within it.

Events of a delegate nest by their times: an event that encloses others of its call contains them. A delegate may run
asynchronously, run several things at a time, or use its own clock. Events on another clock don't count, and don't
affect the others. A delegate call has no breakdown if one of the remaining events starts before the call or ends after
it, or if these events take longer than the call in sum. Then none of the delegate's events in the call counts, and the
call's time counts as a whole. The same holds for any other event that takes less time than its children. Therefore the
times of the remaining events add up to the times of the executes, and no self time is negative.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from etq.errors import counted
from etq.ingest.events.blocks import Structure
from etq.ingest.events.event import EventKey, Ticks
from etq.ingest.events.host_clock import HostClock, are_unended
from etq.ingest.events.keys import NOWHERE, Indexes, Keys
from etq.ingest.events.nesting import find_enclosing
from etq.ingest.events.own_times import summed

Mask = npt.NDArray[np.bool_]

# A finding names at most this many instructions.
NAMED: Final = 5

# Reasons why a call has no breakdown; the first that applies is reported.
FITS, OTHER_CLOCK, LATE, PARALLEL = range(4)
_CAUSES: Final = {
    OTHER_CLOCK: "{} on another clock than the host's",
    LATE: "{} whose events end after the call, as of a backend that runs asynchronously",
    PARALLEL: "{} whose events together take longer than the call, as of parallel work",
}


class Detached(NamedTuple):
    """Findings about the events of consecutive runs; indexes count through all of these runs.

    events     mask: events that do not count within their parents; None if all events count
    delegates  indexes of the delegates' events that have a parent
    elsewhere  mask over `delegates`: events that can't be on the host's clock. They start before their parent; or they
               start after its end, or end after the execute's end, although they were logged earlier. An event that
               only ends after its call, or was logged after it, may be on the host's clock, because a backend may run
               asynchronously
    counted    mask over `delegates`: events that start at 0 because their call's counter starts at 0; bare values also
               start at 0
    calls      indexes of the events that contain delegates' events
    causes     for each of `calls` the reason why it has no breakdown, or FITS
    parents    indexes of other events that ended and take less time than the sum of their children
    """

    events: Mask | None
    delegates: Indexes
    elsewhere: Mask
    counted: Mask
    calls: Indexes
    causes: npt.NDArray[np.int8]
    parents: Indexes


def leave_out_unended(structure: Structure, start: Ticks, elapsed: Ticks, before: Indexes) -> Indexes:
    """If an execute did not end, make the events within it belong to no execute, like the events of an execute that
    failed.

    Returns the indexes of these executes.
    """
    if not len(elapsed) or elapsed.min() >= 0:
        return np.zeros(0, np.int64)
    unended = np.flatnonzero(are_unended(start, elapsed))
    executes: Indexes = unended[structure.execute[unended] + before[unended] == unended]
    within = np.flatnonzero(structure.execute != NOWHERE)
    structure.execute[within[np.isin(structure.execute[within] + before[within], executes)]] = NOWHERE
    return executes


def find_detached(
    keys: Keys, clock: HostClock, structure: Structure, codes: Indexes, start: Ticks, elapsed: Ticks, before: Indexes
) -> Detached:
    """Find the detached events of consecutive runs. Also set the parent of each delegate's event that another event of
    its call encloses. `before` has for each event the number of events of earlier runs.

    Three kinds of delegates' events have no effect on whether the other events of their call are detached: events that
    start at 0 (bare values), events on another clock, and events that count something other than ticks.
    """
    inside = np.flatnonzero(structure.parent != NOWHERE)
    outer = structure.parent[inside] + before[inside]
    length = clock.durations(start, elapsed)
    roles = keys.column(Keys.ROLE)
    delegated = np.zeros(0, np.int64)
    if (roles == Keys.DELEGATE).any():
        delegated = np.flatnonzero(roles[codes[inside]] == Keys.DELEGATE)
    found = _Delegates(inside[delegated], outer[delegated], len(codes) if len(delegated) else 0)
    is_out = np.zeros(len(inside), np.bool_)
    counted_from_0 = np.zeros(len(delegated), np.bool_)
    if len(delegated):
        found.place(clock, structure, start, elapsed, length, before)
        counts = keys.column(Keys.COUNTS_TICKS)[codes[found.events]].astype(np.bool_)
        counted_from_0 = found.counted_from_0(start, length, counts)
        is_bare = counts & (start[found.events] == 0) & (found.early | found.late)
        is_dispatch = keys.column(Keys.DISPATCH)[codes[found.events]].astype(np.bool_)
        is_foreign = found.foreign(structure.signature[found.events], is_dispatch & ~is_bare) & counts & ~is_bare
        decides = counts & ~is_bare & ~is_foreign
        found.judge(decides, is_foreign)
        outer[delegated] = found.nest(decides & (found.causes[found.call_of] == FITS), length)
        is_out[delegated] = ~decides
        found.judge_length(summed(outer[~is_out], length[inside[~is_out]], len(length)) > length)
        is_unfit = found.causes[found.call_of] != FITS
        outer[delegated[is_unfit]] = found.outer[is_unfit]
        is_nested = outer[delegated] != found.outer
        nested = found.events[is_nested]
        structure.parent[nested] = outer[delegated[is_nested]] - before[nested]
        is_misfit = is_unfit | is_bare | is_foreign
        is_out[delegated] |= is_misfit
        delegated = delegated[is_misfit]
    is_too_long = summed(outer[~is_out], length[inside[~is_out]], len(length)) > length
    parents = np.flatnonzero(is_too_long & ~are_unended(start, elapsed))
    if not is_too_long.any() and not len(delegated):
        return Detached(None, found.events, found.elsewhere, counted_from_0, found.calls, found.causes, parents)
    detached = np.zeros(len(codes), np.bool_)
    detached[inside[delegated]] = True
    detached[inside[is_too_long[outer] & ~is_out]] = True
    _spread(detached, inside, outer, structure.execute + before == np.arange(len(codes)))
    return Detached(detached, found.events, found.elsewhere, counted_from_0, found.calls, found.causes, parents)


class _Delegates:
    """The delegates' events among some events, and their times relative to the calls that contain them."""

    def __init__(self, events: Indexes, outer: Indexes, number: int) -> None:
        self.events = events
        self.outer = outer
        is_call = np.zeros(number, np.bool_)
        is_call[outer] = True
        self.calls = np.flatnonzero(is_call)
        self.call_of = (np.cumsum(is_call) - 1)[outer]
        self.causes = np.zeros(len(self.calls), np.int8)
        self.since = np.zeros(len(events), np.int64)
        self.early = self.late = self.elsewhere = self.apart = np.zeros(len(events), np.bool_)

    def place(
        self, clock: HostClock, structure: Structure, start: Ticks, elapsed: Ticks, length: Ticks, before: Indexes
    ) -> None:
        """Find which events start before their call, which end after it, which can't be on the host's clock, and which
        of the latter are completely outside of their call.
        """
        self.since = since = clock.since(start, elapsed, self.events, self.outer)
        self.early, self.late = since < 0, since + length[self.events] > length[self.outer]
        execute = structure.execute[self.events]
        widest = np.where(execute == NOWHERE, self.outer, execute + before[self.events])
        end = clock.since(start, elapsed, self.events, widest) + length[self.events]
        # Impossible times prove nothing.
        is_possible = (elapsed >= 0) | (length > 0)
        is_after = is_possible[self.outer] & (self.events < self.outer) & (since > length[self.outer])
        is_beyond = is_possible[widest] & (self.events < widest) & (end > length[widest])
        self.elsewhere = self.early | is_after | is_beyond
        is_outside = (since + length[self.events] <= 0) | (since >= length[self.outer])
        self.apart = self.elsewhere & is_outside

    def counted_from_0(self, start: Ticks, length: Ticks, counts: Mask) -> Mask:
        """Find the events that start at 0 in calls whose counter starts at 0.

        In such a call, the other events aren't on the host's clock, and the next of them starts soon: within twice the
        total time of the call's events.
        """
        begin, held = start[self.events], np.where(counts, length[self.events], 0)
        is_later = counts & self.elsewhere & (begin > 0)
        number = len(self.calls)
        next_start = np.full(number, np.iinfo(np.int64).max)
        np.minimum.at(next_start, self.call_of[is_later], begin[is_later])
        taken = np.zeros(number, np.int64)
        np.add.at(taken, self.call_of[is_later | (begin == 0)], held[is_later | (begin == 0)])
        found: Mask = counts & (begin == 0) & self.elsewhere & (next_start <= 2 * taken)[self.call_of]
        return found

    def foreign(self, signature: npt.NDArray[np.int32], is_dispatch: Mask) -> Mask:
        """Find the events that are surely on another clock, whatever the clock of the other events in their call.

        These are events that are completely outside of their call, and the events of a signature most of whose events
        are outside. If a dispatch of the GPU can't be on the host's clock, these are also all dispatches of its call.
        """
        number, apart = np.bincount(signature), np.bincount(signature[self.apart], minlength=signature.max() + 1)
        is_foreign: Mask = self.apart | (2 * apart > number)[signature]
        of_gpu = np.zeros(len(self.calls), np.bool_)
        of_gpu[self.call_of[is_dispatch & (self.elsewhere | is_foreign)]] = True
        is_foreign |= is_dispatch & of_gpu[self.call_of]
        self.elsewhere |= is_foreign
        return is_foreign

    def judge(self, decides: Mask, is_foreign: Mask) -> None:
        """Find the calls that have no breakdown, either because of the times of the events that `decides` marks, or
        because all of the call's events are on another clock.
        """
        has_any = np.zeros(len(self.calls), np.bool_)
        has_any[self.call_of[decides]] = True
        foreign = self.call_of[is_foreign]
        self.causes[self.call_of[decides & self.late]] = LATE
        self.causes[self.call_of[decides & self.elsewhere]] = OTHER_CLOCK
        self.causes[foreign[~has_any[foreign]]] = OTHER_CLOCK

    def judge_length(self, is_too_long: Mask) -> None:
        """Find the other calls that have no breakdown: the sum of their events is longer than the call."""
        self.causes[(self.causes == FITS) & is_too_long[self.calls]] = PARALLEL

    def nest(self, chosen: Mask, length: Ticks) -> Indexes:
        """Return the event that contains each event: its call, or another of the chosen events of that call."""
        outer, at = self.outer.copy(), self.events[chosen]
        enclosing = find_enclosing(self.call_of[chosen], self.since[chosen], length[at])
        outer[np.flatnonzero(chosen)[enclosing != NOWHERE]] = at[enclosing[enclosing != NOWHERE]]
        return outer


def _spread(detached: Mask, inside: Indexes, outer: Indexes, is_execute: Mask) -> None:
    """Also detach events within detached events; executes and their children always count."""
    kept = ~is_execute[inside] & ~is_execute[outer]
    inside, outer = inside[kept], outer[kept]
    number = 0
    while number != (number := int(np.count_nonzero(detached))):
        detached[inside[detached[outer]]] = True


class Misfits:
    """Findings about a file's detached events, counted by signature as the file is read."""

    def __init__(self) -> None:
        self.calls = Counter[int]()
        self.causes = Counter[tuple[int, int]]()
        self.parents = Counter[int]()

    def note(self, found: Detached, signature: npt.NDArray[np.int32]) -> None:
        """Count the findings of some runs; `signature` has the signature of each event."""
        if len(found.calls):
            self.calls.update(_counted(signature[found.calls]))
            for cause in _CAUSES if found.causes.any() else ():
                counts = _counted(signature[found.calls[found.causes == cause]])
                self.causes.update({(which, cause): number for which, number in counts.items()})
        if len(found.parents):
            self.parents.update(_counted(signature[found.parents]))

    def findings(self, keys: Sequence[EventKey], run_names: Sequence[str]) -> list[tuple[str, str]]:
        """Return the findings (rule, detail) of the whole file, from each signature's key and the name of its runs."""
        found = []
        if self.causes:
            of_causes, of_events = Counter[int](), Counter[int]()
            for (which, cause), number in self.causes.items():
                of_causes[cause] += number
                of_events[which] += number
            why = ", ".join(text.format(of_causes[cause]) for cause, text in _CAUSES.items() if of_causes[cause])
            places = _places(of_events, self.calls, keys, run_names)
            found.append(
                (
                    "detached delegate events",
                    f"{of_events.total()} of {self.calls.total()} calls of delegates have no breakdown and count as a "
                    f"whole, because their events don't fit into them: {why}; {places}",
                )
            )
        if self.parents:
            places = _places(self.parents, None, keys, run_names)
            found.append(
                (
                    "detached events",
                    f"{counted(self.parents.total(), 'event takes', 'events take')} less time than the children, so "
                    f"the children are in no total: {places}",
                )
            )
        return found


def _counted(values: npt.NDArray[np.int32]) -> dict[int, int]:
    counts = np.bincount(values)
    distinct = np.flatnonzero(counts)
    return dict(zip(distinct.tolist(), counts[distinct].tolist(), strict=True))


def _places(
    counts: Counter[int], totals: Counter[int] | None, keys: Sequence[EventKey], run_names: Sequence[str]
) -> str:
    """Return text with the instructions of the counted signatures, the most frequent first, as in `instruction 3 of
    forward (2 of 9)`.
    """
    of_place, in_all = Counter[str](), Counter[str]()
    for which, number in counts.items():
        key = keys[which]
        what = key.name or "an event" if key.chain_index == -1 else f"instruction {key.instruction_id}"
        chain = f" of chain {key.chain_index}" if key.chain_index > 0 else ""
        place = f"{what}{chain} of {run_names[which]}"
        of_place[place] += number
        in_all[place] += number if totals is None else totals[which]
    named = [
        f"{place} ({number})" if totals is None else f"{place} ({number} of {in_all[place]})"
        for place, number in of_place.most_common(NAMED)
    ]
    return ", ".join(named) + (f" and {len(of_place) - NAMED} more" if len(of_place) > NAMED else "")
