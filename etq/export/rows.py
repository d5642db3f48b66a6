"""Helpers of the formats: rows in blocks, JSON, times as text, lanes for events that do not nest."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

    from etq.database.handles import Answers, Capture

# How many rows of a capture are in Python's memory at once.
AT_ONCE: Final = 8192
# The digits of a nanosecond count after the point of microseconds.
_FRACTIONS: Final = [f".{number:03d}" for number in range(1000)]
# The longest time in nanoseconds: about 290 years.
LONGEST: Final = 9.2e18
# The most lanes for overlapping bars in a track; events that don't nest in any lane get a separate track.
LANES: Final = 8


def blocks(warehouse: Answers, query: str, parameters: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yield a query's rows in blocks, in order. They are streamed: run no other query until the last block is read."""
    yield from warehouse.connection.sql(query, params=dict(parameters)).to_arrow_reader(AT_ONCE)


def encoded(value: Any) -> str:
    """Return a value as JSON in pure ASCII, which every reader accepts, whatever characters a name has.

    NaN and infinities, which JSON lacks, become null, as in other tools.
    """
    try:
        return json.dumps(value, separators=(",", ":"), default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"), default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def stated(pairs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pairs whose values are neither NULL nor empty lists."""
    return {name: value for name, value in pairs.items() if value is not None and value != []}


def whole(rows: pa.RecordBatch, column: str) -> list[int]:
    """Return a column of times as integers, 0 for NULL, limited to 64 bits."""
    import numpy as np

    times = np.nan_to_num(rows.column(column).to_numpy(zero_copy_only=False))
    rounded: list[int] = np.rint(np.clip(times, -LONGEST, LONGEST)).astype(np.int64).tolist()
    return rounded


def microseconds(nanoseconds: int) -> str:
    """Return whole nanoseconds as microseconds, exactly."""
    if nanoseconds < 0:
        return f"-{microseconds(-nanoseconds)}"
    return f"{nanoseconds // 1000}{_FRACTIONS[nanoseconds % 1000]}"


def about(warehouse: Answers, capture: Capture) -> dict[str, Any]:
    """Return the properties of the capture that a file mentions: name, hash, time scale, time of capture, labels."""
    _, [(scale, moment)] = warehouse.rows(
        "SELECT c.time_scale, c.captured_at FROM captures AS c WHERE c.capture_id = $id", id=capture.capture_id
    )
    labels = dict(
        warehouse.rows(
            "SELECT l.key, l.value FROM labels AS l WHERE l.capture_id = $id ORDER BY l.key", id=capture.capture_id
        )[1]
    )
    properties = {"capture": capture.name, "sha256": capture.sha256, "format": capture.format, "time_scale": scale}
    return stated({**properties, "captured_at": moment and moment.isoformat(), "labels": labels or None})


def unit_of(warehouse: Answers, capture: Capture) -> str:
    """Return the unit of times: nanoseconds, or cycles if ticks are cycles."""
    return "cycles" if about(warehouse, capture)["time_scale"] == "cycles" else "ns"


class Lanes:
    """Assigns the bars of each track, which come ordered by start, to lanes; bars of one lane nest or don't overlap."""

    def __init__(self) -> None:
        self._ends: dict[int, list[list[int]]] = {}

    def place(self, track: int, start: int, end: int) -> int | None:
        """Return the first lane, from 0, that a bar fits into, None if no allowed lane has room."""
        lanes = self._ends.get(track)
        if lanes is None:
            lanes = self._ends[track] = []
        for at, stack in enumerate(lanes):
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or end <= stack[-1]:
                stack.append(end)
                return at
        if len(lanes) == LANES:
            return None
        lanes.append([end])
        return len(lanes) - 1
