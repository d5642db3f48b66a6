"""Finds event blocks: which runs logged the same events, and the slot of each event in its run.

Runs that logged the same sequence of events share one `Pattern`, computed once: slots and occurrences (as the Inspector
groups and orders events), and parents (which event contains which). Parents depend on times. So a pattern's parents are
checked for each run, with two comparisons per event, and are computed again for a run in which they don't hold.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from etq.ingest.events.event import ALLOCATION, DEBUG, PROFILE, EventKey, Ticks
from etq.ingest.events.keys import NOWHERE, Indexes, Keys
from etq.ingest.events.nesting import Order, find_execute, find_parents

# How many patterns are remembered. If all runs of a file differ, remembering every pattern would fill memory.
PATTERNS = 2048
# Runs of up to this many events share the properties that follow from their shape (see `Keys.shape`), even if their
# events have other names.
SHORT = 256


class SignatureRow(NamedTuple):
    """A row of the table `signatures`: the properties that events of one slot of a block have in common."""

    block_index: int
    slot: int
    key: EventKey


class Pattern(NamedTuple):
    """The sequence of events of some runs of one block; arrays have one entry per event of the run.

    signature   index of the event's row in the table `signatures`; NOWHERE if it is not a profile event
    occurrence  how many events of the same slot came before it in the run
    parent      index in the run of the event that contains it; NOWHERE if none does
    execute     index of the Method::execute (or Method::step) that it belongs to, itself included; NOWHERE if none
    order       condition on a run's times under which these parents hold
    """

    block_index: int
    signature: npt.NDArray[np.int32]
    occurrence: npt.NDArray[np.int32]
    parent: npt.NDArray[np.int32]
    execute: npt.NDArray[np.int32]
    order: Order


class _Shape(NamedTuple):
    """The properties that all sequences with the same `Keys.shape` share, whatever their events' names.

    slots     slot of each event; NOWHERE for an event without one
    of_slots  the events that define the signature of each slot: a profile event or NOWHERE, a value or NOWHERE
    is_profile, occurrence, parent, execute, order  as in `Pattern`
    """

    slots: list[int]
    of_slots: list[tuple[int, int]]
    is_profile: list[bool]
    occurrence: npt.NDArray[np.int32]
    parent: npt.NDArray[np.int32]
    execute: npt.NDArray[np.int32]
    order: Order


class Structure(NamedTuple):
    """The arrays of `Pattern` for all events of consecutive runs; indexes count within a run."""

    signature: npt.NDArray[np.int32]
    occurrence: npt.NDArray[np.int32]
    parent: npt.NDArray[np.int32]
    execute: npt.NDArray[np.int32]


class Blocks:
    """The event blocks of a file, which are found run by run."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.signatures: list[SignatureRow] = []
        self._patterns: dict[tuple[str, int, bytes, bytes], Pattern] = {}
        self._shapes: dict[tuple[tuple[tuple[int, ...], ...], bytes], _Shape] = {}
        self._blocks: dict[tuple[str, int, bytes], int] = {}
        self._signature_of: dict[tuple[int, int, int], int] = {}

    def structure(
        self,
        names: list[str],
        bundled_input_indexes: list[int],
        codes: Indexes,
        start: Ticks,
        ends: Indexes,
        ended: Indexes | None = None,
    ) -> tuple[list[Pattern], Structure]:
        """Return the pattern of each of these consecutive runs, and the structure of all their events.

        `codes` and `start` hold the events of all of the runs; those of run i end at index `ends[i]`. Starts can be
        compared within a run. If events were not logged when they ended, `ended` has for each run the indexes of its
        events in the order of their ends.
        """
        patterns: list[Pattern] = []
        begin, before = 0, None
        for name, bundled, end, is_same in zip(
            names, bundled_input_indexes, ends.tolist(), _same_as_before(codes, ends), strict=True
        ):
            if not is_same or ended is not None or before != (name, bundled):
                by_end = None if ended is None else ended[begin:end]
                patterns.append(self._pattern(name, bundled, codes[begin:end], start[begin:end], by_end))
            else:
                patterns.append(patterns[-1])
            begin, before = end, (name, bundled)
        structure = Structure(*(np.empty(len(codes), np.int32) for _ in range(4)))
        begins = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        again = np.zeros(len(patterns), np.bool_)
        # Patterns of one shape have the same order: all runs of a shape are filled at once.
        by_order: dict[int, list[int]] = {}
        for at, pattern in enumerate(patterns):
            by_order.setdefault(id(pattern.order), []).append(at)
        for runs in by_order.values():
            of_order = [patterns[run] for run in runs]
            again[runs] |= _fill(structure, of_order, start, begins[runs], is_all=len(by_order) == 1)
        for run in np.flatnonzero(again).tolist():
            here = slice(int(begins[run]), int(ends[run]))
            by_end = None if ended is None else ended[here]
            parent, _ = find_parents(self.keys, codes[here], start[here], by_end)
            structure.parent[here] = parent
            structure.execute[here] = find_execute(self.keys, codes[here], parent)
        return patterns, structure

    def _pattern(self, name: str, bundled: int, codes: Indexes, start: Ticks, ended: Indexes | None) -> Pattern:
        known = (name, bundled, codes.tobytes(), b"" if ended is None else ended.tobytes())
        pattern = self._patterns.get(known)
        if pattern is None:
            if len(self._patterns) >= PATTERNS:
                self._patterns.clear()
            pattern = self._patterns[known] = self._new_pattern(name, bundled, codes, start, ended)
        return pattern

    def _new_pattern(self, name: str, bundled: int, codes: Indexes, start: Ticks, ended: Indexes | None) -> Pattern:
        if len(codes) <= SHORT:
            return self._short_pattern(name, bundled, codes, start, ended)
        slots, of_slots = _slots(self.keys, codes)
        block = self._block(name, bundled, codes.tolist(), of_slots)
        signature = self._signature_indexes(block, codes, slots, of_slots)
        profile = self.keys.column(Keys.TYPE)[codes] == PROFILE
        parent, order = find_parents(self.keys, codes, start, ended)
        return Pattern(
            block,
            np.where(profile, signature, NOWHERE).astype(np.int32),
            occurrences(np.where(profile, slots, NOWHERE)),
            parent.astype(np.int32),
            find_execute(self.keys, codes, parent).astype(np.int32),
            order,
        )

    def _short_pattern(self, name: str, bundled: int, codes: Indexes, start: Ticks, ended: Indexes | None) -> Pattern:
        """Return the pattern of a short run. It uses lists: for few events, making arrays takes longer than filling
        them.
        """
        listed = codes.tolist()
        known = self.keys.shape(listed), b"" if ended is None else ended.tobytes()
        shape = self._shapes.get(known)
        if shape is None or not shape.order.is_kept(start[None]).all():
            if len(self._shapes) >= PATTERNS:
                self._shapes.clear()
            shape = self._shapes[known] = self._shape(codes, start, ended)
        block = self._block(name, bundled, listed, shape.of_slots)
        # In the order of slots, then keys: signatures are numbered in this order.
        pairs = sorted({(slot, code) for slot, code in zip(shape.slots, listed, strict=True) if slot != NOWHERE})
        rows = {
            (slot, code): self._signature(block, slot, code, _value_of(listed, shape.of_slots[slot]))
            for slot, code in pairs
        }
        signature = [
            rows[slot, code] if is_profile else NOWHERE
            for slot, code, is_profile in zip(shape.slots, listed, shape.is_profile, strict=True)
        ]
        return Pattern(block, np.array(signature, np.int32), shape.occurrence, shape.parent, shape.execute, shape.order)

    def _shape(self, codes: Indexes, start: Ticks, ended: Indexes | None) -> _Shape:
        slots, of_slots = _slots(self.keys, codes)
        profile = self.keys.column(Keys.TYPE)[codes] == PROFILE
        parent, order = find_parents(self.keys, codes, start, ended)
        return _Shape(
            slots.tolist(),
            of_slots,
            profile.tolist(),
            occurrences(np.where(profile, slots, NOWHERE)),
            parent.astype(np.int32),
            find_execute(self.keys, codes, parent).astype(np.int32),
            order,
        )

    def _block(self, name: str, bundled: int, codes: list[int], of_slots: list[tuple[int, int]]) -> int:
        """Return the index of the block whose runs have this name and these signatures."""
        identity = self.keys.identity
        signatures = [
            (0 if profile == NOWHERE else identity(codes[profile]) + 1) << 32
            | (0 if logged == NOWHERE else identity(codes[logged]) + 1)
            for profile, logged in of_slots
        ]
        return self._blocks.setdefault((name, bundled, array("q", signatures).tobytes()), len(self._blocks))

    def _signature(self, block: int, slot: int, code: int, value: int) -> int:
        """Return the row of a signature; adds it if it is new.

        As in the Inspector, an event without a name gets the name of the value logged with it; `value` is that value's
        code.
        """
        row = self._signature_of.get((block, slot, code))
        if row is None:
            row = self._signature_of[block, slot, code] = len(self.signatures)
            key = self.keys.keys[code]
            if value != NOWHERE:
                key = key._replace(name=key.name or self.keys.keys[value].name or key.name)
            self.signatures.append(SignatureRow(block, slot, key))
        return row

    def _signature_indexes(
        self, block: int, codes: Indexes, slots: Indexes, of_slots: list[tuple[int, int]]
    ) -> Indexes:
        pairs = np.stack([slots, codes], axis=1)[slots != NOWHERE]
        distinct, which = np.unique(pairs, axis=0, return_inverse=True)
        indexes = np.zeros(len(distinct), np.int64)
        for at, (slot, code) in enumerate(distinct.tolist()):
            indexes[at] = self._signature(block, slot, code, _value_of(codes, of_slots[slot]))
        found = np.full(len(codes), NOWHERE, np.int64)
        found[slots != NOWHERE] = indexes[which.ravel()]
        return found


