"""Finds the pass of a training step that each event belongs to, and the op of the forward pass of a backward call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from etq.ingest.arrow import encoded, numbers
from etq.ingest.trace.classes import Class
from etq.ingest.trace.launches import Flags, Whole, are, is_module, last_before, nearest
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.waits import Trace

# An event that several passes contain belongs to the first of these.
PASSES: Final = ("backward", "optimizer", "data_loading", "forward")
_BACKWARD, _OPTIMIZER, _LOADING, _FORWARD, _NO_PASS = range(len(PASSES) + 1)
_OF_BACKWARD: Final = re.compile(
    "autograd::engine::evaluate_function: |(?:[A-Za-z0-9_]+Backward[0-9]*|torch::autograd::AccumulateGrad)$"
)


class Calls(Trace, Protocol):
    """A trace's slices as arrays [n]: also the slice that contains each, and the number of its forward thread."""

    @property
    def parent(self) -> Whole: ...
    @property
    def forward(self) -> Whole: ...


class Passes(NamedTuple):
    """The passes of slices of the host, as arrays [n]; rows are -1 for none.

    shows      whether the slice shows a pass by itself
    place      the index in `PASSES` of the first pass that contains the slice, itself included; their number for none
    backward   the outermost call of the backward pass that contains the slice, itself included
    forward    for such a call, the op of the forward pass that it belongs to
    repeats    whether the slice is, or is within, an op of the forward pass in a call of the backward pass
    """

    shows: Flags
    place: Whole
    backward: Whole
    forward: Whole
    repeats: Flags


def passes_of(slices: Calls, classes: Sequence[Class], threads: Sequence[str]) -> Passes:
    """Return the passes of slices; `classes` has the class of each kind, `threads` the id of each thread in the
    file.
    """
    own = _own(slices, classes)
    parent = slices.parent
    place = _least_around(own, parent)
    is_call = own == _BACKWARD
    around = nearest(parent, is_call)
    backward = np.where(is_call, np.arange(len(own)), around)
    while len(rows := np.flatnonzero((backward != NONE) & (around[backward] != NONE))):
        backward[rows] = backward[around[backward[rows]]]
    ops = np.flatnonzero((own == _FORWARD) & (slices.sequence != NONE))
    calls = np.flatnonzero((backward == np.arange(len(own))) & (slices.sequence != NONE))
    forward = np.full(len(own), NONE, np.int64)
    if len(ops) and len(calls):
        forward[calls] = _forward_ops(slices, threads, ops, calls)
    repeats = np.zeros(len(own), np.bool_)
    repeats[ops] = backward[ops] != NONE
    if repeats.any():
        repeats |= nearest(parent, repeats) != NONE
    return Passes(own != _NO_PASS, place, backward, forward, repeats)


def columns_of(slices: Calls, passes: Passes, rows: Whole) -> dict[str, pa.Array]:
    """Return the columns of `trace_events` about the passes of these slices."""
    forward = passes.forward[rows]
    place = np.where(passes.shows, passes.place, _NO_PASS)[rows]
    return columns_around(slices, passes, rows) | {
        "pass": encoded([*PASSES, None], place),
        "forward_index": numbers(slices.at[forward].astype(np.int32), forward == NONE),
    }


def columns_around(slices: Calls, passes: Passes, rows: Whole) -> dict[str, pa.Array]:
    """Return the columns of `device_events` about the passes that contain these slices, or none for -1."""
    place, backward = (
        np.where(rows == NONE, none, values[rows])
        for none, values in ((_NO_PASS, passes.place), (NONE, passes.backward))
    )
    return {
        "pass": encoded([*PASSES, None], place),
        "backward_index": numbers(slices.at[backward].astype(np.int32), backward == NONE),
    }


def _own(slices: Calls, classes: Sequence[Class]) -> Whole:
    """Return for each slice the index of the pass to which it belongs by itself.

    Ops that autograd records have a sequence number; ops of the backward pass also have the number of the thread that
    ran the forward op. In a trace without sequence numbers, any op is of the forward pass.
    """
    kinds = [*zip((name for _, name in slices.kinds), classes, strict=True)]
    is_op, is_loading, are_modules = (
        are(slices.kind, each)
        for each in (
            [each.activity == "op" and not is_module(each) for each in classes],
            [each.activity in ("op", "annotation", "module") and each.purpose == "data_loading" for each in classes],
            [is_module(each) for each in classes],
        )
    )
    is_named, is_optimizer = (
        are(slices.kind, [each.activity in activities and tells(name) for name, each in kinds])
        for activities, tells in (
            (("op",), lambda name: _OF_BACKWARD.match(name) is not None),
            (("op", "annotation"), lambda name: name.startswith("Optimizer.")),
        )
    )
    is_possible, has_number = slices.elapsed >= 0, slices.sequence != NONE
    is_any = not (has_number & is_possible & (is_op | are_modules)).any()
    found = np.full(len(slices.at), _NO_PASS, np.int64)
    for place, belongs in (
        (_FORWARD, are_modules | (is_op & (has_number | is_any))),
        (_LOADING, is_loading),
        (_OPTIMIZER, is_optimizer & ~are_modules),
        (_BACKWARD, is_op & (is_named | (has_number & (slices.forward > 0)))),
    ):
        found[belongs & is_possible] = place
    return found


