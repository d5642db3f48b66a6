"""Which event of a run contains which, and which Method::execute they belong to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from etq.ingest.events.event import PROFILE, Ticks
from etq.ingest.events.keys import NOWHERE, Indexes, Keys


@dataclass(frozen=True)
class Order:
    """Pairs of a run's events, by index: start[early] + gap <= start[late]."""

    early: Indexes
    late: Indexes
    gap: Indexes

    def is_kept(self, times: Ticks) -> npt.NDArray[np.bool_]:
        """Which runs fulfil the conditions; `times` [runs, events] has their starts."""
        is_early: npt.NDArray[np.bool_] = times.take(self.early, axis=1) + self.gap <= times.take(self.late, axis=1)
        return np.asarray(is_early.all(axis=1))


def find_parents(
    keys: Keys, codes: Indexes, start: Ticks, wrapped: bool, ended: Indexes | None = None
) -> tuple[Indexes, Order]:
    """Which event of a run contains each: events are logged when they end, so a parent is a later event. Where they
    are not, `ended` has the places of the run's events in the order of their ends.

    A delegate's event belongs to the next DELEGATE_CALL of its instruction, whatever its clock (if none
    follows, to the one before, if that starts no later); a kernel to the next OPERATOR_CALL or DELEGATE_CALL of its
    instruction that starts no later; all else to the next framework or user event that starts no later, and these to
    the operator's event that they are nested in. Also returns the conditions on times that decided: another run of the
    same events that meets them has the same parents. `wrapped` is true if the run's clock is a 32-bit counter that
    passed zero.
    """
    if ended is not None:
        parent, order = find_parents(keys, codes[ended], start[ended], wrapped)
        found = np.empty(len(codes), np.int64)
        found[ended] = np.append(ended, NOWHERE)[parent]
        return found, Order(ended[order.early], ended[order.late], order.gap)
    count = len(codes)
    role = np.where(keys.column(Keys.TYPE)[codes] == PROFILE, keys.column(Keys.ROLE)[codes], NOWHERE)
    times = start
    if wrapped and count:
        # Times counted from the last event's start, as signed 32 bits: order is right over half the counter's range.
        times = ((start - start[-1] + 2**31) & 0xFFFFFFFF) - 2**31
    containers = np.flatnonzero(role == Keys.CONTAINER)
    chain = np.full(count, NOWHERE, np.int64)
    _parents_among_containers(containers, times, chain)
    above = _Above(chain, times)
    parent = chain.copy()

    own, before = _calls_of_instruction(keys, codes, role)
    delegates = (role == Keys.DELEGATE) & (own != NOWHERE)
    after = (role == Keys.DELEGATE) & (own == NOWHERE) & (before != NOWHERE)
    late, early_ones = after & (times >= times[before]), np.flatnonzero(after & (times < times[before]))
    parent[delegates], parent[late] = own[delegates], before[late]
    others = np.flatnonzero((role == Keys.OTHER) & (own != NOWHERE))
    is_later = times[own[others]] > times[others]
    refused, others = others[is_later], others[~is_later]
    parent[others] = own[others]

    left = np.flatnonzero((role != NOWHERE) & (role != Keys.CONTAINER) & (parent == NOWHERE))
    parent[left] = above.first_that_starts_by(_next_of(containers, left), times[left])
    placed = np.concatenate([containers, left])
    above_placed = np.concatenate([chain[containers], parent[left]])
    skipped = above.last_below(_next_of(containers, placed), above_placed)
    apart = skipped != NOWHERE

    # A framework or user event may stand within an operator: then that is the next event which is neither.
    operators = np.flatnonzero((role == Keys.OTHER) | (role == Keys.CALL))
    operator = _next_of(operators, containers)
    nearer = (operator != NOWHERE) & ((chain[containers] == NOWHERE) | (operator < chain[containers]))
    within = nearer & (times[operator] <= times[containers])
    parent[containers[within]] = operator[within]
    outside = nearer & ~within

    timed = np.flatnonzero((parent != NOWHERE) & ~delegates)
    # What was climbed, also where an operator's event is nearer.
    climbed = containers[chain[containers] != NOWHERE]
    early = [parent[timed], chain[climbed], placed[apart], refused, containers[outside], early_ones]
    later = [timed, climbed, skipped[apart], own[refused], operator[outside], before[early_ones]]
    gap = np.repeat([0, 1], [len(timed) + len(climbed), sum(map(len, later[2:]))])
    return parent, Order(np.concatenate(early), np.concatenate(later), gap)


