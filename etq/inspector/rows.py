"""The events of a capture as the views return them: one row each, as columns of Python values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.inspector.events import Statistics

if TYPE_CHECKING:
    from etq.inspector.events import TimeScaleConverter
    from etq.warehouse.warehouse import Capture, Warehouse

Integers = npt.NDArray[np.integer[Any]]
# An event's block, its slot in the block, and the number of its occurrence in a run.
Key = tuple[int, int, int]
_WRAPS: Final = 2**32
_ROWS: Final = """
    SELECT i.block_index, i.slot, i.occurrence, i.event_block_name, i.event_name, i.p10, i.p50, i.p90, i.avg, i.min,
        i.max, i.is_delegated_op, i.delegate_debug_identifier, i.instruction_id, nullif(i.unit, $unit)
    FROM _inspector_events($key, $unit, $repeats, NULL, NULL, NULL, 'all') AS i
    ORDER BY i.block_index, i.slot, i.occurrence
"""
# Events that a runtime logs after Method::execute without marking them as outputs: outputs that are not tensors.
_UNMARKED: Final = """
    SELECT s.block_index, s.slot FROM signatures AS s
    WHERE s.capture_id = $key AND s.kind = 'debug' AND s.chain_index = -1 AND s.label = ''
"""
_NUMBERED: Final = """
    SELECT s.block_index, s.slot, any_value(s.delegate_debug_id) FROM signatures AS s
    WHERE s.capture_id = $key AND s.delegate_debug_id IS NOT NULL GROUP BY ALL
"""
# The metadata of all events in slots for which any is logged.
_METADATA: Final = """
    WITH logged AS (
        SELECT DISTINCT s.block_index, s.slot
        FROM event_ticks AS t JOIN signatures AS s USING (capture_id, signature_index)
        WHERE t.capture_id = $key AND t.delegate_metadata IS NOT NULL
    )
    SELECT s.block_index, s.slot, t.occurrence, t.run_index, t.delegate_metadata
    FROM event_ticks AS t
    JOIN signatures AS s USING (capture_id, signature_index)
    JOIN logged AS l USING (block_index, slot)
    WHERE t.capture_id = $key
    ORDER BY t.run_index, t.event_index
