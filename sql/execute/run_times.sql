-- One run that executed, judged by those that logged the same events: the first
-- run of a name warms up, and an outlier took many times the median of its
-- block. Where long runs are more than a few, they are no outliers, but of
-- another method or input.
-- Columns:
--   run_index: the run
--   block_index: its event block
--   execute: time of its executes; NULL where it is impossible
--   tax: what is left of it beside the work; NULL where that can't be told
--   tax_percent: tax in percent of execute
--   is_first: whether it is the first run of its name, with enough runs of its block behind it
--   is_outlier: whether it is another one and took many times the median of its block
--   middle: median of its block without first runs
--   unit: unit of execute, tax and middle
CREATE MACRO _judged_runs(
    capture,  -- as everywhere
    unit,  -- as everywhere
    skip_first,  -- as in `schedule`
    wait,  -- as in `schedule`
    warmup,  -- as in `schedule`
    active,  -- as in `schedule`
    repeat,  -- as in `schedule`
    skip_first_wait,  -- as in `schedule`
    phase,  -- as everywhere
    later_runs := 3,  -- number of later runs that make up for a first one that is left out
    times_median := 3,  -- how many times the median of its block, of as many runs, makes a run an outlier: noise does not do that
    outliers_share := 0.1  -- share of a block's runs, beyond one, that outliers are at most
) AS TABLE
WITH
taxed AS (
    SELECT
        r.run_index,
        r.block_index,
        t.execute,
        t.tax,
        t.tax_percent,
        r.iteration = 0 AND count(*) FILTER (WHERE r.iteration > 0)
            OVER (PARTITION BY r.block_index) >= later_runs AS is_first,
        t.unit
    FROM framework_tax(
        capture,
        unit := unit,
        skip_first := skip_first,
        wait := wait,
        warmup := warmup,
        active := active,
        repeat := repeat,
        skip_first_wait := skip_first_wait,
        phase := phase
    ) AS t
    CROSS JOIN _capture(capture, unit) AS a
    JOIN runs AS r
        ON r.capture_id = a.capture_id AND r.run_index = t.run_index
),
blocks AS (
    SELECT t.block_index, median(t.execute) AS middle, count(*) AS runs
    FROM taxed AS t
    WHERE NOT t.is_first
    GROUP BY t.block_index
),
judged AS (
    SELECT
        t.*,
        b.middle,
        b.runs,
        NOT t.is_first
        AND b.runs >= later_runs
        AND coalesce(t.execute > times_median * b.middle, true) AS is_long
    FROM taxed AS t
    JOIN blocks AS b ON b.block_index = t.block_index
)
SELECT
    j.run_index,
    j.block_index,
    j.execute,
    j.tax,
    j.tax_percent,
    j.is_first,
    j.is_long AND count(*) FILTER (WHERE j.is_long)
        OVER (PARTITION BY j.block_index) <= greatest(1, outliers_share * j.runs)
        AS is_outlier,
    j.middle,
    j.unit
FROM judged AS j;

-- One run that executed: how long it took, and whether it is like the others.
-- The first run of a name warms up, where at least 3 runs that log the same
-- events follow; an outlier is another run that took more than 3 times the
-- median of these, if no more than one in ten (or one alone) did.
-- Columns:
--   run_index: the run
--   name: its name
--   method: the method that ran; NULL where that can't be told
--   block_index: its event block
--   execute: time of its Method::execute (or Method::step) events; NULL where it is impossible
--   is_warm_up: whether it is a first run that warms up
--   is_outlier: whether it is an outlier
--   block_median: median of execute in its block, without the first run
--   unit: unit of execute and block_median
CREATE MACRO run_times(
    capture,  -- name, hash prefix, @latest or selector
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    skip_first := 0,  -- runs of each name to leave out at the start, as in `schedule`
    wait := 0,  -- as in `schedule`
    warmup := 0,  -- as in `schedule`
    active := 1,  -- as in `schedule`
    repeat := 0,  -- as in `schedule`
    skip_first_wait := 0,  -- as in `schedule`
    phase := NULL  -- runs of that phase alone: load, prefill, decode, other; NULL: all
) AS TABLE
SELECT
    j.run_index,
    r.name,
    r.method,
    j.block_index,
    j.execute,
    j.is_first AS is_warm_up,
    j.is_outlier,
    j.middle AS block_median,
    j.unit
FROM _judged_runs(
    capture, unit, skip_first, wait, warmup, active, repeat, skip_first_wait, phase
) AS j
CROSS JOIN _capture(capture, unit) AS a
JOIN runs AS r ON r.capture_id = a.capture_id AND r.run_index = j.run_index
ORDER BY j.run_index;
