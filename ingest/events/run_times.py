"""The times of each run's executes, and of the work in them: columns of the table `runs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.arrow import numbers
from etq.ingest.events.blocks import SignatureRow, Structure
from etq.ingest.events.classify import event_kind
from etq.ingest.events.keys import NOWHERE, Indexes
from etq.ingest.events.own_times import OwnTimes, summed

# The number of a part of the work in executes, by the kind of event. Events of other kinds are in part 0.
_OPERATORS: Final = 3
_PARTS: Final = {"kernel": 1, "delegate": 2, "delegate_call": 2, "operator_call": _OPERATORS}
COLUMNS: Final = ("executes", "execute_ticks", "kernel_ticks", "delegate_ticks", "operator_ticks")
_BEYOND: Final = 2**63 - 1


class RunTimes:
    """The times of a file's runs, which are added in their order."""

    def __init__(self) -> None:
        self._part_of: list[int] = []
        self._are_delegates: list[bool] = []
        self._numbers: list[npt.NDArray[np.int64]] = []
        self._are_null: list[npt.NDArray[np.bool_]] = []

    def add(
        self,
        signatures: Sequence[SignatureRow],
        structure: Structure,
        own: OwnTimes,
        before: Indexes,
        run: Indexes,
        runs: int,
    ) -> None:
        """Add consecutive runs.

        `signatures` are all of the file so far. For each event, `before` has the number of events of earlier runs, and
        `run` the place of its run among these runs.
        """
        kinds = [event_kind(row.key) for row in signatures[len(self._part_of) :]]
        self._part_of += [_PARTS.get(kind, 0) for kind in kinds]
        self._are_delegates += [kind == "delegate" for kind in kinds]
        inside = np.flatnonzero((structure.execute != NOWHERE) & own.is_additive)
        part = np.array([*self._part_of, 0])[structure.signature[inside]]
        part[(part == _OPERATORS) & (own.children[inside] > 0)] = 0
        width = _OPERATORS + 1
        work = summed(run[inside] * width + part, own.self_ticks[inside], runs * width).reshape(runs, width)
        outermost = inside[structure.execute[inside] + before[inside] == inside]
        executes = np.bincount(run[inside[own.is_execute[inside]]], minlength=runs)
        times = summed(run[outermost], own.ticks[outermost], runs)
        found = np.concatenate([executes[:, None], times[:, None], work[:, 1:]], axis=1)
        is_null = found == _BEYOND
        is_null[np.bincount(run[outermost], minlength=runs) == 0] = True
        if own.is_possible is not None:
            is_null[run[outermost[~own.is_possible[outermost]]], 1:] = True
        is_null[run[self._unknown(structure, own, before)], 2:] = True
        self._numbers.append(found)
        self._are_null.append(is_null)

    def _unknown(self, structure: Structure, own: OwnTimes, before: Indexes) -> Indexes:
        """Return the work in executes whose time is in none of the times: its own times are impossible, or it is
        detached, and no other work contains it. The events of delegates are in the times of their calls.
        """
        is_inside = (structure.execute != NOWHERE) & (structure.parent != NOWHERE)
        is_odd = ~own.is_additive if own.is_possible is None else ~own.is_additive | ~own.is_possible
        odd = np.flatnonzero(is_inside & is_odd)
        signature, outer = structure.signature[odd], structure.parent[odd] + before[odd]
        part_of, are_delegates = np.array([*self._part_of, 0]), np.array([*self._are_delegates, False])
        is_work = (part_of[signature] > 0) & ~are_delegates[signature]
        is_lost = own.is_additive[outer] & (part_of[structure.signature[outer]] == 0)
        if own.is_possible is not None:
            is_lost |= ~own.is_possible[odd]
        found: Indexes = odd[is_work & is_lost]
        return found

    def columns(self) -> dict[str, pa.Array]:
        """Return the columns of all runs."""
        if not self._numbers:
            return {}
        found, is_null = np.concatenate(self._numbers), np.concatenate(self._are_null)
        found[is_null] = 0
        types = {"executes": np.int32}
        return {
            name: numbers(found[:, at].astype(types.get(name, np.int64)), is_null[:, at])
            for at, name in enumerate(COLUMNS)
        }
