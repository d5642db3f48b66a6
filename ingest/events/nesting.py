"""The parent of each event of a run, and the Method::execute that the event belongs to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from etq.ingest.events.event import PROFILE, Ticks
from etq.ingest.events.keys import NOWHERE, Indexes, Keys


class Order(NamedTuple):
    """A condition on a run's times, as pairs of event indexes: start[early] + gap <= start[late]."""

    early: Indexes
    late: Indexes
    gap: Indexes

    def is_kept(self, times: Ticks) -> npt.NDArray[np.bool_]:
        """Return which runs meet the condition; `times` [runs, events] has the start of each event."""
        is_early: npt.NDArray[np.bool_] = times.take(self.early, axis=1) + self.gap <= times.take(self.late, axis=1)
        return np.asarray(is_early.all(axis=1))


def find_parents(keys: Keys, codes: Indexes, times: Ticks, ended: Indexes | None = None) -> tuple[Indexes, Order]:
    """Return the parent of each event of a run, and the conditions on times under which these parents hold.

    A parent is a later event, because events are logged when they end. If events were logged in another order, `ended`
    has the indexes of the run's events in the order of their ends. `times` are starts that can be compared.

    The parent of a delegate's event is the next DELEGATE_CALL of the same instruction, on any clock. If there is no
    next one, the parent is the previous one, unless the previous one starts after the event. The parent of a kernel is
    the next OPERATOR_CALL or DELEGATE_CALL of the same instruction that doesn't start after the kernel. The parent of
    any other event is the next framework or user event that doesn't start after it. But if a framework or user event is
    within an operator, its parent is the operator's event. Another run of the same events that meets the conditions has
    the same parents.
    """
    if ended is not None:
        parent, order = find_parents(keys, codes[ended], times[ended])
        found = np.empty(len(codes), np.int64)
        found[ended] = np.append(ended, NOWHERE)[parent]
        return found, Order(ended[order.early], ended[order.late], order.gap)
    count = len(codes)
    role = np.where(keys.column(Keys.TYPE)[codes] == PROFILE, keys.column(Keys.ROLE)[codes], NOWHERE)
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

    # A framework or user event may be nested in an operator; the operator is then the next event of another kind.
    operators = np.flatnonzero((role == Keys.OTHER) | (role == Keys.CALL))
    operator = _next_of(operators, containers)
    nearer = (operator != NOWHERE) & ((chain[containers] == NOWHERE) | (operator < chain[containers]))
    within = nearer & (times[operator] <= times[containers])
    parent[containers[within]] = operator[within]
    outside = nearer & ~within

    timed = np.flatnonzero((parent != NOWHERE) & ~delegates)
    # The condition covers all events passed on the way up, even if an operator's event is nearer.
    climbed = containers[chain[containers] != NOWHERE]
    early = [parent[timed], chain[climbed], placed[apart], refused, containers[outside], early_ones]
    later = [timed, climbed, skipped[apart], own[refused], operator[outside], before[early_ones]]
    gap = np.repeat([0, 1], [len(timed) + len(climbed), sum(map(len, later[2:]))])
    return parent, Order(np.concatenate(early), np.concatenate(later), gap)


def find_enclosing(group: Indexes, start: Ticks, length: Ticks) -> Indexes:
    """Return for each event the index of the event that encloses it in time; NOWHERE if there is none.

    If several events of its group enclose it, the result is the one that began last.

    Times of a group are on one clock. Of events with equal times, the event that was logged later encloses the earlier
    ones, because events are logged when they end. An event of length 0 is enclosed only by events that begin before it
    and end after it: at an edge, it may be a neighbour of the event.
    """
    found = np.full(len(group), NOWHERE, np.int64)
    end = start + length
    by_group = np.argsort(group, kind="stable")
    same = group[by_group[1:]] == group[by_group[:-1]]
    overlaps = same & (start[by_group[1:]] < end[by_group[:-1]])
    # Usually, the events of a group don't enclose each other.
    if not overlaps.any():
        return found
    at = np.flatnonzero(np.isin(group, group[by_group[1:][overlaps]]))
    at = at[np.lexsort((-at, -end[at], length[at] > 0, start[at], group[at]))]
    around: list[tuple[int, int]] = []  # The currently open events, the outermost first: index and end.
    before = NOWHERE
    for event, of, ends, lasts in zip(
        at.tolist(), group[at].tolist(), end[at].tolist(), length[at].tolist(), strict=True
    ):
        if of != before:
            before, around = of, []
        while around and around[-1][1] < ends + (lasts == 0):
            around.pop()
        if around:
            found[event] = around[-1][0]
        if lasts > 0:
            around.append((event, ends))
    return found


