"""Finds the call that launched each device event, the op that owns its time, and the parent of each host event."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from etq.ingest.trace.classes import Class
from etq.ingest.trace.scanner import NONE

Whole = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


# Calls that launch exactly one kernel. Calls for graphs and for several devices launch more, and so may calls of other
# runtimes.
_ONE: Final = re.compile(r"(?:cuda|cu|hip|musa|mu|ur|aclrt)(?!.*(?:Multi|Graph)).*(?:LaunchKernel|KernelLaunch)")


class Owners(NamedTuple):
    """The op and the owner of each slice, as arrays [n] of rows; -1 for none.

    op     the innermost op, on the launch's thread, that contains the launch
    owner  the innermost op or annotation that contains the launch (steps are annotations)
    """

    op: Whole
    owner: Whole


def calls_of(
    classes: Sequence[Class], kind: Whole, start: Whole, elapsed: Whole, correlation: Whole, process: Whole, rank: Whole
) -> Whole:
    """Return the call that launched each event of a device, as a row; -1 for other slices, and for events without a
    call.

    It is the call of a runtime or driver with the same correlation id. In some traces, device events name the process
    that launched them, so most events of a process have their calls there; then only calls of the same process are
    taken, otherwise calls of any process of the same rank. If several calls have the id, it is the last one that starts
    no later than the event, or, if all start later, the first one. Of calls that start together, the first in the file
    is taken. One call, such as that of a graph, may launch many events.

    `kind` [n] is the place of each slice's class; `start`, `elapsed` [n] are ticks; `process`, `rank` [n] any numbers
    from 0.
    """
    is_call = are(kind, [each.activity == "call" for each in classes]) & (correlation > 0) & (elapsed >= 0)
    calls = np.flatnonzero(is_call)
    launched = np.flatnonzero(are(kind, [each.on_device for each in classes]) & (correlation > 0))
    call = np.full(len(kind), NONE, np.int64)
    if not len(calls) or not len(launched):
        return call
    both = np.concatenate([calls, launched])
    ids = np.unique(correlation[both], return_inverse=True)[1]

    def found(group: Whole, chosen: Flags) -> Whole:
        """Return the calls of the same group as the chosen events; -1 for events that aren't chosen."""
        rows = np.full(len(launched), NONE, np.int64)
        if chosen.any():
            keys = ids * (int(group.max()) + 1) + group
            work = keys[len(calls) :][chosen], start[launched[chosen]]
            places = last_before(keys[: len(calls)], start[calls], *work)
            rows[chosen] = np.where(places == NONE, NONE, calls[places])
        return rows

    own = found(process[both], np.isin(process[launched], process[calls]))
    # A rank without calls is ignored; for example, a process of devices may lack the rank's number.
    is_ranked = np.isin(rank[both], rank[calls])
    of_rank = found(np.where(is_ranked, rank[both], NONE) + 1, is_ranked[len(calls) :])
    others = np.where(of_rank == NONE, found(np.zeros(len(both), np.int64), ~is_ranked[len(calls) :]), of_rank)
    is_own = np.where(own != NONE, 1, np.where(others != NONE, -1, 0))
    launches_own = np.bincount(process[launched], is_own, int(process.max()) + 1) > 0
    call[launched] = np.where(launches_own[process[launched]], own, others)
    return call


def last_before(ids: Whole, starts: Whole, wanted: Whole, moments: Whole) -> Whole:
    """Return for each of the `wanted` ids the place in `ids` of the last equal id that starts no later than the moment.

    If all equal ids start later, it is the place of the first of them; -1 if the id is missing.
    """
    order = np.lexsort((starts, ids))
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (np.diff(ids[order]) != 0) | (np.diff(starts[order]) != 0)
    order = order[is_first]
    count = len(order)
    every = np.concatenate([ids[order], wanted])
    # Calls come before the work that they launch if id and time are equal.
    merged = np.lexsort((np.arange(len(every)) >= count, np.concatenate([starts[order], moments]), every))
    last = np.maximum.accumulate(np.where(merged < count, merged, NONE))
    place = np.empty(len(wanted), np.int64)
    is_wanted = merged >= count
    place[merged[is_wanted] - count] = last[is_wanted]
    # For work that starts before all calls with its id, `place` is a call with another id, or none.
    first = np.minimum(np.searchsorted(ids[order], wanted), count - 1)
    place = np.where((place != NONE) & (ids[order][place] == wanted), place, first)
    return np.where(ids[order][place] == wanted, order[place], NONE)


def is_launch(what: Class) -> bool:
    """Whether an event is a call that launches kernels."""
    return what.activity == "call" and what.purpose == "launch"


