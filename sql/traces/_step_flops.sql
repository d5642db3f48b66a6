-- The total operations of the ops of one run of a trace, such as a step. `compute_ticks`: the least time of the
-- operations at the peaks of their types, as far as these are known. `known_ticks`: the part of `ticks` whose
-- operations are known; copies, fills and communication have none. `costed_ticks`: the same with kernels that are known
-- to be limited by their bytes. `unpeaked_ticks`: the part of `known_ticks` whose peak is unknown. In a trace without
-- device events, an op may contain others that do its work, as aten::linear contains aten::addmm: it counts for what it
-- does beyond these.
CREATE MACRO _step_flops(
    rated  -- a table of the rows of `_rated_work`
) AS TABLE
WITH written AS (
    SELECT r.flops AS all_flops, coalesce(r.flops IS NOT NULL OR r.family = 'communication', false) AS is_known,
        CASE WHEN r.flops > 0 THEN r.flops * 1e9 / r.most_flops ELSE r.flops END AS all_compute_ticks,
        coalesce(r.is_bytes_alone AND r.bytes IS NOT NULL, false) AS has_bytes,
        CASE
            WHEN regexp_matches(r.reason, '^(no|recorded) ') OR r.label IS NULL THEN r.reason
            WHEN r.reason IS NULL OR starts_with(r.reason, 'bytes: ') THEN 'no operations are known of ' || r.label
            ELSE r.label || ': ' || r.reason
        END AS reason,
        r.device, r.most_flops IS NOT NULL OR r.bandwidth IS NOT NULL AS has_peaks, unnest(r.parts, recursive := true)
    FROM query_table(rated) AS r
),
calls AS (
    SELECT w.*, w.all_flops - coalesce(w.inner_flops, 0) AS flops,
        CASE WHEN w.inner_flops > 0 THEN 1 - w.inner_flops / w.all_flops ELSE 1 END * w.all_compute_ticks
            AS compute_ticks
    FROM written AS w
)
SELECT c.run_index, sum(c.flops)::HUGEINT AS flops,
    sum(CASE WHEN c.is_recomputed THEN c.flops END)::HUGEINT AS repeated_flops, fsum(c.compute_ticks) AS compute_ticks,
    fsum(CASE WHEN c.is_recomputed THEN c.compute_ticks END) AS repeated_compute_ticks,
    sum(c.ticks)::BIGINT AS ticks, sum(CASE WHEN c.is_known THEN c.ticks ELSE c.copy_ticks END)::BIGINT AS known_ticks,
    sum(CASE WHEN c.is_known OR c.has_bytes THEN c.ticks ELSE c.copy_ticks END)::BIGINT AS costed_ticks,
    coalesce(sum(c.ticks) FILTER (c.flops > 0 AND c.compute_ticks IS NULL), 0)::BIGINT AS unpeaked_ticks,
    arg_max(c.reason, (c.ticks - c.copy_ticks, c.reason)) FILTER (NOT c.is_known AND c.ticks > c.copy_ticks) AS reason,
    any_value(c.device) AS device, coalesce(bool_or(c.has_peaks), false) AS has_peaks
FROM calls AS c
GROUP BY c.run_index;
