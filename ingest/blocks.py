"""Event blocks: which runs are alike, and where each event stands in its run.

Runs that logged the same sequence of events share one `Pattern`, computed once: slots and occurrences (as the
Inspector groups and orders events), and parents (which event contains which). Parents depend on times, so a pattern's
are checked against every run with two comparisons an event, and computed anew for a run where they don't hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from etq.ingest import signatures
from etq.ingest.event_slices import ALLOCATION, DEBUG, PROFILE, EventKey, Ticks

Indexes = npt.NDArray[np.int64]
NOWHERE = -1


@dataclass(frozen=True)
class SignatureRow:
    """A row of the table `signatures`: what events of one slot of a block have in common."""

    block_index: int
    slot: int
    key: EventKey


@dataclass
class Keys:
    """Every distinct `EventKey` of a file, numbered as they appear, with what grouping needs of each as arrays."""

    keys: list[EventKey] = field(default_factory=list)
    _codes: dict[EventKey, int] = field(default_factory=dict)
    _groups: dict[tuple[object, ...], int] = field(default_factory=dict)
    _identities: dict[tuple[object, ...], int] = field(default_factory=dict)
    _instructions: dict[tuple[int, int], int] = field(default_factory=dict)
    _columns: list[tuple[int, ...]] = field(default_factory=list)
    _table: Indexes | None = None

    TYPE, GROUP, IDENTITY, INSTRUCTION, ROLE, WRAPPER, ROOT = range(7)
    # Roles: what may contain it. OTHER and DELEGATE events first look for the call of their own instruction.
    OTHER, DELEGATE, CALL, CONTAINER = range(4)

    def codes(self, keys: list[EventKey]) -> Indexes:
        """The file-wide code of each key; new ones are added."""
        for key in keys:
            if key not in self._codes:
                self._codes[key] = len(self.keys)
                self.keys.append(key)
                self._columns.append(self._describe(key))
                self._table = None
        return np.array([self._codes[key] for key in keys], np.int64)

    def column(self, which: int) -> Indexes:
        """One attribute of every key: TYPE, GROUP, … as numbered above."""
        if self._table is None:
            self._table = np.array(self._columns, np.int64).reshape(-1, 7)
        return self._table[:, which]

    def _describe(self, key: EventKey) -> tuple[int, ...]:
        # The Inspector gathers events by these four (FORMATS: InstructionEventSignature); a debug event's chain is a
        # u64 and a profile event's an i32, which as numbers are equal just where they are not "none".
        group = (key.instruction_id, key.chain_index, key.delegate_debug_id, key.delegate_debug_str)
        # … and tells them apart by these (ProfileEventSignature, DebugEventSignature).
        identity = (
            key.type == PROFILE,
            key.name or "",
            key.instruction_id,
            key.delegate_debug_id,
            key.delegate_debug_str or None,
        )
        kind = signatures.event_kind(key)
        role = self.OTHER
        if kind == "delegate":
            role = self.DELEGATE
        elif kind in ("operator_call", "delegate_call", "control"):
            role = self.CALL
        elif key.chain_index == -1 or kind == "framework":
            role = self.CONTAINER
        root = {signatures.EXECUTE: 2, signatures.STEP: 1}.get(key.name or "", 0) if kind == "framework" else 0
        wrapper = {"operator_call": 1, "delegate_call": 2}.get(kind, 0)
        return (
            key.type,
            self._groups.setdefault(group, len(self._groups)),
            self._identities.setdefault(identity, len(self._identities)),
            self._instructions.setdefault((key.chain_index, key.instruction_id), len(self._instructions)),
            role,
            wrapper,
            root,
        )


@dataclass(frozen=True)
class Order:
    """Pairs of a run's events, by index: start[early] + gap <= start[late]."""

    early: Indexes
    late: Indexes
    gap: Indexes

    def is_kept(self, times: Ticks) -> npt.NDArray[np.bool_]:
        """For which runs it holds, whose starts are `times` [runs, events]."""
        is_early: npt.NDArray[np.bool_] = times.take(self.early, axis=1) + self.gap <= times.take(self.late, axis=1)
        return np.asarray(is_early.all(axis=1))