def shared_ids(kinds: Sequence[tuple[str, str]], classes: Sequence[Class], kind: Whole, call: Whole) -> Flags:
    """Return the work whose id certainly or possibly leads to a wrong call.

    This happens if several launches have one id, or if the profiler gave work the id of another call. If a call that
    launches one kernel seems to have launched several events, all of them are returned; if a call that copies has a
    kernel in addition to a copy, the kernel is returned.
    """
    is_one = are(kind, [launches_one(each, name) for each, (_, name) in zip(classes, kinds, strict=True)])
    is_copying = are(kind, [each.activity == "call" and each.purpose == "copy" for each in classes])
    is_kernel = are(kind, [each.activity == "kernel" for each in classes])
    work = np.flatnonzero(are(kind, [each.is_work for each in classes]) & (call != NONE))
    of_call = call[work]
    copies = np.bincount(of_call[~is_kernel[work]], minlength=len(kind))
    several = np.bincount(of_call, minlength=len(kind)) > 1
    found = np.zeros(len(kind), np.bool_)
    found[work] = (is_one & several)[of_call] | (is_kernel[work] & (is_copying & (copies > 0))[of_call])
    return found


def of_several_processes(
    classes: Sequence[Class], kind: Whole, start: Whole, correlation: Whole, process: Whole, rank: Whole, call: Whole
) -> Flags:
    """Return which work may belong to calls of several processes of its rank. This is the case if calls of several
    processes with its id started before it, and if fewer events of devices than processes have this id, because then
    the work of a call was not recorded.
    """
    found = np.zeros(len(kind), np.bool_)
    work = np.flatnonzero(are(kind, [each.is_work for each in classes]) & (call != NONE))
    work = work[process[call[work]] != process[work]]
    calls = np.flatnonzero(are(kind, [each.activity == "call" for each in classes]) & (correlation > 0))
    calls = calls[np.isin(correlation[calls], correlation[work])]
    if not len(work) or (process[calls] == process[calls[0]]).all():
        return found
    ids = np.unique(correlation, return_inverse=True)[1] * (int(rank.max()) + 1) + rank
    # For each id, the first call of each process, by start.
    calls = calls[np.lexsort((start[calls], process[calls], ids[calls]))]
    is_first = np.ones(len(calls), np.bool_)
    is_first[1:] = (np.diff(ids[calls]) != 0) | (np.diff(process[calls]) != 0)
    calls = calls[is_first]
    calls = calls[np.lexsort((start[calls], ids[calls]))]
    known, first, processes = np.unique(ids[calls], return_index=True, return_counts=True)
    of_id = np.searchsorted(known, ids[call[work]])
    second = start[calls[np.minimum(first + 1, len(calls) - 1)]]
    recorded = np.bincount(of_id, minlength=len(known))
    found[work] = (recorded < processes)[of_id] & (second[of_id] <= start[work])
    return found


def launches_one(what: Class, name: str) -> bool:
    """Whether an event is a call that launches a single kernel at once."""
    return is_launch(what) and _ONE.match(name) is not None


def empty_launches(
    classes: Sequence[Class],
    kind: Whole,
    correlation: Whole,
    process: Whole,
    rank: Whole,
    call: Whole,
    parent: Whole,
) -> Flags:
    """Return whether each slice is a call that launches kernels, but has no recorded work of a device.

    If a launching call contains another, both are one launch. If events of devices name the process that launched them,
    ids are unique within a process; otherwise, they are unique within a rank. `kind` [n] is the place of each slice's
    category and name, and of its class; `process`, `rank` [n] are any numbers from 0; `call` [n] is the row of the call
    that launched each slice, and `parent` [n] the row of the slice that contains it; -1 for none.
    """
    is_a_launch = are(kind, [is_launch(each) for each in classes])
    launches = np.flatnonzero(is_a_launch & (correlation > 0))
    work = np.flatnonzero(are(kind, [each.is_work for each in classes]) & (call != NONE))
    is_own = process[call[work]] == process[work]
    ids = np.unique(correlation, return_inverse=True)[1]
    is_empty = np.zeros(len(kind), np.bool_)
    is_empty[launches] = True
    for group, rows in ((process, work[is_own]), (rank, work[~is_own])):
        keys = ids * (int(group.max(initial=0)) + 1) + group
        is_empty[launches] &= ~np.isin(keys[launches], keys[call[rows]])
    is_within = is_a_launch & (parent != NONE)
    is_within[is_within] = is_a_launch[parent[is_within]]
    is_empty[is_within] = is_empty[parent[is_within]] = False
    return is_empty


def lost_launches(classes: Sequence[Class], kind: Whole, rank: Whole, call: Whole, is_empty: Flags) -> Flags:
    """Return which of the launches without work are lost. None of a rank's launches is lost if at least as many kernels
    lack a call, because these kernels may belong to the launches. Kernels of the rank count, and kernels of no rank
    with launches.

    `call` [n] is -1 for kernels whose call is unknown; the other arguments are as in `empty_launches`.
    """
    kernels = are(kind, [each.activity == "kernel" for each in classes])
    alone = kernels & (call == NONE)
    is_a_launch = are(kind, [is_launch(each) for each in classes])
    is_known = np.isin(rank, rank[is_a_launch])
    count = int(rank.max(initial=0)) + 1
    lost, least = (np.bincount(rank[each], minlength=count) for each in (is_empty, alone & is_known))
    found: Flags = is_empty & (lost > least + (alone & ~is_known).sum())[rank]
    return found