class _Above:
    """The framework and user events that contain each other: a chain upward from each, climbed by doubling steps."""

    def __init__(self, chain: Indexes, times: Ticks) -> None:
        self.none = len(chain)
        self.times = np.append(times, np.iinfo(np.int64).min)
        self.steps = [np.append(np.where(chain == NOWHERE, self.none, chain), self.none)]
        while (self.steps[-1] != self.none).any():
            self.steps.append(self.steps[-1][self.steps[-1]])

    def first_that_starts_by(self, begin: Indexes, times: Ticks) -> Indexes:
        """The first of each event and its ancestors that doesn't start after it; starts only decrease upward."""
        at = np.where(begin == NOWHERE, self.none, begin)
        for step in reversed(self.steps):
            further = step[at]
            at = np.where(self.times[further] > times, further, at)
        at = np.where(self.times[at] > times, self.steps[0][at], at)
        return np.where(at == self.none, NOWHERE, at)

    def last_below(self, begin: Indexes, limit: Indexes) -> Indexes:
        """From each event upward, itself included, the last that comes before `limit` (NOWHERE: the top)."""
        at = np.where(begin == NOWHERE, self.none, begin)
        bound = np.where(limit == NOWHERE, self.none, limit)
        at = np.where(at < bound, at, self.none)
        for step in reversed(self.steps):
            further = step[at]
            at = np.where(further < bound, further, at)
        return np.where(at == self.none, NOWHERE, at)


def _next_of(chosen: Indexes, places: Indexes) -> Indexes:
    """The next of the chosen places after each place; NOWHERE if none is left."""
    return np.append(chosen, NOWHERE)[np.searchsorted(chosen, places, side="right")]


def _parents_among_containers(containers: Indexes, times: Ticks, parent: Indexes) -> None:
    """Fill in the parents of framework and user events: the nearest later event that doesn't start after them."""
    for at in range(len(containers) - 2, -1, -1):
        here, above = containers[at], containers[at + 1]
        while above != NOWHERE and times[above] > times[here]:
            above = parent[above]
        parent[here] = above


def _calls_of_instruction(keys: Keys, codes: Indexes, role: Indexes) -> tuple[Indexes, Indexes]:
    """The next call of an event's own instruction, and the one before: a DELEGATE_CALL for delegate events, either
    call for others."""
    instruction = keys.column(Keys.INSTRUCTION)[codes]
    wrapper = np.where(role == Keys.CALL, keys.column(Keys.WRAPPER)[codes], 0)
    following, preceding = np.full(len(codes), NOWHERE, np.int64), np.full(len(codes), NOWHERE, np.int64)
    places = instruction * len(codes) + np.arange(len(codes))
    for inner, wrappers in ((Keys.DELEGATE, wrapper == 2), (Keys.OTHER, wrapper > 0)):
        inside = np.flatnonzero(role == inner)
        calls = np.sort(places[wrappers])
        if not len(inside) or not len(calls):
            continue
        at = np.searchsorted(calls, places[inside])
        for found, call in ((following, np.append(calls, -1)[at]), (preceding, np.append(calls, -1)[at - 1])):
            same = (call >= 0) & (call // len(codes) == instruction[inside])
            found[inside[same]] = call[same] % len(codes)
    return following, preceding


def find_execute(keys: Keys, codes: Indexes, parent: Indexes) -> Indexes:
    """The outermost Method::execute that each event belongs to, itself included; in a run without one, Method::step."""
    none = len(codes)
    profile = keys.column(Keys.TYPE)[codes] == PROFILE
    root = np.where(profile, keys.column(Keys.ROOT)[codes], 0)
    wanted = 2 if (root == 2).any() else 1
    found = np.append(np.where(root == wanted, np.arange(none), NOWHERE), NOWHERE)
    above = np.append(np.where(parent == NOWHERE, none, parent), none)
    # Doubling: after k rounds, what is found within 2**k levels; the outer one counts.
    while (above != none).any():
        found = np.where(found[above] != NOWHERE, found[above], found)
        above = above[above]
    return found[:-1]
