"""The timeline of a report: as many events as fit into a page, with their details."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from etq.report.columns import Table
from etq.report.kit import Section

# The most events on a page: about 2 MB, drawn at once.
MOST_EVENTS: Final = 200_000

# The runs to show: as many as fit, but at least one. From each block, these are the first runs, the runs nearest to the
# median, the slowest and the fastest.
RUNS: Final = """
    WITH
    counted AS (
        SELECT r.run_index, r.name, r.method, r.block_index, r.iteration, count(*) AS events
        FROM captures AS c
        JOIN runs AS r ON r.capture_id = c.capture_id
        JOIN event_ticks AS t ON t.capture_id = r.capture_id AND t.run_index = r.run_index
        WHERE c.capture_id = $capture
        GROUP BY ALL
    ),
    timed AS (
        SELECT n.*, x.execute, x.is_warm_up, x.is_outlier, x.unit, abs(x.execute - x.block_median) AS off
        FROM counted AS n
        LEFT JOIN run_times($capture, unit := $unit) AS x ON x.run_index = n.run_index
    ),
    placed AS (
        SELECT
            t.*,
            least(
                row_number() OVER (PARTITION BY t.block_index ORDER BY t.run_index),
                row_number() OVER (PARTITION BY t.block_index ORDER BY t.off, t.run_index),
                row_number() OVER (PARTITION BY t.block_index ORDER BY t.execute DESC NULLS LAST, t.run_index),
                row_number() OVER (PARTITION BY t.block_index ORDER BY t.execute NULLS LAST, t.run_index)
            ) AS place
        FROM timed AS t
    )
    SELECT
        p.run_index, p.name, p.method, p.block_index, p.iteration, p.events, p.execute, p.is_warm_up, p.is_outlier,
        p.unit, count(*) OVER () AS all_runs
    FROM placed AS p
    QUALIFY
        sum(p.events) OVER (ORDER BY p.place, p.run_index) <= $most
        OR row_number() OVER (ORDER BY p.place, p.run_index) = 1
    ORDER BY p.run_index
"""

# Events of a backend are shown within their call. Events without a known position in time are left out.
EVENTS: Final = """
    WITH
    target AS MATERIALIZED (SELECT c.capture_id, c.unit FROM _capture($capture, $unit) AS c)
    SELECT
        t.run_index, t.signature_index, {lane} AS lane,
        t.depth, t.run_start, t.start, t.duration, _in_unit(t.self_logged, t.scale) AS self_time, t.is_estimated,
        _in_unit(t.logged, t.scale) AS value, _display_unit(t.logged_unit, t.unit) AS value_unit{more}
    FROM (
        SELECT t.*, _scale(t.logged_unit, t.unit) AS scale
        FROM _timeline(
            (SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a), $runs, NULL, NULL, NULL
        ) AS t
        WHERE t.start IS NOT NULL AND t.duration IS NOT NULL {kept}
    ) AS t{joined}
    ORDER BY t.run_index, lane, t.depth, t.start, t.event_index
"""

LANE: Final = "CASE WHEN t.thread_index IS NULL THEN 'host' ELSE t.track END"
# In a trace, streams of devices without a name in the file are called by their numbers.
LANE_OF_TRACE: Final = f"coalesce(n.lane, {LANE})"

# Names of streams, and columns that a trace records for each call.
OF_TRACE: Final = """
    LEFT JOIN (
        SELECT e.thread_index, min('device ' || d.device || ', stream ' || d.stream) AS lane
        FROM captures AS c
        JOIN device_events AS d ON d.capture_id = c.capture_id
        JOIN trace_events AS e
            ON e.capture_id = d.capture_id AND e.run_index = d.run_index AND e.event_index = d.event_index
        JOIN threads AS h ON h.capture_id = e.capture_id AND h.thread_index = e.thread_index
        WHERE c.capture_id = $capture AND h.thread_name IS NULL
        GROUP BY e.thread_index
        HAVING count(DISTINCT d.device || ' ' || d.stream) = 1
    ) AS n ON n.thread_index = t.thread_index
    LEFT JOIN captures AS c ON c.capture_id = $capture
    LEFT JOIN op_arguments AS a
        ON a.capture_id = c.capture_id AND a.run_index = t.run_index AND a.event_index = t.event_index"""

SIGNATURES: Final = """
    SELECT
        s.signature_index, s.kind, s.category, s.activity, s.label, s.family,
        CASE WHEN s.chain_index <> -1 THEN s.instruction_id END AS instruction_id, o.op_type,
        array_to_string(o.op_types, ', ') AS op_types, o.output_shape, o.module_path, o.source_file, o.source_line,
        o.lines, o.mapping, o.backend
    FROM captures AS c
    JOIN signatures AS s ON s.capture_id = c.capture_id
    LEFT JOIN signature_ops AS o ON o.capture_id = s.capture_id AND o.signature_index = s.signature_index
    WHERE c.capture_id = $capture
    ORDER BY s.signature_index
"""


def timeline_section(ask: Callable[..., Table], is_trace: bool, most: int = MOST_EVENTS) -> Section | None:
    """Return the section, None if the capture has no events. `most` is the largest number of events."""
    runs = ask(RUNS, most=most)
    if not runs.length:
        return None
    chosen = _column(runs, "run_index")
    events, all_runs = _column(runs, "events")[0], _column(runs, "all_runs")[0]
    notes = []
    kept = ""
    if len(chosen) < all_runs:
        notes.append(
            f"The page has {len(chosen):,} of {all_runs:,} runs: of equal runs the first, the slowest, the fastest and "
            "the most typical."
        )
    if len(chosen) == 1 and events > most:
        kept = f"QUALIFY row_number() OVER (ORDER BY t.duration DESC, t.event_index) <= {most:d}"
        notes.append(f"It has the {most:,} longest of the {events:,} events of run {chosen[0]}.")
    lane, more, joined = (LANE_OF_TRACE, ", a.shapes", OF_TRACE) if is_trace else (LANE, "", "")
    lain = ask(EVENTS.format(lane=lane, more=more, joined=joined, kept=kept), runs=chosen)
    tables = {"runs": runs, "events": lain, "signatures": ask(SIGNATURES)}
    return Section("timeline", "Timeline", tables, note=" ".join(notes) or None)


def _column(table: Table, name: str) -> list[int]:
    values: list[int] = table.columns[table.names.index(name)]
    return values