def _value_of(codes: Sequence[int] | Indexes, events: tuple[int, int]) -> int:
    """Return the code of the value among a slot's two events; NOWHERE without a value."""
    return NOWHERE if events[1] == NOWHERE else int(codes[events[1]])


def _same_as_before(codes: Indexes, ends: Indexes) -> list[bool]:
    """Return for each run whether its codes equal those of the run before it;
    False unless all runs have equal length.
    """
    runs = len(ends)
    if runs < 2 or not len(codes) or (np.diff(ends) != ends[0]).any():
        return [False] * runs
    by_run = codes.reshape(runs, -1)
    return [False, *(by_run[1:] == by_run[:-1]).all(axis=1).tolist()]


def _fill(
    structure: Structure, patterns: list[Pattern], start: Ticks, begins: Indexes, is_all: bool
) -> npt.NDArray[np.bool_]:
    """Write the patterns of runs, which begin at `begins`, into `structure`; return the runs for which the parents
    don't hold.

    The patterns differ only in their signatures. `is_all` is true if these runs are all runs, in order.
    """
    pattern = patterns[0]
    length = len(pattern.signature)
    if not length:
        return np.zeros(len(begins), np.bool_)
    if len(begins) == 1:
        is_all, start = True, start[begins[0] : begins[0] + length]
        structure = Structure(*(each[begins[0] : begins[0] + length] for each in structure))
    places = np.s_[:] if is_all else begins[:, None] + np.arange(length)
    are_equal = all(each is pattern for each in patterns)
    signatures = pattern.signature if are_equal else np.stack([pattern.signature for pattern in patterns])
    for into, values in (
        (structure.signature, signatures),
        (structure.occurrence, pattern.occurrence),
        (structure.parent, pattern.parent),
        (structure.execute, pattern.execute),
    ):
        if is_all:
            into.reshape(-1, length)[:] = values
        else:
            into[places] = values
    return ~pattern.order.is_kept(start.reshape(-1, length) if is_all else start[places])


