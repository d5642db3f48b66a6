"""Values that only some graphs have: numeric gaps, planned memory, distance from the roofline."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from etq.errors import EtqError
from etq.report.overlays import METRICS
from etq.report.target import Target

# Numbers that stand for infinity and NaN on a page. NaN counts as bad.
UNBOUNDED: Final = 1e308
NAN: Final = 1.5e308


@dataclass(frozen=True)
class GraphExtras:
    """The options for these values.

    gap             the capture whose values are assumed to be right: gaps are distances from its values
    peak_flops      peak rate of the device in operations per second; None: the capture's metric
    peak_bandwidth  peak bandwidth of its memory in bytes per second; None: the capture's metric
    """

    gap: str | None = None
    peak_flops: float | None = None
    peak_bandwidth: float | None = None


NOTHING_MORE: Final = GraphExtras()

MEMORY: Final = """
    SELECT
        m.graph_id, m.node_index, sum(m.size_bytes)::BIGINT AS planned_bytes,
        sum(m.peak_size_bytes)::BIGINT AS peak_bytes
    FROM node_memory($capture) AS m
    GROUP BY ALL
"""

ROOFLINE: Final = """
    SELECT
        r.graph_id, r.node_index, r.above_roof, r.roof_percent, r.bound,
        r.above_roof_per_execute AS roof_per_execute
    FROM node_roofline(
        $capture, peak_flops := $peak_flops, peak_bandwidth := $peak_bandwidth, unit := $unit, method := $method,
        runs := $basis
    ) AS r
"""

GAPS: Final = f"""
    SELECT
        g.graph_id, g.node_index,
        {", ".join(f"max(g.gap) FILTER (WHERE g.metric = '{metric}') AS {metric}" for metric in METRICS)},
        string_agg(g.metric, ', ' ORDER BY g.metric) FILTER (WHERE g.grows) AS gap_grows, max(g.problem) AS gap_problem
    FROM ({" UNION ALL ".join(f"FROM node_gaps($gap, $capture, metric := '{metric}')" for metric in METRICS)}) AS g
    GROUP BY ALL
"""

# Facts that explain why no node has a gap: the number of logged values of each capture, the reference first; then
# problems of values.
LACK: Final = """
    SELECT c.name, count(v.capture_id) AS number
    FROM captures AS c
    LEFT JOIN debug_values AS v ON v.capture_id = c.capture_id
    WHERE c.sha256 = $gap OR c.capture_id = $capture
    GROUP BY c.capture_id, c.name
    ORDER BY c.capture_id = $capture
"""

# A module has the sum of its nodes' values, or the worst gap among them.
WITH_GROUPS: Final = """
    WITH
    members AS (
        SELECT DISTINCT m.graph_id, m.node_index, m.module_path
        FROM captures AS c
        JOIN node_modules AS m ON m.record_id = c.record_id
        WHERE c.capture_id = $capture
    ),
    more AS MATERIALIZED ({query})
    SELECT e.graph_id, e.node_index, NULL AS module_path, e.* EXCLUDE (graph_id, node_index)
    FROM more AS e
    UNION ALL BY NAME
    SELECT m.graph_id, m.module_path, {columns}
    FROM members AS m
    JOIN more AS e ON e.graph_id = m.graph_id AND e.node_index = m.node_index
    GROUP BY m.graph_id, m.module_path
"""


def more_values(target: Target, more: GraphExtras) -> Iterator[tuple[list[str], dict[Any, Any], dict[Any, Any]]]:
    """Yield these values of nodes and groups: names of columns, values by (graph, node) and by (graph, path)."""
    worst = {metric: f"max(e.{metric})" for metric in METRICS}
    worst |= {metric: f"-max(-e.{metric})" for metric in ("snr", "cosine")}
    # These views are only read if the capture has the data that they need, because planning them takes time.
    has_peaks = """
        SELECT 1 FROM metrics AS m JOIN captures AS c ON c.capture_id = m.capture_id
        WHERE c.capture_id = $capture AND m.name IN ('peak_flops', 'peak_bandwidth')
    """
    parts: list[tuple[bool, str, dict[str, str]]] = [
        (
            more.peak_flops is not None or more.peak_bandwidth is not None or bool(target.rows(has_peaks)[1]),
            ROOFLINE,
            {name: f"fsum(e.{name})" for name in ("above_roof", "roof_per_execute")},
        ),
        (target.has_program, MEMORY, {name: f"sum(e.{name})::BIGINT" for name in ("planned_bytes", "peak_bytes")}),
        (more.gap is not None, GAPS, worst),
    ]
    for is_there, query, columns in parts:
        if not is_there:
            continue
        parameters = {name: value for name, value in asdict(more).items() if f"${name}" in query}
        totals = ", ".join(f"{value} AS {name}" for name, value in columns.items())
        names, rows = target.rows(WITH_GROUPS.format(query=query, columns=totals), **parameters)
        if query == GAPS:
            _check_gaps(target, more, [row[3:] for row in rows])
        values = {row[:2]: row[3:] for row in rows if row[1] is not None}
        of_groups = {(row[0], row[2]): row[3:] for row in rows if row[1] is None}
        yield names[3:], values, of_groups


def _check_gaps(target: Target, more: GraphExtras, rows: list[tuple[Any, ...]]) -> None:
    """Raise `EtqError` with the cause if no row has a gap. The last value of a row is the row's problem."""
    if any(value is not None for row in rows for value in row[:-1]):
        return
    captures = target.rows(LACK, gap=more.gap)[1]
    lacking = [name for name, number in captures if number == 0]
    if lacking:
        raise EtqError(
            f"{' and '.join(lacking)}: no logged values, so {target.name} has no gaps; run the program with a debug "
            "buffer and ingest it with --debug-buffer and --values, or compute a reference (etq ingest --reference)"
        )
    problems = sorted({row[-1] for row in rows if row[-1] is not None})
    cause = "; ".join(problems) or "no op of the graph has a value in both"
    raise EtqError(f"{target.name}: no gaps to {captures[0][0]}: {cause.replace(' in base', f' in {captures[0][0]}')}")


def bounded(value: Any, sign: int) -> Any:
    """Return a value for a page: infinity becomes `UNBOUNDED` with its sign, and NaN becomes `NAN` times `sign`.

    If `sign` is 0, the value is unchanged.
    """
    if not sign or not isinstance(value, float) or value - value == 0:
        return value
    return sign * NAN if math.isnan(value) else math.copysign(UNBOUNDED, value)
