-- The memory that is held at the peak of each device of a trace, by the op that allocated it, by the line of the user's
-- code that called this op, or by the modules around it; the largest first. The peak is the first time at which most
-- bytes are in use, according to the trace. Memory that is in use then and whose allocation the trace doesn't have was
-- allocated before the recording. Empty for traces that don't record memory.
-- Needs: torch_trace; else: memory_totals
-- Empty: {capture} has no allocations: record them with profile_memory=True
-- Shown: coalesce(source, module, op, '(no op)') AS op!, device!, held_bytes! (bytes), share_percent!%, step#, allocations#, peak_bytes
--   (bytes), peak_time (time), unit
-- Share: of the sum of all rows of the device
-- Columns:
--   device: CPU, GPU0, ...
--   peak_bytes: bytes in use at the peak
--   peak_time: time of the peak, relative to the start of the recording
--   op: innermost op or module of the thread at the allocation; (before the recording) for memory that was allocated before; NULL if there is none, and, by source and by module, for all other memory
--   step: number of the step that allocated it; NULL outside of steps
--   allocations: number of allocations that are held; NULL before the recording
--   held_bytes: sum of their sizes in bytes
--   share_percent: held_bytes in percent of the sum of all rows of the device
--   unit: the requested unit of time
--   source: innermost line of the user's code around that op, (no line of the user's) or (no stack); NULL unless by source
--   module: names of the modules around that op, separated by slashes, or (no module); NULL unless by module
CREATE MACRO peak_memory(
    capture, unit := NULL,
    "by" := 'op'  -- op, source or module
) AS TABLE
WITH target AS MATERIALIZED (
    SELECT c.*, _checked_by("by", ['op', 'source', 'module']) AS parted_by FROM _scaled_capture(capture, unit) AS c
),
started AS (
    SELECT least(min(r.start_ticks), min(m.at_ticks)) AS ticks
    FROM target AS a
    LEFT JOIN recordings AS r USING (capture_id)
    LEFT JOIN trace_memory AS m ON m.capture_id = a.capture_id
),
memory AS MATERIALIZED (FROM _allocations((SELECT a.capture_id FROM target AS a))),
peaks AS MATERIALIZED (
    SELECT m.device, m.most AS bytes, CASE WHEN m.is_before THEN s.ticks ELSE m.at_ticks END AS at_ticks,
        m.place - m.is_before::INTEGER AS place
    FROM (
        -- Before a recording that begins with a release, more is in use than after it.
        SELECT l.*, _allocated_before(l.total_allocated, l.bytes) AS before_bytes,
            l.place = 1 AND coalesce(before_bytes > l.total_allocated, false) AS is_before,
            CASE WHEN is_before THEN before_bytes ELSE l.total_allocated END AS most
        FROM memory AS l
    ) AS m CROSS JOIN started AS s
    QUALIFY row_number() OVER (PARTITION BY m.device ORDER BY m.most DESC, m.place) = 1
),
held AS (
    SELECT l.device, l.call_index, l.at_ticks, l.bytes
    FROM memory AS l
    JOIN peaks AS p USING (device)
    WHERE l.bytes > 0 AND l.place <= p.place AND (l.until_place IS NULL OR l.until_place > p.place)
),
steps AS (
    SELECT w.start_ticks, w.end_ticks, w.step
    FROM target AS a
    JOIN _written_steps AS w USING (capture_id)
),
owned AS (
    SELECT h.device, CASE a.parted_by WHEN 'op' THEN g.label END AS op,
        CASE a.parted_by WHEN 'source' THEN _shown_line(l.source) END AS source,
        CASE a.parted_by
            WHEN 'module' THEN coalesce(array_to_string(m.modules, '/'), '(no module)')
        END AS module,
        CASE WHEN h.at_ticks < s.end_ticks THEN s.step END AS step, h.bytes
    FROM held AS h CROSS JOIN target AS a
    LEFT JOIN (
        FROM target AS a
        JOIN event_ticks AS e USING (capture_id)
        JOIN signatures AS s USING (capture_id, signature_index)
    ) AS g ON g.event_index = h.call_index
    -- By op, the planner knows from this that these tables aren't read.
    LEFT JOIN (
        FROM target AS a JOIN trace_events AS i USING (capture_id) WHERE "by" = 'source'
    ) AS l ON l.event_index = h.call_index
    LEFT JOIN (
        FROM _event_module_paths((SELECT a.capture_id FROM target AS a)) AS p WHERE "by" = 'module'
    ) AS m ON m.event_index = h.call_index
    ASOF LEFT JOIN steps AS s ON row(h.at_ticks) >= row(s.start_ticks)
),
rows_of_ops AS (
    SELECT o.device, o.op, o.source, o.module, o.step, count(*) AS allocations,
        try_cast(sum(o.bytes) AS BIGINT) AS bytes
    FROM owned AS o
    GROUP BY o.device, o.op, o.source, o.module, o.step
),
unseen AS (
    SELECT p.device, p.bytes - coalesce(r.bytes, 0) AS bytes
    FROM peaks AS p
    LEFT JOIN (
        SELECT o.device, try_cast(sum(o.bytes) AS BIGINT) AS bytes FROM rows_of_ops AS o GROUP BY o.device
    ) AS r ON r.device = p.device
),
all_rows AS (
    SELECT o.device, o.op, o.source, o.module, o.step, o.allocations, o.bytes FROM rows_of_ops AS o
    UNION ALL
    SELECT u.device, '(before the recording)', NULL, NULL, NULL, NULL, u.bytes FROM unseen AS u WHERE u.bytes > 0
)
SELECT
    r.device, p.bytes AS peak_bytes, _in_unit(p.at_ticks - s.ticks, a.scale) AS peak_time, r.op, r.step, r.allocations,
    r.bytes AS held_bytes, 100 * r.bytes::DOUBLE / sum(r.bytes) OVER (PARTITION BY r.device) AS share_percent, a.unit,
    r.source, r.module
FROM all_rows AS r
JOIN peaks AS p USING (device)
CROSS JOIN target AS a CROSS JOIN started AS s
ORDER BY r.device, r.bytes DESC, r.op, r.source, r.module, r.step;
