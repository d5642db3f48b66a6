-- The own times of captures' events, computed from the other columns of `event_ticks`. Readers write these times. They
-- are computed here to check them, and for files whose own times the reader could not know in time. Only events in
-- ticks of the host's clock that are not detached are subtracted or added. If events of a trace's thread overlap, each
-- moment counts once, for the event that began last. So no self time is negative, the self times within an execute add
-- up to the execute, and the self times of a thread add up to the time that its events cover.
CREATE MACRO _find_own_times(first_key, last_key) AS TABLE
WITH timed AS (
    SELECT e.capture_id, e.run_index, e.event_index, e.parent_index,
        coalesce(e.parent_run_index, e.run_index) AS parent_run_index,
        CASE
            WHEN c.clock_bits = 32
                AND e.elapsed_ticks BETWEEN -4294967295 AND -1
                AND e.elapsed_ticks <> -e.start_ticks
                AND e.start_ticks BETWEEN 0 AND 4294967295
                THEN e.elapsed_ticks + 4294967296
        END AS turned_ticks,
        CASE WHEN e.elapsed_ticks >= 0 THEN e.elapsed_ticks ELSE turned_ticks END AS ticks,
        ticks - coalesce(e.overlap_ticks, 0) AS counted_ticks,
        s.clock = 'host' AND s.value_unit = 'ticks' AS is_host_ticks,
        is_host_ticks AND (NOT e.is_detached OR coalesce(e.event_index = e.execute_index, false)) AS is_additive,
        e.is_detached,
        coalesce(
            e.event_index = e.execute_index
            AND (s.name <> 'Method::step' OR s.chain_index = 0 AND s.instruction_id = 0 AND e.occurrence = 0), false
        ) AS is_execute
    FROM event_ticks AS e
    JOIN captures AS c USING (capture_id)
    JOIN signatures AS s USING (capture_id, signature_index)
    WHERE e.capture_id BETWEEN first_key AND last_key
),
inner_times AS (
    SELECT t.capture_id, t.parent_run_index AS run_index, t.parent_index AS event_index, count(*) AS children,
        least(coalesce(sum(t.counted_ticks), 0), 9223372036854775807)::BIGINT AS counted_ticks,
        least(coalesce(sum(t.ticks), 0), 9223372036854775807)::BIGINT AS ticks
    FROM timed AS t
    WHERE t.is_host_ticks AND NOT t.is_detached AND t.parent_index IS NOT NULL
    GROUP BY t.capture_id, t.parent_run_index, t.parent_index
)
SELECT t.capture_id, t.run_index, t.event_index, t.turned_ticks AS unwrapped_ticks,
    coalesce(i.children, 0)::INTEGER AS children,
    coalesce(t.counted_ticks, 0) - coalesce(i.counted_ticks, 0) AS self_ticks,
    nullif(coalesce(t.ticks, 0) - coalesce(i.ticks, 0), self_ticks) AS torch_self_ticks, t.is_additive, t.is_execute
FROM timed AS t
LEFT JOIN inner_times AS i USING (capture_id, run_index, event_index);
