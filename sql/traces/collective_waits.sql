-- One call of a collective by a rank of a job, with how long the rank waits in it for the last one, and how long the
-- transfer then takes, as in `collective_waits`. `no_wait` is the reason why the wait is unknown.
CREATE MACRO _collective_calls(
    ranks  -- a table of the traces of the ranks, of columns of `_job_ranks`
) AS TABLE
WITH numbered_collectives AS MATERIALIZED (FROM _numbered_collectives(ranks)),
calls AS MATERIALIZED (
    SELECT n.*, k.rank, n.start_ticks - o.shift_ticks AS starts_at,
        n.end_ticks - o.shift_ticks AS ends_at
    FROM numbered_collectives AS n
    JOIN query_table(ranks) AS k ON k.capture_id = n.capture_id
    LEFT JOIN _clock_offsets('numbered_collectives') AS o ON o.capture_id = n.capture_id
),
collectives AS (
    SELECT c.job, c.process_group, c.matched_name, c.step, c.number, count(*) AS ranks, count(c.starts_at) AS aligned,
        min(c.calls) = max(c.calls) AS is_equal, max(c.starts_at) AS last_start, min(c.ends_at) AS first_end,
        max(c.starts_at) - min(c.starts_at) AS skew_ticks,
        max_by(c.rank, {'at': c.starts_at, 'rank': -c.rank::HUGEINT}) AS last_rank
    FROM calls AS c
    GROUP BY c.job, c.process_group, c.matched_name, c.step, c.number
),
matched AS (
    SELECT c.*, m.skew_ticks, m.last_rank, m.last_start,
        CASE
            WHEN NOT c.ends_together THEN 'ranks need not end it together'
            WHEN c.group_size IS NULL THEN 'number of ranks of the group unknown'
            WHEN m.ranks < c.group_size THEN 'no traces of some ranks, or these have fewer of it in a step'
            WHEN m.ranks > c.group_size THEN 'several groups of that name, or several traces of a rank'
            WHEN NOT m.is_equal THEN 'ranks have different numbers of it in a step'
            WHEN c.group_size = 1 THEN 'the group has a single rank'
            WHEN m.aligned < m.ranks THEN 'clock of a rank unknown, see clock_offsets'
            WHEN m.first_end <= m.last_start THEN 'clocks of ranks not known precisely enough'
        END AS no_wait
    FROM calls AS c
    JOIN collectives AS m
        ON m.job = c.job
        AND m.process_group = c.process_group
        AND m.matched_name = c.matched_name
        AND m.step = c.step
        AND m.number = c.number
)
SELECT m.*, CASE WHEN m.no_wait IS NULL THEN m.last_start - m.starts_at END AS waited_ticks,
    CASE WHEN m.no_wait IS NULL THEN m.ends_at - m.last_start END AS transfer_ticks
FROM matched AS m;

