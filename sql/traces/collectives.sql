-- Size of an element of a collective's messages in bytes; NULL for unknown types.
CREATE MACRO _message_bytes(
    message_type  -- type of the elements, as torch names it
) AS (
    CASE
        WHEN message_type IN ('Byte', 'Char', 'Bool') THEN 1
        WHEN starts_with(message_type, 'Float8') THEN 1
        WHEN message_type IN ('Half', 'BFloat16', 'Short', 'UInt16') THEN 2
        WHEN message_type IN ('Float', 'Int', 'UInt32') THEN 4
        WHEN message_type IN ('Double', 'Long', 'UInt64', 'ComplexFloat') THEN 8
        WHEN message_type = 'ComplexDouble' THEN 16
    END
);

-- Bytes that cross the busiest link for each byte of a collective's message, as in nccl-tests: with this factor,
-- bandwidths of different collectives and group sizes can be compared with that of the hardware.
CREATE MACRO _bus_factor(
    collective,
    group_size  -- number of processes in the group
) AS (
    CASE
        WHEN contains(replace(lower(collective), '_', ''), 'allreduce') THEN 2 * (group_size - 1)::DOUBLE / group_size
        WHEN regexp_matches(
            replace(lower(collective), '_', ''), 'gather|scatter|alltoall'
        ) THEN (group_size - 1)::DOUBLE / group_size
        ELSE 1
    END
);

-- The collectives of a trace by name, process group and size of the message; those with the most time come first. The
-- time of a collective is that of its kernel, which also waits for the other processes: bandwidths are lower bounds,
-- and the greatest one is closest to that of the hardware. Only for traces whose kernels name their collectives
-- (PyTorch 2.2 or later); for traces without kernels, the collectives of gloo on the host, whose group is known if the
-- process is in a single one.
-- Needs: torch_trace
-- Empty: {capture} has no collectives, on devices or of gloo
-- Shown: collective!, message_bytes AS bytes! (bytes), group_size AS ranks#, process_group, calls!#, total!~,
--   share_percent!%, best_bus_bandwidth_gb_per_s AS best_bus_gb_s!#, link_percent%, reason, bus_bandwidth_gb_per_s AS
--   bus_gb_s#, min~, per_call~, max~, bandwidth_gb_per_s AS gb_s#, group_description, message_type, unit
-- Share: of all collectives
-- Columns:
--   collective: name of the collective, such as allreduce
--   process_group: name of the process group; NULL where not written
--   group_description: description of the process group; NULL where not written
--   group_size: number of processes in the group; NULL where not written
--   message_type: type of the elements; NULL where not written
--   message_bytes: size of the message in bytes: the larger of what a process sends and receives; NULL where unknown
--   calls: number of kernels, or of collectives on the host
--   total: sum of their durations
--   share_percent: sum in percent of all collectives
--   per_call: mean duration of a call
--   min: shortest duration
--   max: longest duration
--   bandwidth_gb_per_s: bytes of all messages divided by total, in 10**9 bytes per second; NULL where unknown
--   bus_bandwidth_gb_per_s: the same for the bytes that cross the busiest link, as in nccl-tests; NULL where unknown
--   best_bus_bandwidth_gb_per_s: bus bandwidth of the shortest call; NULL where unknown
--   unit: the requested unit of time
--   link_percent: bus bandwidth of the shortest call in percent of what the device's links carry, see `device_peaks`; NULL where unknown, and if the group may span machines
--   reason: why link_percent is NULL; otherwise NULL
CREATE MACRO collectives(
    capture, unit := NULL,
    link_bandwidth := NULL  -- bandwidth of the links, in bytes per second, also between machines; NULL: the device's
) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
links AS MATERIALIZED (FROM _device_links('target')),
work AS (
    SELECT d.collective, d.process_group, d.group_description, d.group_size, d.message_type,
        greatest(d.in_elements, d.out_elements) * _message_bytes(d.message_type) AS message_bytes, d.device,
        d.elapsed_ticks AS ticks
    FROM target AS a
    JOIN device_events AS d USING (capture_id)
    JOIN signatures AS s ON s.capture_id = d.capture_id AND s.signature_index = d.event_signature
    WHERE d.collective IS NOT NULL AND d.elapsed_ticks >= 0 AND s.activity = 'kernel'
    UNION ALL
    SELECT h.collective, NULL, h.group_description, h.group_size, h.message_type, h.message_bytes, NULL, h.elapsed_ticks
    FROM target AS a
    JOIN host_collectives AS h USING (capture_id)
),
summed AS (
    SELECT w.collective, w.process_group, w.group_description, w.group_size, w.message_type, w.message_bytes,
        count(*) AS calls, try_cast(sum(w.ticks) AS BIGINT) AS ticks, min(w.ticks) AS shortest, max(w.ticks) AS longest,
        CASE WHEN count(*) = count(k.link_bandwidth) THEN min(k.link_bandwidth) END AS link_bandwidth,
        any_value(k.devices) AS devices, any_value(k.world_size) AS world_size
    FROM work AS w
    LEFT JOIN links AS k ON k.device = w.device
    GROUP BY w.collective, w.process_group, w.group_description, w.group_size, w.message_type, w.message_bytes
),
rated AS (
    SELECT s.*,
        s.message_bytes::DOUBLE * _bus_factor(s.collective, s.group_size) / nullif(s.shortest, 0) AS best_bus_bandwidth,
        _checked_link(link_bandwidth) AS given_link
    FROM summed AS s
),
explained AS (
    SELECT r.*,
        CASE
            WHEN r.best_bus_bandwidth IS NULL THEN 'bytes or ranks of the group unknown'
            ELSE _no_link(r.given_link, r.link_bandwidth, r.group_size, r.devices, r.world_size, false)
        END AS reason
    FROM rated AS r
)
SELECT s.collective, s.process_group, s.group_description, s.group_size, s.message_type, s.message_bytes, s.calls,
    _in_unit(s.ticks, a.scale) AS total, 100 * s.ticks::DOUBLE / nullif(sum(s.ticks) OVER (), 0) AS share_percent,
    _in_unit(s.ticks::DOUBLE / s.calls, a.scale) AS per_call, _in_unit(s.shortest, a.scale) AS min,
    _in_unit(s.longest, a.scale) AS max, s.calls * s.message_bytes::DOUBLE / nullif(s.ticks, 0) AS bandwidth_gb_per_s,
    s.calls * s.message_bytes::DOUBLE * _bus_factor(s.collective, s.group_size)
        / nullif(s.ticks, 0) AS bus_bandwidth_gb_per_s,
    s.best_bus_bandwidth AS best_bus_bandwidth_gb_per_s, a.unit,
    CASE
        WHEN s.reason IS NULL THEN 100e9 * s.best_bus_bandwidth / coalesce(s.given_link, s.link_bandwidth)
    END AS link_percent,
    s.reason
FROM explained AS s CROSS JOIN target AS a
ORDER BY
    s.ticks DESC, s.collective, s.process_group, s.message_bytes, s.message_type, s.group_size, s.group_description;
