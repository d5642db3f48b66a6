"""Finds the call that each event of a trace belongs to. An event may only call another event of the same name; then
both are one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from etq.ingest.events.own_times import summed
from etq.ingest.trace.classes import Class
from etq.ingest.trace.launches import Flags, Owners, Whole, are, is_node, nearest
from etq.ingest.trace.nesting import by_start, order_of
from etq.ingest.trace.scanner import NONE

_STEP: Final = "ProfilerStep#"
COLUMNS: Final = ("call_index", "operator_index", "operators_within")


class Calls(NamedTuple):
    """The calls and operators that slices belong to, as rows [n], -1 for none; and how many calls each slice
    contains.
    """

    call: Whole
    operator: Whole
    within: Whole

    def columns(self, at: Whole) -> Mapping[str, Whole]:
        """Return the columns of `trace_events`. Rows are replaced by places in the file, `at` [n]; -1 for none."""
        call, operator = (np.where(rows == NONE, NONE, at[rows]) for rows in (self.call, self.operator))
        return dict(zip(COLUMNS, (call, operator, self.within), strict=True))


def operator_ticks(
    classes: Sequence[Class], kind: Whole, operator: Whole, node: Whole, elapsed: Whole, counted: Whole
) -> Whole:
    """Return the own time of each call of an op, module or other node; 0 for other slices.

    An own time is the time of the call in `counted` [n], without that of its runtime calls and nested calls. `node` [n]
    is the node that contains each slice, -1 for none; `operator` is the same as in `Calls`.
    """
    is_own = operator == np.arange(len(operator))
    is_runtime = are(kind, [each.activity == "call" and each.purpose != "module" for each in classes])
    within = np.flatnonzero(is_runtime & (elapsed >= 0) & (operator != NONE))
    inner = np.flatnonzero(is_own & (node != NONE) & (elapsed[node] >= 0))
    outer = operator[node[inner]]
    inner, outer = inner[outer != NONE], outer[outer != NONE]
    ticks = np.where(is_own, counted, 0)
    for places, rows in ((operator[within], within), (outer, inner)):
        ticks = ticks - summed(places, counted[rows], len(ticks))
    return ticks


def covering(kinds: Sequence[tuple[str, str]], kind: Whole, thread: Whole, start: Whole, elapsed: Whole) -> Flags:
    """Return for each slice whether a later slice of the same family and thread starts before its end.

    Of slices that start together, the longest is first.
    """
    return _within(_own(kinds, kind, thread), start, start + np.maximum(elapsed, 0)) > 0


def overlapping(
    kinds: Sequence[tuple[str, str]], kind: Whole, thread: Whole, start: Whole, elapsed: Whole, are_calls: Flags
) -> Flags:
    """Return for each slice whether the calls of its family in its thread overlap. The arguments are as in
    `covering`.
    """
    own = _own(kinds, kind, thread)
    calls = np.flatnonzero(are_calls)
    start, end = start[calls], (start + np.maximum(elapsed, 0))[calls]
    return np.isin(own, np.unique(own[calls][_within(own[calls], start, end) > 0]))


def _own(kinds: Sequence[tuple[str, str]], kind: Whole, thread: Whole) -> Whole:
    """Return a number for the family and thread of each slice."""
    return _codes([family_of(name) for _, name in kinds])[kind] * (int(thread.max(initial=0)) + 1) + thread


def family_of(name: str) -> str:
    """Return the common name of profiler steps for the name of a step; other names are unchanged."""
    return "ProfilerStep*" if name.startswith(_STEP) else name


def calls_and_operators(
    kinds: Sequence[tuple[str, str]],
    classes: Sequence[Class],
    kind: Whole,
    thread: Whole,
    start: Whole,
    elapsed: Whole,
    parent: Whole,
    call: Whole,
    owners: Owners,
) -> Calls:
    """Return the calls that slices belong to; the slices are in the order of the file.

    Arrays of n: `kind`, the place in `kinds` (category and name) and in `classes`; `thread`, a number from 0; `start`
    and `elapsed` in ticks; `parent`, the row of the slice that contains the slice; `call`, the row of the call that
    launched it. -1 stands for none.
    """
    is_call = are(kind, [each.activity == "op" and each.purpose != "module" for each in classes])
    is_one = are(kind, [is_node(each) for each in classes]) & (elapsed >= 0)
    node = nearest(parent, is_one)
    above = np.where(is_one, node, NONE)
    is_inner = _only_calls(_codes([name for _, name in kinds])[kind], above, is_call) & is_call
    operator = np.where(is_inner, nearest(above, ~is_inner), np.where(is_one, np.arange(len(kind)), NONE))
    # Other host events belong to the event around them. A device event belongs to its op; without one, to the event
    # around its call; without one, to its owner.
    for rows in (node, owners.op, np.where(call == NONE, NONE, node[call]), owners.owner):
        operator = np.where((operator == NONE) & (rows != NONE) & is_one[rows], operator[rows], operator)
    operators = np.flatnonzero(is_one & ~is_inner)
    within = np.zeros(len(kind), np.int64)
    starts = start[operators]
    within[operators] = _within(thread[operators].astype(np.int64), starts, starts + elapsed[operators])
    return Calls(_calls(kinds, classes, kind, parent), operator, within)


def _calls(kinds: Sequence[tuple[str, str]], classes: Sequence[Class], kind: Whole, parent: Whole) -> Whole:
    is_helper = are(kind, [each.purpose == "profiler" for each in classes])
    families = _codes([family_of(name) for _, name in kinds])[kind]
    is_other = is_helper | _only_calls(families, parent, ~is_helper)
    return np.where(is_other, nearest(parent, ~is_other), NONE)


def _codes(names: Sequence[str]) -> Whole:
    """Return a number for each name; equal names have equal numbers."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)


def _only_calls(name: Whole, above: Whole, is_merging: Flags) -> Flags:
    """Return whether each row is the only content of the row `above` it and has the same name. `is_merging` must be
    true for the row above.
    """
    within = np.flatnonzero(above != NONE)
    outer = above[within]
    found = np.zeros(len(above), np.bool_)
    found[within] = (np.bincount(outer, minlength=len(above))[outer] == 1) & (name[within] == name[outer])
    found[within] &= is_merging[outer]
    return found


def _within(thread: Whole, start: Whole, end: Whole) -> Whole:
    """Return for each span how many later spans of its thread start before its end. Of spans that start together, the
    longest is the first.
    """
    order, until = starts_until(thread, start, end)
    found = np.empty(len(order), np.int64)
    found[order] = np.maximum(until - np.arange(1, len(order) + 1), 0)
    return found


def starts_until(thread: Whole, start: Whole, end: Whole) -> tuple[Whole, Whole]:
    """Return the order of spans by thread, start and end, the longest first, and, in this order, the number of spans
    of the same and of previous threads that start before the end of each span.
    """
    order = by_start(start, end)
    order = order[order_of(thread[order])]
    if not len(start):
        return order, order
    first, span = int(start.min()), int(end.max()) - int(start.min()) + 1
    if span * (int(thread.max()) + 1) < 2**62:
        starts, ends = start - first, end - first
    else:
        times = np.unique(np.concatenate([start, end]), return_inverse=True)[1]
        starts, ends, span = times[: len(start)], times[len(start) :], len(times)
    return order, np.searchsorted((thread * span + starts)[order], (thread * span + ends)[order])