class _Above:
    """The nesting of framework and user events. The chain of an event's ancestors is followed in steps of doubling
    length.
    """

    def __init__(self, chain: Indexes, times: Ticks) -> None:
        self.none = len(chain)
        self.times = np.append(times, np.iinfo(np.int64).min)
        self.steps = [np.append(np.where(chain == NOWHERE, self.none, chain), self.none)]
        while (self.steps[-1] != self.none).any():
            self.steps.append(self.steps[-1][self.steps[-1]])

    def first_that_starts_by(self, begin: Indexes, times: Ticks) -> Indexes:
        """Return for each of `begin` the first event, among itself and its ancestors, that starts no later than the
        time in `times`.

        Starts only decrease from child to parent.
        """
        at = np.where(begin == NOWHERE, self.none, begin)
        for step in reversed(self.steps):
            further = step[at]
            at = np.where(self.times[further] > times, further, at)
        at = np.where(self.times[at] > times, self.steps[0][at], at)
        return np.where(at == self.none, NOWHERE, at)

    def last_below(self, begin: Indexes, limit: Indexes) -> Indexes:
        """Return for each of `begin` the last event, among itself and its ancestors, whose index is below `limit`
        (NOWHERE: no limit).
        """
        at = np.where(begin == NOWHERE, self.none, begin)
        bound = np.where(limit == NOWHERE, self.none, limit)
        at = np.where(at < bound, at, self.none)
        for step in reversed(self.steps):
            further = step[at]
            at = np.where(further < bound, further, at)
        return np.where(at == self.none, NOWHERE, at)


def _next_of(chosen: Indexes, places: Indexes) -> Indexes:
    """Return the next of the chosen places after each place, NOWHERE if there is none."""
    return np.append(chosen, NOWHERE)[np.searchsorted(chosen, places, side="right")]


def _parents_among_containers(containers: Indexes, times: Ticks, parent: Indexes) -> None:
    """Fill in the parent of each framework and user event: the nearest later such event that doesn't start after it."""
    for at in range(len(containers) - 2, -1, -1):
        here, above = containers[at], containers[at + 1]
        while above != NOWHERE and times[above] > times[here]:
            above = parent[above]
        parent[here] = above


def _calls_of_instruction(keys: Keys, codes: Indexes, role: Indexes) -> tuple[Indexes, Indexes]:
    """Return the next call of each event's instruction, and the previous call.

    For delegate events, only DELEGATE_CALLs are searched; for other events, both kinds of calls.
    """
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
    """Return for each event the outermost Method::execute that it belongs to; an execute belongs to itself.

    In a run without a Method::execute, Method::step takes its place.
    """
    none = len(codes)
    profile = keys.column(Keys.TYPE)[codes] == PROFILE
    root = np.where(profile, keys.column(Keys.ROOT)[codes], 0)
    wanted = 2 if (root == 2).any() else 1
    found = np.append(np.where(root == wanted, np.arange(none), NOWHERE), NOWHERE)
    above = np.append(np.where(parent == NOWHERE, none, parent), none)
    # After k rounds, `found` is the outermost execute within 2**k levels.
    while (above != none).any():
        found = np.where(found[above] != NOWHERE, found[above], found)
        above = above[above]
    return found[:-1]
