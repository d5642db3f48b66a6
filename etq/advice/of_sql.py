"""Findings about traces, from rules that are still in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from etq.advice.finding import Finding

if TYPE_CHECKING:
    import duckdb

_WHOLES: Final = {
    "device idle": "the device's time",
    "critical path": "the critical path",
    "fusable kernels": "the devices' time from first to last event",
}


def trace_findings(connection: duckdb.DuckDBPyConnection, key: int) -> list[Finding]:
    """Return what the rules about traces find in one, unordered."""
    query = """
        SELECT f.rule, f.severity, f.finding, f.evidence, f.remedy, f.cause,
            f.time_at_stake * c.scale.divisor / c.scale.multiplier, f.share_percent
        FROM _scaled_key($key, 'us') AS c CROSS JOIN _trace_findings($key, 'us') AS f
    """
    return [
        Finding(*row[:7], whole=_WHOLES.get(row[0], "the time of kernels, copies and fills"), percent=row[7])
        for row in connection.execute(query, {"key": key}).fetchall()
    ]
