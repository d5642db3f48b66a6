"""The inputs of a trace's ops: half of the file, but rarely used, and therefore read on demand."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.arrow import LazyBatch, batch, encoded, numbers
from etq.ingest.trace.columns import Numbered, texts_of
from etq.ingest.trace.scanner import UNWRITTEN, InputsEvent
from etq.ingest.trace.types import Entries

Whole = npt.NDArray[np.int64]
_WRITTEN: Final = ("shapes", "dtypes", "strides", "inputs")
_OP_ARGUMENTS: Final = pa.schema(
    [("run_index", pa.int32()), ("event_index", pa.int32())]
    + [(name, pa.dictionary(pa.int32(), pa.large_string())) for name in _WRITTEN]
)

_event: Final = msgspec.json.Decoder(InputsEvent, strict=False)


def inputs_of(entries: Entries, at: Whole, run: Whole) -> LazyBatch:
    """The table `op_arguments` of the entries at these positions, which are of these runs."""
    return LazyBatch(_OP_ARGUMENTS, partial(_rows, entries, at, run))


def _rows(entries: Entries, at: Whole, run: Whole) -> pa.RecordBatch:
    written = Numbered()
    places: list[int] = []
    codes: list[int] = []
    for place, position in enumerate(at.tolist()):
        args = _event.decode(entries[position]).args
        if args is None:
            continue
        shapes = args.old_shapes if args.shapes is UNWRITTEN else args.shapes
        if shapes is not UNWRITTEN:
            places.append(place)
            codes.append(written[bytes(shapes), bytes(args.dtypes), bytes(args.strides), bytes(args.values)])
    columns = [*zip(*written, strict=True)] or [()] * len(_WRITTEN)
    return batch(
        {"run_index": numbers(run[places].astype(np.int32)), "event_index": numbers(at[places].astype(np.int32))}
        | {
            name: encoded(texts_of(value or None for value in values), np.array(codes, np.int64), is_large=True)
            for name, values in zip(_WRITTEN, columns, strict=True)
        }
    )
