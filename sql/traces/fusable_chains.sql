-- The rows of `fusable_chains` in ticks, of a capture by its key. A chain is a sequence of torch's own elementwise and
-- reduction kernels that follow each other on a stream, within a run, with nothing else of the stream between them.
-- torch.compile may fuse it into one kernel, which reads and writes memory once; that its ops depend on each other is
-- not known. Kernels of torch.compile, of normalizations, of softmax and of other libraries end a chain. Where a
-- chain's first in-place op runs again, another chain begins: the op mostly writes another tensor then, as where
-- gradients of several parameters are accumulated.
CREATE MACRO _fusable_chains(
    capture_key,
    launches  -- a table of the rows of `_launches`
) AS TABLE
WITH work AS (
    SELECT l.run_index, l.event_index, l.device, l.stream, l.start_ticks, l.end_ticks - l.start_ticks AS ticks,
        l.op_signature,
        coalesce(
            l.kernel_family IN ('elementwise', 'reduction')
            AND contains(l.label, 'at::native'),
            false
        ) AS is_fusable
    FROM query_table(launches) AS l
),
broken AS (
    SELECT w.*,
        coalesce(lag(w.is_fusable) OVER in_order AND lag(w.run_index) OVER in_order = w.run_index, false) AS goes_on
    FROM work AS w
    WINDOW in_order AS (PARTITION BY w.device, w.stream ORDER BY w.start_ticks, w.event_index)
),
numbered AS (
    SELECT b.*,
        sum(CASE WHEN b.is_fusable AND NOT b.goes_on THEN 1 ELSE 0 END) OVER (
            ORDER BY b.device, b.stream, b.start_ticks, b.event_index
            ROWS UNBOUNDED PRECEDING
        ) AS whole
    FROM broken AS b
),
in_place AS (
    SELECT n.*, CASE WHEN s.label LIKE '%\_' ESCAPE '\' THEN s.label END AS op
    FROM numbered AS n
    LEFT JOIN (FROM signatures AS i WHERE i.capture_id = capture_key) AS s ON s.signature_index = n.op_signature
    WHERE n.is_fusable
),
led AS (
    SELECT p.*,
        arg_min(p.op, (p.start_ticks, p.event_index)) FILTER (WHERE p.op IS NOT NULL) OVER (PARTITION BY p.whole)
            AS leader
    FROM in_place AS p
),
parted AS (
    SELECT l.*, greatest(1, count(CASE WHEN l.op = l.leader THEN 1 END) OVER (
            PARTITION BY l.whole ORDER BY l.start_ticks, l.event_index ROWS UNBOUNDED PRECEDING
        )) AS part
    FROM led AS l
),
kernels AS (
    SELECT c.event_index, (c.whole, c.part) AS chain,
        row_number() OVER (PARTITION BY c.whole, c.part ORDER BY c.start_ticks, c.event_index) AS number, c.ticks
    FROM parted AS c
    QUALIFY count(*) OVER (PARTITION BY c.whole, c.part) > 1
),
chains AS (
    SELECT k.chain,
        string_agg(coalesce(g.label, '(' || o.kernel_family || ' kernel)'), ' | ' ORDER BY k.number) AS sequence,
        count(*) AS kernels, sum(k.ticks) AS ticks, sum(k.ticks) - max(k.ticks) AS saved_ticks
    FROM kernels AS k
    JOIN query_table(launches) AS o USING (event_index)
    LEFT JOIN (FROM signatures AS i WHERE i.capture_id = capture_key) AS g ON g.signature_index = o.op_signature
    GROUP BY k.chain
)
SELECT c.sequence, c.kernels, count(*) AS calls, try_cast(sum(c.ticks) AS BIGINT) AS ticks,
    try_cast(sum(c.saved_ticks) AS BIGINT) AS saved_ticks,
    100 * sum(c.saved_ticks)::DOUBLE / nullif((SELECT sum(o.device_ticks) FROM query_table(launches) AS o), 0) AS share
FROM chains AS c
GROUP BY c.sequence, c.kernels;

-- One chain of ops of a trace whose kernels one fused kernel could replace: torch's own elementwise and reduction
-- kernels that follow each other on a stream with nothing else between them. When a chain's first in-place
-- op runs again, another chain begins, as it mostly writes another tensor then. Chains of the same ops are one row;
-- those that could save the most come first.
-- Needs: torch_trace, device_events; else: op_totals
-- Empty: {capture} has no kernels of torch's own that follow each other and that torch.compile would fuse
-- Shown: kernels#, calls!#, total~, saves_at_most!~, share_percent!%, unit, sequence!
-- Share: of the time of all kernels, copies and fills
-- Columns:
--   sequence: ops that launched the kernels, in their order, separated by ` | `; the family of the kernel where no op is known
--   kernels: number of kernels of one chain
--   calls: number of times that it ran
--   total: sum of the durations of its kernels
--   saves_at_most: total minus the longest kernel of each run of the chain: the saving if a fused kernel takes as long as that kernel
--   share_percent: saves_at_most in percent of the time of all kernels, copies and fills
--   unit: the requested unit of time
CREATE MACRO fusable_chains(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
device_launches AS MATERIALIZED (FROM _launches((SELECT a.capture_id FROM target AS a)))
SELECT s.sequence, s.kernels, s.calls, _in_unit(s.ticks, a.scale) AS total,
    _in_unit(s.saved_ticks, a.scale) AS saves_at_most, s.share AS share_percent, a.unit
FROM _fusable_chains((SELECT a.capture_id FROM target AS a), 'device_launches') AS s CROSS JOIN target AS a
ORDER BY s.saved_ticks DESC, s.sequence;