"""


@dataclass(frozen=True)
class CaptureQueries:
    """Queries of one capture: its warehouse, the unit of times, and whether to reproduce the Inspector's errors."""

    warehouse: Warehouse
    capture: Capture
    unit: str
    compat: bool
    converter: TimeScaleConverter | None

    @property
    def repeats(self) -> str:
        """Return which occurrences of an event in a run have a row."""
        return "last" if self.compat else "all"

    @cached_property
    def with_nodes(self) -> CaptureQueries:
        """Return these queries after finding the nodes of the capture's events, if it has a record."""
        from etq.storage.linking import find_nodes

        with self.warehouse.locked() as connection:
            find_nodes(connection, self.capture.capture_id)
        return self

    @cached_property
    def with_ops(self) -> CaptureQueries:
        """Return these queries after finding the nodes and ops of the capture's events, if it has a record."""
        from etq.storage.linking import find_ops

        with self.with_nodes.warehouse.locked() as connection:
            find_ops(connection, self.capture.capture_id)
        return self

    def rows(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query, in which $capture selects the capture and $key is its key.

        Raises `QueryError` if it fails.
        """
        capture = {"capture": self.capture, "key": self.capture.capture_id}
        used = {name: value for name, value in capture.items() if f"${name}" in query}
        return self.warehouse.rows(query, **used, **parameters)[1]

    def arrays(self, query: str, **parameters: Any) -> dict[str, Any]:
        """Return the columns of a query of many rows, in which $key is the capture's, as numpy arrays."""
        with self.warehouse.locked() as connection:
            return connection.execute(query, {"key": self.capture.capture_id, **parameters}).fetchnumpy()


@dataclass
class Rows:
    """Events in order, by columns: `raw`, the six statistics and `starts`, as `inspector_events` has them.

    units  the unit of an event whose values aren't times; None for others
    """

    keys: list[Key]
    blocks: list[str]
    names: list[str]
    raw: list[list[float] | None]
    statistics: list[Statistics]
    identifiers: list[int | str | None]
    is_delegated: list[bool]
    instructions: list[int | None]
    starts: list[list[int] | None]
    units: list[str | None]


def read_rows(queries: CaptureQueries) -> Rows:
    """Return the events of a capture.

    Without `compat`, outputs of the program that the runtime failed to mark as such are not events.
    """
    found = queries.rows(_ROWS, unit=queries.unit, repeats=queries.repeats)
    if not queries.compat and any(name == "" for _, _, _, _, name, *_ in found):
        left_out = set(queries.rows(_UNMARKED))
        found = [row for row in found if row[:2] not in left_out]
    keys: list[Key] = [row[:3] for row in found]
    _, _, _, blocks, names, p10, p50, p90, avg, least, most, is_delegated, identifiers, instructions, units = [
        list(column) for column in zip(*found, strict=True)
    ] or [[] for _ in range(15)]
    raw, starts = _lists(queries, keys)
    rows = Rows(
        keys,
        blocks,
        names,
        raw,
        [Statistics(*values) for values in zip(p10, p50, p90, avg, least, most, strict=True)],
        _identifiers(queries, keys, identifiers),
        is_delegated,
        instructions,
        starts,
        [None] * len(keys) if queries.compat else units,
    )
    if queries.converter is not None or queries.compat:
        _convert_times(queries, rows)
    return rows


def _lists(queries: CaptureQueries, keys: list[Key]) -> tuple[list[list[float] | None], list[list[int] | None]]:
    """Return the durations and the starts of each event, one per run; None for events without times, or whose
    times `_convert_times` sets.
    """
    if queries.compat:
        return [None] * len(keys), [None] * len(keys)
    query = "SELECT s.signature_index, s.block_index, s.slot FROM signatures AS s WHERE s.capture_id = $key"
    # Occurrences of an event are in consecutive rows, the first occurrence first.
    first_rows = {key[:2]: at for at, key in reversed(list(enumerate(keys)))}
    signatures = queries.rows(query)
    first = np.full(max((index for index, *_ in signatures), default=0) + 1, -1, np.int64)
    for index, block, slot in signatures:
        first[index] = first_rows.get((block, slot), -1)
    columns = queries.arrays("FROM _event_values($key, $unit)", unit=queries.unit)
    groups = first[columns["signature_index"]] + columns["occurrence"]
    order, ends = _grouped(groups, columns["run_index"], len(keys))
    starts = columns["start_ticks"].view(np.uint64)
    # An array with unknown durations is masked, and its list has None for them.
    return _split(columns["raw"][order].tolist(), ends), _split(starts[order].tolist(), ends)


def _grouped(groups: Integers, runs: Integers, count: int) -> tuple[Integers, list[int]]:
    """Return the order of events by group and run, and the end index of each group."""
    ends = np.bincount(groups, minlength=count).cumsum().tolist()
    if len(runs) and (np.diff(runs) < 0).any():
        return np.lexsort((runs, groups)), ends
    # numpy sorts integers of two bytes by radix, which takes a tenth of the time.
    small = groups.astype(np.uint16) if count <= np.iinfo(np.uint16).max else groups
    return np.argsort(small, kind="stable"), ends


def _split(values: list[Any], ends: list[int]) -> list[list[Any] | None]:
    return [values[start:end] or None for start, end in zip([0, *ends], ends, strict=False)]


def _identifiers(queries: CaptureQueries, keys: list[Key], texts: list[str | None]) -> list[int | str | None]:
    """Return ids within delegates, as integers if they were written as integers."""
    if all(text is None for text in texts):
        return [*texts]
    numbers = {(block, slot): number for block, slot, number in queries.rows(_NUMBERED)}
    return [numbers.get(key[:2], text) for key, text in zip(keys, texts, strict=True)]


def _convert_times(queries: CaptureQueries, rows: Rows) -> None:
    """Replace durations: with `compat`, all by the Inspector's; with a converter, those of delegates' events by its
    results.
    """
    query = (
        "SELECT l.block_index, l.slot, l.occurrence, l.raw, l.starts, l.ends "
        "FROM _event_lists($key, $unit, $repeats) AS l"
    )
    if not queries.compat:
        query += " WHERE l.is_delegated"
    converted = {
        (block, slot, occurrence): (raw, starts, ends)
        for block, slot, occurrence, raw, starts, ends in queries.rows(
            query, unit=queries.unit, repeats=queries.repeats
        )
    }
    places = [at for at, key in enumerate(rows.keys) if key in converted]
    for at in places:
        raw, starts, ends = converted[rows.keys[at]]
        if queries.converter is not None and rows.is_delegated[at]:
            times = zip(starts, ends, strict=True)
            raw = [_converted(queries.converter, rows.names[at], start, end, queries.compat) for start, end in times]
            rows.units[at] = None
        rows.raw[at] = raw
        rows.starts[at] = [start % 2**64 for start in starts]
    for at, statistics in zip(places, _statistics(queries, [rows.raw[at] for at in places]), strict=True):
        rows.statistics[at] = statistics


def _converted(converter: TimeScaleConverter, name: str, start: int, end: int, compat: bool) -> Any:
    """Return the duration of a delegate's event: the user's function converts its start and its end."""
    if end < start and not compat:
        end += _WRAPS
    first, last = converter(name, start), converter(name, end)
    return last - first if first <= last or not compat else _WRAPS - 1 - first + last


def _statistics(queries: CaptureQueries, lists: list[list[float] | None]) -> list[Statistics]:
    table = pa.table({"at": pa.array(range(len(lists)), pa.int64()), "raw": pa.array(lists, pa.list_(pa.float64()))})
    connection = queries.warehouse.connection
    connection.register("_lists", table)
    try:
        query = "SELECT unnest(_list_statistics(l.raw)) FROM _lists AS l ORDER BY l.at"
        return [Statistics(*row) for row in connection.execute(query).fetchall()]
    finally:
        connection.unregister("_lists")


def read_metadata(queries: CaptureQueries) -> dict[Key, list[Any]]:
    """Return what delegates logged with events' times: for each run bytes, or an empty text.

    Events for which no run logged any metadata are left out.
    """
    found: dict[Key, dict[int, bytes | None]] = {}
    for block, slot, occurrence, run, metadata in queries.rows(_METADATA):
        found.setdefault((block, slot, 0 if queries.compat else occurrence), {})[run] = metadata
    return {
        key: ["" if metadata is None else metadata for metadata in of_runs.values()]
        for key, of_runs in found.items()
        if any(metadata is not None for metadata in of_runs.values())
    }
