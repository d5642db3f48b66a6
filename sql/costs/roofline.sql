-- One measured op with its costs and the limits of the device: no op does more operations per second than the peak, nor
-- more than the movement of its bytes allows. Costs are those of the nodes of the edge graph that the op runs: a
-- delegate's event has the costs of its nodes; a delegate's call whose events have no nodes has the costs of all nodes
-- of the call, without the values that these pass to each other. Ops that a delegate fuses into others, such as relu,
-- cost nothing on their own if its events are separate rows. Needs a linked record; without peaks, there are still
-- rates and intensity.
-- Needs: dump; else: op_efficiency
-- Shown: op!, method, instruction_id AS instruction!#, module_path AS module, per_execute!~, share_percent%,
--   roof_percent!%, bound!, above_roof_percent%, above_roof_per_execute~, flops_per_second / 1e9 AS gflop_s!#,
--   bytes_per_second / 1e9 AS gb_s!#, intensity!#, flops#, per_call~, calls!#, reason, total+~, above_roof-,
--   executes+#, unit
-- Share: of the executes
-- Columns:
--   op: op type of its nodes; for a delegate call the backend, or, if its events have their own rows, (delegate unaccounted) for the rest of the call; for events without nodes their label
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   kind: kernel, operator_call (without a kernel), delegate, delegate_call
--   backend: the delegate's backend; NULL for kernels
--   instruction_id: the instruction; NULL with by := 'op_type'
--   module_path: module that contains its nodes; NULL if they differ, and with by := 'op_type'
--   calls: number of calls
--   total: sum of its self times; for delegate calls as a whole, of their total times
--   per_call: total / calls
--   share_percent: total in percent of the executes; NULL for values on another clock, or that are not times
--   unit: unit of times: the requested one; values that are not times keep theirs
--   flops: operations of one call, the mean if they differ; NULL where unknown
--   bytes: bytes that one call reads and writes, the mean if they differ; NULL where unknown
--   intensity: operations per byte; NULL where unknown, or if no bytes are moved
--   flops_per_second: operations per second; NULL where unknown, and for times in cycles or on another clock
--   bytes_per_second: bytes per second; NULL where unknown, and for times in cycles or on another clock
--   attainable_flops_per_second: the smaller of the peak and of intensity times bandwidth, as far as they are known
--   roof_percent: smallest possible time at the peaks in percent of its time; above 100 if the peaks are too low
--   bound: the limit that takes longer: compute or memory; NULL unless both peaks are known
--   above_roof: total minus the smallest possible time of all calls: the most that can be saved; 0 if total is below that time, as for data in caches
--   above_roof_percent: above_roof in percent of the executes
--   reason: why a value is unknown; NULL if all are known
--   executes: number of executes of the method
--   per_execute: total / executes
--   above_roof_per_execute: above_roof / executes
CREATE MACRO roofline(
    capture,
    peak_flops := NULL,  -- peak rate of the device, in operations per second; NULL: the capture's metric peak_flops
    peak_bandwidth := NULL,  -- peak bandwidth of its memory, in bytes per second; NULL: the capture's metric peak_bandwidth
    "by" := 'op',  -- op: delegates' events as separate rows, if they have nodes; instruction: delegate calls as a whole; op_type: grouped by what they call
    unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'typical'
) AS TABLE
WITH target AS MATERIALIZED (FROM _capture_with_method(capture, unit, method))
SELECT r.op, r.method, r.kind, r.backend, r.instruction_id, r.module_path, r.calls, r.total, r.per_call,
    r.share_percent, r.unit, r.flops, r.bytes, r.intensity, r.flops_per_second, r.bytes_per_second,
    r.attainable_flops_per_second, r.roof_percent, r.bound, r.above_roof, r.above_roof_percent, r.reason, r.executes,
    r.per_execute, r.above_roof_per_execute
FROM _rated_ops('target', peak_flops, peak_bandwidth, "by", steps, phase, method, runs) AS r
ORDER BY r.is_additive DESC, r.ticks DESC, r.op, r.method, r.kind, r.instruction_id, r.item;

-- One node of the edge graphs of the methods that a capture ran, with how far its events are from the limits of the
-- device, as in `roofline`: of the kernels and the delegates' events that run only this node. Needs a linked record and
-- the peaks.
-- Shown: name!, op_type!, method, per_execute!~, roof_percent!%, bound!, above_roof_per_execute~, calls!#, module_path
--   AS module, reason, total+~, above_roof-, executes+#, unit
-- Columns:
--   graph_id: the graph
--   node_index: the node, in `op_nodes`
--   method: the graph's method
--   name: its name
--   op_type: op type of the node
--   module_path: path of its module; NULL where none was kept
--   calls: number of calls
--   total: sum of their self times
--   unit: unit of times
--   roof_percent: smallest possible time at the peaks in percent of total; NULL where unknown
--   above_roof: total minus the smallest possible time, 0 if total is below that time; NULL where unknown
--   bound: the limit that takes longer: compute or memory; NULL unless both peaks are known
--   reason: why a value is unknown; NULL if all are known
--   executes: number of executes of the method
--   per_execute: total / executes
--   above_roof_per_execute: above_roof / executes
CREATE MACRO node_roofline(
    capture,
    peak_flops := NULL,  -- peak rate of the device, in operations per second; NULL: the capture's metric peak_flops
    peak_bandwidth := NULL,  -- peak bandwidth of its memory, in bytes per second; NULL: the capture's metric peak_bandwidth
    unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'typical'
) AS TABLE
WITH target AS MATERIALIZED (
    SELECT c.* FROM _linked_capture_with_method(capture, unit, method) AS c WHERE c.capture_id IS NOT NULL
),
rated AS (
    SELECT r.*, r.nodes[1] AS node_index, r.total * r.roof_percent AS least
    FROM _rated_ops('target', peak_flops, peak_bandwidth, 'op', steps, phase, method, runs) AS r
    WHERE r.is_additive AND len(r.nodes) = 1 AND NOT r.is_one_of
),
summed AS (
    SELECT r.graph_id, r.node_index, sum(r.calls)::BIGINT AS calls, fsum(r.total) AS total, any_value(r.unit) AS unit,
        CASE WHEN count(*) = count(r.least) THEN fsum(r.least) END AS least,
        CASE WHEN count(*) = count(r.above_roof) THEN fsum(r.above_roof) END AS above_roof,
        CASE WHEN count(DISTINCT r.bound) = 1 THEN min(r.bound) END AS bound, min(r.reason) AS reason,
        any_value(r.executes) AS executes
    FROM rated AS r
    GROUP BY r.graph_id, r.node_index
)
SELECT s.graph_id, s.node_index, g.method, p.name, p.op_type, p.module_path, s.calls, s.total, s.unit,
    s.least / nullif(s.total, 0) AS roof_percent, s.above_roof, s.bound, s.reason, s.executes,
    s.total / s.executes AS per_execute, s.above_roof / s.executes AS above_roof_per_execute
FROM target AS a CROSS JOIN summed AS s
JOIN graphs AS g ON g.record_id = a.record_id AND g.graph_id = s.graph_id
JOIN op_nodes AS p ON p.record_id = a.record_id AND p.graph_id = s.graph_id AND p.node_index = s.node_index
ORDER BY s.graph_id, s.node_index;
