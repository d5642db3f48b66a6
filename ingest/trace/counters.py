"""The counters of a trace's ranges, which the profiler records by CUPTI with `profiler_metrics`.

Source: Kineto's `CuptiRangeProfiler.cpp`. Each range has its counters among its arguments, by their names. A sample of
a device's counter (`handleCounterEvent` of `output_json.cpp`) has the name of the counter, and the value under an empty
name.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.arrow import batch, encoded, numbers
from etq.ingest.trace.columns import Numbered
from etq.ingest.trace.scanner import Arguments, DeviceArguments
from etq.ingest.trace.types import Entries, Part

Whole = npt.NDArray[np.int64]
# Arguments of other device events, which are not counters.
_OTHERS: Final = frozenset(
    each.encode_name for kind in (Arguments, DeviceArguments) for each in msgspec.structs.fields(kind)
)
# Values of this size or more are impossible, and their sums might not be finite.
_MOST: Final = 1e18


class RangeEvent(msgspec.Struct, gc=False):
    """An entry; only its name and arguments are read."""

    name: str = ""
    args: dict[str, msgspec.Raw] | None = None


_ranges: Final = msgspec.json.Decoder(list[RangeEvent])
_range: Final = msgspec.json.Decoder(RangeEvent)
_number: Final = msgspec.json.Decoder(float)


def event_counters(entries: Entries, at: Whole, run: Whole, find: Callable[[str, str], Any]) -> pa.RecordBatch:
    """Return the table `event_counters` of the entries at these positions; `run` has the run of each.

    Impossible values, and values that aren't numbers, are left out, with a finding.
    """
    order = np.argsort(at, kind="stable")
    names, left_out = Numbered(), 0
    places, codes, values = array("q"), array("q"), array("d")
    ranges = iter(order.tolist())

    def add(events: list[RangeEvent]) -> None:
        nonlocal left_out
        for event in events:
            place = next(ranges)
            for name, written in (event.args or {}).items():
                if name in _OTHERS:
                    continue
                value = _value_of(written)
                if value is None:
                    left_out += 1
                    continue
                places.append(place)
                codes.append(names[name or event.name])
                values.append(value)

    entries.decode(Part(at[order], _ranges, _one, add))
    if left_out:
        find("counters left out", f"values that are not numbers, or can't be true: {left_out}")
    of_ranges = np.frombuffer(places, np.int64) if places else np.zeros(0, np.int64)
    return batch(
        {
            "run_index": numbers(run[of_ranges].astype(np.int32)),
            "event_index": numbers(at[of_ranges].astype(np.int32)),
            "counter": encoded([*names], np.array(codes, np.int64)),
            "value": numbers(np.array(values, np.float64)),
        }
    )


def _value_of(written: msgspec.Raw) -> float | None:
    """Return a number; None for other JSON, and for impossible numbers."""
    try:
        value = _number.decode(written)
    except msgspec.DecodeError:
        return None
    return value if -_MOST < value < _MOST else None


def _one(entry: msgspec.Raw) -> RangeEvent:
    """Return an entry's arguments; none if they have another tool's layout."""
    try:
        return _range.decode(bytes(entry).decode("utf-8", "replace").encode())
    except msgspec.DecodeError:
        return RangeEvent()
