"""The inputs of a trace's ops. They take half of the file but are rarely used, so they are read on demand."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.arrow import LazyBatch, batch, encoded, numbers
from etq.ingest.trace.columns import Numbered, texts_of
from etq.ingest.trace.scanner import NONE, UNWRITTEN, InputsEvent
from etq.ingest.trace.types import Entries, Part

Whole = npt.NDArray[np.int64]
_WRITTEN: Final = ("shapes", "dtypes", "strides", "inputs")
_OP_ARGUMENTS: Final = pa.schema(
    [("run_index", pa.int32()), ("event_index", pa.int32())]
    + [(name, pa.dictionary(pa.int32(), pa.large_string())) for name in _WRITTEN]
)

_events: Final = msgspec.json.Decoder(list[InputsEvent], strict=False)
_event: Final = msgspec.json.Decoder(InputsEvent, strict=False)


class ArgumentsOf(NamedTuple):
    """Events that take their inputs from ops in another file: the ops' positions in that file, the events, and the
    events' runs.
    """

    at: list[int]
    event: list[int]
    run: list[int]


class Inputs:
    """The inputs of ops, which are decoded when they are first requested. Equal inputs are stored once."""

    def __init__(
        self, entries: Entries, at: Whole, run: Whole, added: Sequence[tuple[Entries, ArgumentsOf]] = ()
    ) -> None:
        """`at` are the positions of the ops' entries, `run` the run of each. `added` are events that take their inputs
        from other files.
        """
        self._parts = [(entries, at, at, run)]
        for others, given in added:
            others_at, event, runs = (np.array(each, np.int64) for each in given)
            self._parts.append((others, others_at, event, runs))

    @cached_property
    def _codes(self) -> tuple[Numbered, Whole, Whole, Whole]:
        """The distinct inputs; and the events that have inputs, with the run of each and the number of its inputs."""
        written = Numbered()
        codes = np.concatenate([_codes_at(entries, at, written) for entries, at, _, _ in self._parts])
        event, run = (np.concatenate([part[place] for part in self._parts]) for place in (2, 3))
        places = np.flatnonzero(codes != NONE)
        if len(self._parts) > 1:
            places = places[np.lexsort((event[places], run[places]))]
        return written, event[places], run[places], codes[places]

    @property
    def table(self) -> LazyBatch:
        """The table `op_arguments`."""
        return LazyBatch(_OP_ARGUMENTS, self._rows)

    def _rows(self) -> pa.RecordBatch:
        written, event, run, codes = self._codes
        columns = [*zip(*written, strict=True)] or [()] * len(_WRITTEN)
        return batch(
            {"run_index": numbers(run.astype(np.int32)), "event_index": numbers(event.astype(np.int32))}
            | {
                name: encoded(texts_of(value or None for value in values), codes, is_large=True)
                for name, values in zip(_WRITTEN, columns, strict=True)
            }
        )

    def at(self, events: Whole) -> tuple[Sequence[tuple[bytes, ...]], Whole]:
        """Return the distinct inputs, as JSON, and the number of the inputs of each event; -1 for none."""
        written, event, _, codes = self._codes
        order = np.argsort(event, kind="stable")
        if not len(order):
            return [*written], np.full(len(events), NONE, np.int64)
        place = np.minimum(np.searchsorted(event[order], events), len(order) - 1)
        return [*written], np.where(event[order][place] == events, codes[order][place], NONE)


def inputs_at(entries: Entries, at: Whole) -> list[tuple[bytes, ...] | None]:
    """Return shapes, types, strides and values of the inputs of the entries at these positions, as they are written."""
    written = Numbered()
    codes = _codes_at(entries, at, written)
    values = [*written]
    return [None if code == NONE else values[code] for code in codes.tolist()]


def _codes_at(entries: Entries, at: Whole, written: Numbered) -> Whole:
    """Return for each of these positions the number of the entry's inputs, their index in `written`; -1 without
    shapes.
    """
    places, back = np.unique(at, return_inverse=True)
    codes = array("q")
    entries.decode(
        Part(places.astype(np.int64), _events, _event.decode, lambda events: codes.extend(_codes(events, written)))
    )
    return np.array(codes, np.int64)[back] if len(places) else np.zeros(0, np.int64)


def _codes(events: Sequence[InputsEvent], written: Numbered) -> list[int]:
    """Return a number for the shapes, types, strides and values of each event's inputs: their index in `written`; -1
    without shapes.
    """
    return [
        NONE
        if (args := event.args) is None or (args.shapes is UNWRITTEN and args.old_shapes is UNWRITTEN)
        else written[
            bytes(args.old_shapes if args.shapes is UNWRITTEN else args.shapes),
            bytes(args.dtypes),
            bytes(args.strides),
            bytes(args.values),
        ]
        for event in events
    ]
