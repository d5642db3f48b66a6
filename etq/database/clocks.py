"""Writes the clocks of captures: the durations that each clock measured, and its step, which is derived from these
durations.
"""

from __future__ import annotations

from typing import Final

import duckdb

TABLE: Final = "capture_clocks"
# A query that reads clocks contains one of these names.
READ_BY: Final = frozenset({TABLE, "clock_steps"})
_DURATIONS: Final = """
    SELECT d.capture_id, d.clock, list(d.ticks ORDER BY d.ticks) AS ticks, list(d.events ORDER BY d.ticks) AS events
    FROM _clock_durations(?, ?) AS d
    GROUP BY d.capture_id, d.clock
    ORDER BY d.capture_id, d.clock
"""
_INSERTED: Final = f"""
    INSERT INTO {TABLE}
    SELECT unnest(?::INTEGER[]), unnest(?::VARCHAR[]), unnest(?::BIGINT[]), unnest(?::BIGINT[]), unnest(?::BIGINT[]),
        unnest(?::DOUBLE[])
"""


def write_clocks(connection: duckdb.DuckDBPyConnection, first: int = 0, last: int = 2**31 - 1) -> None:
    """Write the clocks of captures in a range of keys that have none yet."""
    from etq.ingest.events.clock_step import clocks_of

    rows = clocks_of(connection.sql(_DURATIONS, params=[first, last]).to_arrow_table())
    if rows:
        connection.execute(_INSERTED, [*map(list, zip(*rows, strict=True))])
