"""The inputs of a trace's ops. They are half of the file but rarely used, so they are read on demand."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import partial
from typing import Final

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


def inputs_of(entries: Entries, at: Whole, run: Whole) -> LazyBatch:
    """Return the table `op_arguments` of the entries at these positions; `run` has the run of each."""
    return LazyBatch(_OP_ARGUMENTS, partial(_rows, entries, at, run))


def _rows(entries: Entries, at: Whole, run: Whole) -> pa.RecordBatch:
    order = np.argsort(at, kind="stable")
    written = Numbered()
    codes = array("q")
    entries.decode(Part(at[order], _events, _event.decode, lambda events: codes.extend(_codes(events, written))))
    in_order = np.empty(len(at), np.int64)
    in_order[order] = codes
    places = np.flatnonzero(in_order != NONE)
    columns = [*zip(*written, strict=True)] or [()] * len(_WRITTEN)
    return batch(
        {"run_index": numbers(run[places].astype(np.int32)), "event_index": numbers(at[places].astype(np.int32))}
        | {
            name: encoded(texts_of(value or None for value in values), in_order[places], is_large=True)
            for name, values in zip(_WRITTEN, columns, strict=True)
        }
    )


def _codes(events: Sequence[InputsEvent], written: Numbered) -> list[int]:
    """Return the number in `written` of each event's shapes, types, strides and values of inputs; -1 without shapes."""
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