def _least_around(own: Whole, parent: Whole) -> Whole:
    """Return the least value of each slice and the slices that contain it."""
    found, above = own.copy(), parent.copy()
    rows = np.flatnonzero(above != NONE)
    while len(rows):  # each round doubles the distance
        least, further = np.minimum(found[rows], found[above[rows]]), above[above[rows]]
        found[rows], above[rows] = least, further
        rows = rows[further != NONE]
    return found


def _forward_ops(slices: Calls, threads: Sequence[str], ops: Whole, calls: Whole) -> Whole:
    """Return for each call of the backward pass the op of the forward pass to which it belongs; -1 for none.

    Of the ops with its sequence number that begin before it, it is the last one, as torch links them; repeated parts of
    a trace have the same numbers. Sequence numbers count per thread, so the op is of a chosen thread.
    """
    count = int(slices.thread.max()) + 1
    ids = np.unique(slices.sequence[np.concatenate([ops, calls])], return_inverse=True)[1]
    # Of ops that start together, the shortest is the innermost.
    order = np.lexsort((-slices.at[ops], slices.elapsed[ops]))
    ops, key = ops[order], (ids[: len(ops)] * count + slices.thread[ops])[order]
    # Each call with each thread whose ops have its number.
    keys = np.unique(key)
    first, last = (np.searchsorted(keys // count, ids[len(ops) :], side) for side in ("left", "right"))
    call = np.repeat(np.arange(len(calls)), last - first)
    asked = keys[np.arange(len(call)) + np.repeat(first - np.cumsum(last - first) + last - first, last - first)]
    start = slices.start[calls][call]
    op = ops[last_before(key, slices.start[ops], asked, start - 1)]
    is_before = slices.start[op] < start
    call, op, thread = call[is_before], op[is_before], (asked % count)[is_before]
    pairs = np.stack([slices.forward[calls][call], thread], 1)
    known, pair, counts = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    pair = pair.reshape(-1)
    chosen = _chosen([*zip(*known.T.tolist(), counts.tolist(), strict=True)], threads)
    # Of several rows of a call, the last remains.
    order = np.lexsort((op, slices.start[op], counts[pair]))
    order = order[np.isin(pair[order], chosen)]
    found = np.full(len(calls), NONE, np.int64)
    found[call[order]] = op[order]
    return found


def _chosen(known: Sequence[tuple[int, int, int]], threads: Sequence[str]) -> list[int]:
    """Return the places in `known` of the thread that each number in `forward` stands for. `known` has pairs of a
    number, or -1, and a thread, and how many calls with this number have an op in this thread.

    Files don't say which thread a number stands for. Threads get their numbers as they begin to run ops, mostly in the
    order in which they were created, which is the order of their ids in Linux. If there are as many numbers as threads,
    these are paired in this order, except for threads that have less than half of the sequence numbers. Otherwise a
    number stands for the thread whose ops have most of its sequence numbers; of several such threads, it is the one
    nearest in this order. Without a number, all threads remain.
    """
    number_places = {number: place for place, number in enumerate(sorted({each[0] for each in known} - {NONE}))}
    ids = sorted({each[1] for each in known}, key=lambda thread: (*_id_of(threads[thread]), thread))
    thread_places = {thread: place for place, thread in enumerate(ids)}
    most = dict[int, int]()
    for number, _, count in known:
        most[number] = max(count, most.get(number, 0))

    def rank(at: int) -> tuple[bool, int, int, int]:
        number, thread, count = known[at]
        distance = abs(number_places[number] - thread_places[thread])
        is_paired = not distance and len(number_places) == len(thread_places) and 2 * count >= most[number]
        return is_paired, count, -distance, -thread_places[thread]

    best = [max((at for at, each in enumerate(known) if each[0] == number), key=rank) for number in number_places]
    return best + [at for at, (number, _, _) in enumerate(known) if number == NONE]


def _id_of(thread: str) -> tuple[bool, int]:
    """Return a key by which threads are ordered by the number that is their id; threads without a number come last."""
    try:
        return False, int(thread)
    except ValueError:
        return True, 0