-- How long ranks of a job wait for the last one in collectives, and how long the transfer then takes. On clocks that
-- are aligned by `clock_offsets`, a rank waits from the start of its kernel to the start of the last rank's kernel; the
-- transfer lasts from then to the end of its kernel. Collectives of ranks are matched by step, process group, name and
-- number in the step. Waits are known for collectives that all ranks end together: all-reduce, all-gather,
-- reduce-scatter, all-to-all and barriers. Collectives of gloo count as kernels do. Needs traces with the label rank.
-- Rows with the longest waits come first.
-- Empty: {view} has no rows: no trace has a label rank and collectives with a process group; ingest the traces of a job's ranks
-- Shown: job, step#, number#, rank!#, collective!, message_bytes AS bytes (bytes), waited!~, transfer!~,
--   waited_percent!%, last_rank!#, bus_bandwidth_gb_per_s AS bus_gb_s#, link_percent%, reason, mean_skew~,
--   last_percent%, group_size AS ranks#, kernels#, process_group, group_description, message_type, total~, known#,
--   max_skew~, bandwidth_gb_per_s AS gb_s#, unit
-- Columns:
--   job: the traces' label job; NULL if they have none
--   process_group: name of the process group
--   group_description: description of the process group; NULL where not written
--   group_size: number of processes in the group; NULL where not written
--   collective: name of the collective, such as allreduce
--   message_type: type of the elements; NULL where not written
--   message_bytes: size of the message in bytes, see `collectives`; NULL where unknown
--   step: number of the profiler step; NULL for a trace without steps, and not by call
--   number: number of the call in the step, of its group and name, from 1; NULL if not by call
--   rank: the trace's label rank; NULL by collective
--   kernels: number of kernels of the ranks
--   total: sum of their durations
--   known: number of kernels whose wait is known
--   waited: time of these kernels until the last rank's kernel started
--   transfer: time of these kernels from then on
--   waited_percent: waited in percent of waited and transfer; NULL where unknown
--   mean_skew: mean time from the first to the last start of a rank's kernel; NULL where unknown
--   max_skew: the longest such time; NULL where unknown
--   last_rank: rank that starts last most often; NULL where unknown, and if all start at once
--   last_percent: share of the calls in which it starts last, in percent; NULL where unknown
--   bandwidth_gb_per_s: bytes of the messages divided by transfer, in 10**9 bytes per second; NULL where unknown
--   bus_bandwidth_gb_per_s: the same for the bytes that cross the busiest link, as in nccl-tests; NULL where unknown
--   link_percent: bus_bandwidth_gb_per_s in percent of what the device's links carry, see `device_peaks`; NULL where unknown, and if the group may span machines
--   unit: the requested unit of time
--   reason: why waits are NULL for some of the kernels, or else why link_percent is; NULL if none of these is NULL
CREATE MACRO collective_waits(
    selector := NULL,  -- name, hash prefix or selector of captures, such as job=train; NULL: all captures
    "by" := 'collective',  -- collective, rank or call: the columns by which kernels are separated
    unit := NULL,
    link_bandwidth := NULL  -- bandwidth of the links, in bytes per second, also between machines; NULL: the device's
) AS TABLE
WITH ranks AS MATERIALIZED (FROM _job_ranks(selector, unit)),
asked AS MATERIALIZED (
    SELECT _checked_by("by", ['collective', 'rank', 'call']) AS parted_by, _checked_link(link_bandwidth) AS given_link
),
links AS MATERIALIZED (FROM _device_links('ranks')),
-- The devices of calls, and whether the ranks of a collective are known to be on one machine.
calls AS (
    SELECT p.*,
        count(p.machine) OVER of_ranks = count(*) OVER of_ranks
        AND min(p.machine) OVER of_ranks = max(p.machine) OVER of_ranks AS is_within
    FROM (
        SELECT c.*, l.devices, l.world_size, l.link_bandwidth,
            CASE WHEN c.rank % l.devices = c.device THEN c.rank // l.devices END AS machine
        FROM _collective_calls('ranks') AS c
        LEFT JOIN links AS l ON l.capture_id = c.capture_id AND l.device = c.device
    ) AS p
    WINDOW of_ranks AS (PARTITION BY p.job, p.process_group, p.matched_name, p.step, p.number)
),
parted AS (
    SELECT m.job, m.process_group, m.group_description, m.group_size, m.collective, m.message_type, m.message_bytes,
        CASE WHEN a.parted_by = 'call' THEN m.step END AS step,
        CASE WHEN a.parted_by = 'call' THEN m.number END AS number,
        CASE WHEN a.parted_by <> 'collective' THEN m.rank END AS rank, m.end_ticks - m.start_ticks AS ticks,
        m.waited_ticks, m.transfer_ticks,
        CASE WHEN m.no_wait IS NULL THEN m.skew_ticks END AS skew_ticks,
        CASE WHEN m.no_wait IS NULL AND m.skew_ticks > 0 THEN m.last_rank END AS last_rank,
        coalesce(a.given_link, m.link_bandwidth) AS link_bandwidth, m.no_wait,
        CASE
            WHEN m.message_bytes * _bus_factor(m.collective, m.group_size) IS NULL THEN 'bytes unknown'
            ELSE _no_link(a.given_link, m.link_bandwidth, m.group_size, m.devices, m.world_size, m.is_within)
        END AS no_link
    FROM calls AS m CROSS JOIN asked AS a
),
summed AS (
    SELECT p.job, p.process_group, p.group_description, p.group_size, p.collective, p.message_type, p.message_bytes,
        p.step, p.number, p.rank, count(*) AS kernels, sum(p.ticks)::BIGINT AS ticks, count(p.waited_ticks) AS known,
        sum(p.waited_ticks)::BIGINT AS waited_ticks, sum(p.transfer_ticks)::BIGINT AS transfer_ticks,
        avg(p.skew_ticks) AS mean_skew_ticks, max(p.skew_ticks) AS max_skew_ticks,
        mode(p.last_rank ORDER BY p.last_rank) AS last_rank, list(p.last_rank) AS last_ranks,
        min(p.link_bandwidth) AS link_bandwidth, count(p.no_link) = 0 AS has_link,
        mode(coalesce(p.no_wait, p.no_link) ORDER BY coalesce(p.no_wait, p.no_link)) AS reason
    FROM parted AS p
    GROUP BY ALL
),
rated AS (SELECT s.*, s.known * s.message_bytes::DOUBLE / nullif(s.transfer_ticks, 0) AS bandwidth FROM summed AS s)
SELECT nullif(r.job, '') AS job, r.process_group, r.group_description, r.group_size, r.collective, r.message_type,
    r.message_bytes, nullif(r.step, -1) AS step, r.number, r.rank, r.kernels, _in_unit(r.ticks, t.scale) AS total,
    r.known, _in_unit(r.waited_ticks, t.scale) AS waited, _in_unit(r.transfer_ticks, t.scale) AS transfer,
    100 * r.waited_ticks::DOUBLE / nullif(r.waited_ticks + r.transfer_ticks, 0) AS waited_percent,
    _in_unit(r.mean_skew_ticks, t.scale) AS mean_skew, _in_unit(r.max_skew_ticks, t.scale) AS max_skew, r.last_rank,
    100 * len(list_filter(r.last_ranks, lambda n: n = r.last_rank))::DOUBLE / nullif(r.known, 0) AS last_percent,
    r.bandwidth AS bandwidth_gb_per_s, r.bandwidth * _bus_factor(r.collective, r.group_size) AS bus_bandwidth_gb_per_s,
    CASE
        WHEN r.has_link THEN 100e9 * r.bandwidth * _bus_factor(r.collective, r.group_size) / r.link_bandwidth
    END AS link_percent,
    t.unit, r.reason
FROM rated AS r CROSS JOIN (SELECT any_value(k.unit) AS unit, any_value(k.scale) AS scale FROM ranks AS k) AS t
ORDER BY r.waited_ticks DESC NULLS LAST, r.ticks DESC, r.job, r.process_group, r.collective, r.message_bytes, r.step,
    r.number, r.rank;
