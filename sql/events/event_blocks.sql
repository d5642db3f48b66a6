-- One event block: the runs of one name that logged the same events in the same order. Runs of one name with different
-- control flow are in different blocks.
-- Shown: name!, block_index!#, runs!#, events!#, first_run#, last_run#, bundled_input_index#
-- Columns:
--   block_index: key within the capture, in the order of the blocks' first runs
--   name: name of its runs
--   runs: number of its runs
--   first_run: run_index of its first run
--   last_run: run_index of its last run
--   events: number of its distinct events
--   bundled_input_index: which bundled input they ran; NULL where none is named
CREATE MACRO event_blocks(capture) AS TABLE
WITH target AS MATERIALIZED (FROM _capture(capture, NULL)),
block_runs AS (
    SELECT r.block_index, r.name, r.bundled_input_index, count(*) AS runs, min(r.run_index) AS first_run,
        max(r.run_index) AS last_run
    FROM target AS a
    JOIN runs AS r USING (capture_id)
    WHERE r.block_index IS NOT NULL
    GROUP BY r.block_index, r.name, r.bundled_input_index
),
block_events AS (
    SELECT s.block_index, count(DISTINCT s.slot) AS events
    FROM signatures AS s
    WHERE s.capture_id = (SELECT a.capture_id FROM target AS a)
    GROUP BY s.block_index
)
SELECT b.block_index, b.name, b.runs, b.first_run, b.last_run, coalesce(s.events, 0) AS events, b.bundled_input_index
FROM block_runs AS b
LEFT JOIN block_events AS s USING (block_index)
ORDER BY b.block_index;
