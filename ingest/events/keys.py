"""The distinct event keys of a file, numbered, with the properties that grouping and nesting use."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from etq.ingest.events import classify as signatures
from etq.ingest.events.event import PROFILE, EventKey

Indexes = npt.NDArray[np.int64]
NOWHERE: Final = -1


class Keys:
    """The distinct `EventKey`s of a file, numbered in order of appearance. Arrays have the attributes that grouping
    needs.
    """

    TYPE, GROUP, IDENTITY, INSTRUCTION, ROLE, WRAPPER, ROOT, COUNTS_TICKS, DISPATCH, FIRST_STEP = range(10)
    # Roles: which events may contain an event. OTHER and DELEGATE events first look for the call of their own
    # instruction.
    OTHER, DELEGATE, CALL, CONTAINER = range(4)

    def __init__(self) -> None:
        self.keys: list[EventKey] = []
        self._codes: dict[EventKey, int] = {}
        self._groups: dict[tuple[object, ...], int] = {}
        self._identities: dict[tuple[object, ...], int] = {}
        self._instructions: dict[tuple[int, int], int] = {}
        self._columns: list[tuple[int, ...]] = []
        self._table: Indexes | None = None

    def codes(self, keys: list[EventKey]) -> Indexes:
        """Return the file-wide code of each key; adds new keys."""
        for key in keys:
            if key not in self._codes:
                self._codes[key] = len(self.keys)
                self.keys.append(key)
                self._columns.append(self._describe(key))
                self._table = None
        return np.array([self._codes[key] for key in keys], np.int64)

    def column(self, which: int) -> Indexes:
        """Return one attribute of every key, by its number: TYPE, GROUP, … as above."""
        if self._table is None:
            self._table = np.array(self._columns, np.int64).reshape(-1, 10)
        return self._table[:, which]

    def shape(self, codes: list[int]) -> tuple[tuple[int, ...], ...]:
        """Return a key that decides how a sequence of events is grouped and nested.

        Two sequences have an equal shape if their groups, identities and instructions are equal at the same places,
        even if the events' names differ.
        """
        groups: dict[int, int] = {}
        identities: dict[int, int] = {}
        instructions: dict[int, int] = {}
        found = []
        for code in codes:
            type, group, identity, instruction, role, wrapper, root, _, _, _ = self._columns[code]
            group = groups.setdefault(group, len(groups))
            identity = identities.setdefault(identity, len(identities))
            instruction = instructions.setdefault(instruction, len(instructions))
            found.append((type, group, identity, instruction, role, wrapper, root))
        return tuple(found)

    def identity(self, code: int) -> int:
        """Return the attribute IDENTITY of one key."""
        return self._columns[code][self.IDENTITY]

    def _describe(self, key: EventKey) -> tuple[int, ...]:
        # The Inspector groups events by these four attributes (its class InstructionEventSignature). A debug event's
        # chain is a u64 and a profile event's an i32; as numbers, they are equal unless they mean "none".
        group = (key.instruction_id, key.chain_index, key.delegate_debug_id, key.delegate_debug_str)
        # The Inspector distinguishes a group's events by these attributes (ProfileEventSignature, DebugEventSignature).
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
        # An event within a DELEGATE_CALL of its own instruction is not a call itself.
        elif kind in ("operator_call", "delegate_call", "control") and key.name != signatures.DELEGATE_EXECUTE:
            role = self.CALL
        elif key.chain_index == -1 or kind == "framework":
            role = self.CONTAINER
        root = {signatures.EXECUTE: 2, signatures.STEP: 1}.get(key.name or "", 0) if kind == "framework" else 0
        wrapper = {"operator_call": 1, "delegate_call": 2}.get(kind, 0) if role == self.CALL else 0
        return (
            key.type,
            self._groups.setdefault(group, len(self._groups)),
            self._identities.setdefault(identity, len(self._identities)),
            self._instructions.setdefault((key.chain_index, key.instruction_id), len(self._instructions)),
            role,
            wrapper,
            root,
            int(key.type == PROFILE and signatures.event_value_unit(key, False) == "ticks"),
            int(kind == "delegate" and signatures.is_dispatch(key)),
            int(root == 1 and key.chain_index == key.instruction_id == 0),
        )