def _slots(keys: Keys, codes: Indexes) -> tuple[Indexes, list[tuple[int, int]]]:
    """Return two things. First, the slot of each event; NOWHERE for allocations, outputs, and values logged without a
    profile event. Second, in the order of slots, the two events that define a slot's signature: a profile event and a
    value, NOWHERE if one is missing.

    The rules are the Inspector's (its `InstructionEvent`, `EventSignature`). Events are collected in groups, in the
    order of each group's first event, of any type. Each profile event of a group, with the first value logged in the
    group, is a signature; a group that logged only values is also a signature. Signatures are numbered in the order in
    which they first appear; this number is the slot.
    """
    type, group, identity = (keys.column(which)[codes] for which in (Keys.TYPE, Keys.GROUP, Keys.IDENTITY))
    slots = np.full(len(codes), NOWHERE, np.int64)
    grouped = np.flatnonzero(type != ALLOCATION)
    if not len(grouped):
        return slots, []
    distinct, group_first, group_of = np.unique(group[grouped], return_index=True, return_inverse=True)
    logged = np.zeros(len(distinct), np.int64)
    debug = np.flatnonzero(type[grouped] == DEBUG)[::-1]
    logged[group_of[debug]] = identity[grouped[debug]] + 1
    has_profile = np.zeros(len(distinct), np.bool_)
    has_profile[group_of[type[grouped] == PROFILE]] = True

    first_debug = np.full(len(distinct), NOWHERE, np.int64)
    first_debug[group_of[debug]] = debug
    alone = first_debug[(first_debug != NOWHERE) & ~has_profile]
    entries = np.concatenate([np.flatnonzero(type[grouped] == PROFILE), alone])
    entries = entries[np.lexsort((entries, group_first[group_of[entries]]))]

    at = grouped[entries]
    signature = (np.where(type[at] == PROFILE, identity[at] + 1, 0) << 32) | logged[group_of[entries]]
    order, first, which = np.unique(signature, return_index=True, return_inverse=True)
    rank = np.empty(len(order), np.int64)
    rank[np.argsort(first)] = np.arange(len(order))
    slots[at] = rank[which]
    firsts = np.sort(first)
    values = first_debug[group_of[entries[firsts]]]
    of_slots = [
        (event if is_profile else NOWHERE, NOWHERE if value == NOWHERE else int(grouped[value]))
        for event, is_profile, value in zip(
            at[firsts].tolist(), (type[at[firsts]] == PROFILE).tolist(), values.tolist(), strict=True
        )
    ]
    return slots, of_slots


def occurrences(values: Indexes) -> npt.NDArray[np.int32]:
    """Return for each value how many equal values come before it."""
    by_value = np.argsort(values, kind="stable")
    ordered = values[by_value]
    before = np.empty(len(values), np.int32)
    before[by_value] = np.arange(len(values)) - np.searchsorted(ordered, ordered, side="left")
    return before
