"""Findings about traces, until all rules about them are in Python."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from etq.advice import kernels
from etq.advice.finding import Finding

if TYPE_CHECKING:
    import duckdb

_WHOLES: Final = {"device idle": "the device's time", "critical path": "the critical path"}
_OF_KERNELS: Final = ("device time", "below the roof", "fusable kernels", "unfused attention", "odd sizes")
# Whether so many launches are lost that the time of devices isn't known.
_MANY_LOST: Final = """
    SELECT 20 * count(t.lost_launches) >= count(*)
    FROM findings AS f
    JOIN signatures AS s ON s.capture_id = f.capture_id AND s.activity = 'call' AND s.purpose = 'launch'
        AND NOT contains(s.label, 'HostFunc')
    JOIN event_ticks AS e ON e.capture_id = s.capture_id AND e.signature_index = s.signature_index
    JOIN trace_events AS t ON t.capture_id = e.capture_id AND t.event_index = e.event_index
    WHERE f.capture_id = ? AND f.rule = 'lost kernels'
    HAVING count(t.lost_launches) > 0
"""


def trace_findings(connection: duckdb.DuckDBPyConnection, key: int) -> list[Finding]:
    """Return what the rules about traces find in one, unordered."""
    is_known = connection.execute(_MANY_LOST, [key]).fetchall() != [(True,)]
    if find_spec("etq.advice.traces") is None:
        others = _others(connection, key)
    else:
        others = import_module("etq.advice.traces").findings(connection, key)
    return [*others, *kernels.findings(connection, key, is_known)]


def _others(connection: duckdb.DuckDBPyConnection, key: int) -> list[Finding]:
    query = """
        SELECT f.rule, f.severity, f.finding, f.evidence, f.remedy, f.cause,
            f.time_at_stake * c.scale.divisor / c.scale.multiplier, f.share_percent
        FROM _scaled_key($key, 'us') AS c CROSS JOIN _trace_findings($key, 'us') AS f
    """
    return [
        Finding(*row[:7])._replace(whole=_WHOLES.get(row[0]), percent=row[7])
        for row in connection.execute(query, {"key": key}).fetchall()
        if row[0] not in _OF_KERNELS
    ]