def launches_within(are_some: Flags, parent: Whole) -> Whole:
    """Return how many of the launches in `are_some` each slice [n] contains, itself included. `parent` [n] is the slice
    that contains each slice, or -1.
    """
    found = np.zeros(len(parent), np.int64)
    rows = np.flatnonzero(are_some)
    while len(rows):  # from level to level
        np.add.at(found, rows, 1)
        rows = parent[rows]
        rows = rows[rows != NONE]
    return found


def owners_of(
    classes: Sequence[Class], kind: Whole, call: Whole, parent: Whole, external: Whole, correlation: Whole, rank: Whole
) -> Owners:
    """Return the op and the owner of each event of a device: those that contain its call, or, without a call, those of
    `owners_by_id`.

    `parent` [n] is the row of the slice that contains each, -1 for none.
    """
    is_op, is_owner = _owning(classes, kind)
    op, owner = (np.where(call == NONE, NONE, nearest(parent, is_one)[call]) for is_one in (is_op, is_owner))
    alone, by_id = owners_by_id(classes, kind, call, external, correlation, rank)
    op[alone], owner[alone] = by_id
    return Owners(op, owner)


def owners_by_id(
    classes: Sequence[Class], kind: Whole, call: Whole, external: Whole, correlation: Whole, rank: Whole
) -> tuple[Whole, Owners]:
    """Return the rows of work whose call is missing, and the op and the owner of this work.

    Op and owner are the first in the file that have the work's external id and rank. Work whose external id equals its
    correlation id has neither.

    External ids are used only here, because in traces of many versions they are the correlation id, 0, or the id of an
    older op.
    """
    alone = np.flatnonzero((call == NONE) & are(kind, [each.is_work for each in classes]) & (external > 0))
    alone = alone[external[alone] != correlation[alone]]
    if not len(alone):
        return alone, Owners(alone, alone)
    # Ids are renumbered, so that a pair of id and rank fits into one number.
    ids = np.unique(external, return_inverse=True)[1] * (int(rank.max()) + 1) + rank
    return alone, Owners(*(_first_of_id(ids, is_one & (external > 0), ids[alone]) for is_one in _owning(classes, kind)))


def _owning(classes: Sequence[Class], kind: Whole) -> tuple[Flags, Flags]:
    """Return which slices are ops, and which may be owners."""
    is_op = are(kind, [each.activity == "op" for each in classes])
    return is_op, is_op | are(kind, [each.activity in ("annotation", "step") for each in classes])


def around_of(classes: Sequence[Class], kind: Whole, parent: Whole) -> Iterator[tuple[str, Whole]]:
    """Yield the columns of `trace_events` about the slices that contain each slice, as rows [n]; -1 for none.

    `parent` is as in `owners_of`.
    """
    for name, holds in _AROUND.items():
        yield name, nearest(parent, are(kind, [holds(each) for each in classes]))


def is_module(each: Class) -> bool:
    return each.activity == "module" or each.purpose == "module"


def is_node(each: Class) -> bool:
    is_communication = each.activity == "annotation" and each.purpose == "communication"
    return is_module(each) or each.activity in ("op", "python", "step") or is_communication


_AROUND: Final[Mapping[str, Callable[[Class], bool]]] = {
    "op_index": lambda each: each.activity == "op",
    "module_index": is_module,
    "node_index": is_node,
    "annotation_index": lambda each: each.activity in ("annotation", "step"),
}
AROUND: Final = tuple(_AROUND)


def nearest(parent: Whole, is_one: Flags) -> Whole:
    """Return for each row the nearest containing row for which `is_one` is true; -1 if there is none."""
    found = parent.copy()
    at = np.flatnonzero((found != NONE) & ~is_one[found])
    while len(at):  # each round doubles the distance
        found[at] = found[found[at]]
        at = at[(found[at] != NONE) & ~is_one[found[at]]]
    return found


def _first_of_id(every: Whole, is_one: Flags, wanted: Whole) -> Whole:
    """Return for each of the `wanted` ids the first row of the file that has the id and for which `is_one` is true; -1
    if there is none.
    """
    rows = np.flatnonzero(is_one)
    if not len(rows):
        return np.full(len(wanted), NONE, np.int64)
    ids, first = np.unique(every[rows], return_index=True)
    place = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[place] == wanted, rows[first[place]], NONE)


def is_launched_within(call: Whole, parent: Whole, is_around: Flags, is_op: Flags) -> bool:
    """Return whether all events with these calls were launched within slices marked in `is_around` [n], with no op in
    between.
    """
    if not len(call) or (call == NONE).any():
        return False
    inner = nearest(parent, is_around | is_op)[call]
    return bool(((inner != NONE) & is_around[inner]).all())


def are(kind: Whole, of_kinds: list[bool]) -> Flags:
    found: Flags = np.array(of_kinds, np.bool_)[kind]
    return found