@dataclass(frozen=True)
class Pattern:
    """A sequence of events that runs of one block logged; arrays have one entry per event of the run.

    signature   index of the event's row in the table `signatures`; NOWHERE for what is no profile event
    occurrence  how many events of the same slot came before it in the run
    parent      index in the run of the event that contains it; NOWHERE where none does
    execute     index of the Method::execute (or Method::step) that it belongs to, itself included; NOWHERE if none
    order       what holds of a run's times if these are its parents
    """

    block_index: int
    signature: npt.NDArray[np.int32]
    occurrence: npt.NDArray[np.int32]
    parent: npt.NDArray[np.int32]
    execute: npt.NDArray[np.int32]
    order: Order


@dataclass(frozen=True)
class Structure:
    """The arrays of `Pattern`, for all events of consecutive runs; indexes count within a run."""

    signature: npt.NDArray[np.int32]
    occurrence: npt.NDArray[np.int32]
    parent: npt.NDArray[np.int32]
    execute: npt.NDArray[np.int32]


class Blocks:
    """The blocks of a file, found run by run."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.signatures: list[SignatureRow] = []
        self._patterns: dict[tuple[str, int, bytes], Pattern] = {}
        self._blocks: dict[tuple[str, int, bytes], int] = {}
        self._signature_of: dict[tuple[int, int, int], int] = {}

    def structure(
        self,
        names: list[str],
        bundled_input_indexes: list[int],
        codes: Indexes,
        start: Ticks,
        ends: Indexes,
        wrapped: npt.NDArray[np.bool_],
    ) -> tuple[list[Pattern], Structure]:
        """The pattern of each of some consecutive runs, and what these say of every event.

        `codes` and `start` hold the events of all of the runs, of which run i's end at `ends[i]`; `wrapped` says which
        runs' clock is a 32-bit counter that passed zero.
        """
        patterns: list[Pattern] = []
        begin = 0
        for name, bundled, end, wraps in zip(
            names, bundled_input_indexes, ends.tolist(), wrapped.tolist(), strict=True
        ):
            patterns.append(self._pattern(name, bundled, codes[begin:end], start[begin:end], wraps))
            begin = end
        structure = Structure(*(np.empty(len(codes), np.int32) for _ in range(4)))
        begins = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        again = wrapped.copy()
        by_pattern: dict[int, list[int]] = {}
        for at, pattern in enumerate(patterns):
            by_pattern.setdefault(id(pattern), []).append(at)
        for runs in by_pattern.values():
            pattern = patterns[runs[0]]
            again[runs] |= _fill(structure, pattern, start, begins[runs], is_all=len(by_pattern) == 1)
        for run in np.flatnonzero(again).tolist():
            here = slice(int(begins[run]), int(ends[run]))
            parent, _ = find_parents(self.keys, codes[here], start[here], bool(wrapped[run]))
            structure.parent[here] = parent
            structure.execute[here] = find_execute(self.keys, codes[here], parent)
        return patterns, structure

    def _pattern(self, name: str, bundled: int, codes: Indexes, start: Ticks, wrapped: bool) -> Pattern:
        known = (name, bundled, codes.tobytes())
        pattern = self._patterns.get(known)
        if pattern is None:
            pattern = self._patterns[known] = self._new_pattern(name, bundled, codes, start, wrapped)
        return pattern

    def _new_pattern(self, name: str, bundled: int, codes: Indexes, start: Ticks, wrapped: bool) -> Pattern:
        slots, in_slots = _slots(self.keys, codes)
        block = self._blocks.setdefault((name, bundled, in_slots.tobytes()), len(self._blocks))
        signature = self._signature_indexes(block, codes, slots)
        profile = self.keys.column(Keys.TYPE)[codes] == PROFILE
        parent, order = find_parents(self.keys, codes, start, wrapped)
        return Pattern(
            block,
            np.where(profile, signature, NOWHERE).astype(np.int32),
            occurrences(np.where(profile, slots, NOWHERE)),
            parent.astype(np.int32),
            find_execute(self.keys, codes, parent).astype(np.int32),
            order,
        )

    def _signature_indexes(self, block: int, codes: Indexes, slots: Indexes) -> Indexes:
        pairs = np.stack([slots, codes], axis=1)[slots != NOWHERE]
        distinct, which = np.unique(pairs, axis=0, return_inverse=True)
        indexes = np.zeros(len(distinct), np.int64)
        for at, (slot, code) in enumerate(distinct.tolist()):
            row = self._signature_of.get((block, slot, code))
            if row is None:
                row = self._signature_of[block, slot, code] = len(self.signatures)
                self.signatures.append(SignatureRow(block, slot, self.keys.keys[code]))
            indexes[at] = row
        found = np.full(len(codes), NOWHERE, np.int64)
        found[slots != NOWHERE] = indexes[which.ravel()]
        return found


def _fill(structure: Structure, pattern: Pattern, start: Ticks, begins: Indexes, is_all: bool) -> npt.NDArray[np.bool_]:
    """Write a pattern for each of its runs, which begin at `begins`; returns for which its parents don't hold.

    `is_all` says that these runs are all there are, one after the other.
    """
    length = len(pattern.signature)
    if not length:
        return np.zeros(len(begins), np.bool_)
    places = np.s_[:] if is_all else begins[:, None] + np.arange(length)
    for into, values in (
        (structure.signature, pattern.signature),
        (structure.occurrence, pattern.occurrence),
        (structure.parent, pattern.parent),
        (structure.execute, pattern.execute),
    ):
        if is_all:
            into.reshape(-1, length)[:] = values
        else:
            into[places] = values
    return ~pattern.order.is_kept(start.reshape(-1, length) if is_all else start[places])


def _slots(keys: Keys, codes: Indexes) -> tuple[Indexes, Indexes]:
    """The slot of each event, NOWHERE for allocations, outputs, and values logged beside a profile event; and the
    block's signatures in the order of their slots.

    The Inspector's rules (its `InstructionEvent`, `EventSignature`): events are gathered into groups in the order of
    the groups' first events, whatever these are; each profile event of a group, with the first value logged in the
    group, is a signature; a group that logged values only is one, too; a signature's slot is where it comes first.
    """
    type, group, identity = (keys.column(which)[codes] for which in (Keys.TYPE, Keys.GROUP, Keys.IDENTITY))
    slots = np.full(len(codes), NOWHERE, np.int64)
    grouped = np.flatnonzero(type != ALLOCATION)
    if not len(grouped):
        return slots, np.zeros(0, np.int64)
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
    return slots, order[np.argsort(first)]


def occurrences(values: Indexes) -> npt.NDArray[np.int32]:
    """How many times each value came before, in order."""
    by_value = np.argsort(values, kind="stable")
    ordered = values[by_value]
    before = np.empty(len(values), np.int32)
    before[by_value] = np.arange(len(values)) - np.searchsorted(ordered, ordered, side="left")
    return before


def find_parents(keys: Keys, codes: Indexes, start: Ticks, wrapped: bool) -> tuple[Indexes, Order]:
    """Which event of a run contains each: events are logged when they end, so a parent is a later event.

    A delegate's event belongs to the next DELEGATE_CALL of its instruction, whatever its clock says; a kernel to the
    next OPERATOR_CALL or DELEGATE_CALL of its instruction that starts no later; all else to the next framework or
    user event that starts no later. Also returns what of the times decided: another run of the same events, of which
    that holds, has the same parents. `wrapped` says that the run's clock is a 32-bit counter that passed zero.
    """
    count = len(codes)
    role = np.where(keys.column(Keys.TYPE)[codes] == PROFILE, keys.column(Keys.ROLE)[codes], NOWHERE)
    times = start
    if wrapped and count:
        # Times counted from the last event's start, as signed 32 bits: order is right over half the counter's range.
        times = ((start - start[-1] + 2**31) & 0xFFFFFFFF) - 2**31
    containers = np.flatnonzero(role == Keys.CONTAINER)
    parent = np.full(count, NOWHERE, np.int64)
    _parents_among_containers(containers, times, parent)

    own = _call_of_instruction(keys, codes, role)
    delegates = (role == Keys.DELEGATE) & (own != NOWHERE)
    parent[delegates] = own[delegates]
    others = np.flatnonzero((role == Keys.OTHER) & (own != NOWHERE))
    is_later = times[own[others]] > times[others]
    refused, others = others[is_later], others[~is_later]
    parent[others] = own[others]

    left = np.flatnonzero((role != NOWHERE) & (role != Keys.CONTAINER) & (parent == NOWHERE))
    following = np.append(containers, NOWHERE)[np.searchsorted(containers, left)]
    apart = (following != NOWHERE) & (times[following] > times[left])
    while apart.any():
        following[apart] = parent[following[apart]]
        apart = (following != NOWHERE) & (times[following] > times[left])
    parent[left] = following

    placed = np.concatenate([containers, left])
    skipped = np.append(containers, NOWHERE)[np.searchsorted(containers, placed, side="right")]
    skipped[skipped == parent[placed]] = NOWHERE
    climbing = skipped != NOWHERE
    while climbing.any():
        climbing[climbing] = parent[skipped[climbing]] != parent[placed[climbing]]
        skipped[climbing] = parent[skipped[climbing]]
    apart_at = skipped != NOWHERE
    timed = np.flatnonzero((parent != NOWHERE) & ~delegates)
    early = [parent[timed], placed[apart_at], refused]
    late = [timed, skipped[apart_at], own[refused]]
    gap = np.repeat([0, 1], [len(timed), sum(map(len, late[1:]))])
    return parent, Order(np.concatenate(early), np.concatenate(late), gap)


def _parents_among_containers(containers: Indexes, times: Ticks, parent: Indexes) -> None:
    """Fill in the parents of framework and user events: the nearest later one that starts no later."""
    for at in range(len(containers) - 2, -1, -1):
        here, above = containers[at], containers[at + 1]
        while above != NOWHERE and times[above] > times[here]:
            above = parent[above]
        parent[here] = above


def _call_of_instruction(keys: Keys, codes: Indexes, role: Indexes) -> Indexes:
    """The next call of an event's own instruction: a DELEGATE_CALL for delegate events, either call for others."""
    instruction = keys.column(Keys.INSTRUCTION)[codes]
    wrapper = np.where(role == Keys.CALL, keys.column(Keys.WRAPPER)[codes], 0)
    found = np.full(len(codes), NOWHERE, np.int64)
    for inner, wrappers in ((Keys.DELEGATE, wrapper == 2), (Keys.OTHER, wrapper > 0)):
        inside = np.flatnonzero(role == inner)
        calls = np.sort((instruction * len(codes) + np.arange(len(codes)))[wrappers])
        if not len(inside) or not len(calls):
            continue
        place = np.searchsorted(calls, instruction[inside] * len(codes) + inside)
        next_call = np.append(calls, -1)[place]
        same = (next_call >= 0) & (next_call // len(codes) == instruction[inside])
        found[inside[same]] = next_call[same] % len(codes)
    return found


def find_execute(keys: Keys, codes: Indexes, parent: Indexes) -> Indexes:
    """The Method::execute that each event belongs to; where there is none, the Method::step; itself included."""
    profile = keys.column(Keys.TYPE)[codes] == PROFILE
    root = np.where(profile, keys.column(Keys.ROOT)[codes], 0)
    found = np.full(len(codes), NOWHERE, np.int64)
    for wanted in (1, 2):
        here = np.where(profile, np.arange(len(codes)), NOWHERE)
        climbing = here != NOWHERE
        climbing[climbing] = root[here[climbing]] != wanted
        while climbing.any():
            here[climbing] = parent[here[climbing]]
            climbing = here != NOWHERE
            climbing[climbing] = root[here[climbing]] != wanted
        found = np.where(here != NOWHERE, here, found)
    return found
