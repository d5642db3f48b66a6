-- A bandwidth of links in bytes per second; an error if it is not above 0.
CREATE MACRO _checked_link(
    rate  -- a number, or NULL
) AS (
    CASE
        WHEN rate IS NULL THEN NULL
        WHEN rate::DOUBLE > 0 AND rate::DOUBLE < 'inf'::DOUBLE THEN rate::DOUBLE
        ELSE error('link_bandwidth must be a number above 0, in B/s')
    END
);

-- One device in the traces of some captures, with the bandwidth of its links, from the first row of `device_peaks`
-- whose pattern matches.
CREATE MACRO _device_links(
    traces  -- a table of traces: capture_id
) AS TABLE
SELECT t.capture_id, t.device, count(*) OVER (PARTITION BY t.capture_id) AS devices,
    try_cast(w.value AS BIGINT) AS world_size,
    (
        SELECT arg_min({'rate': p.link_bandwidth}, p.place).rate
        FROM (SELECT d.pattern, d.link_bandwidth, row_number() OVER () AS place FROM device_peaks AS d) AS p
        WHERE regexp_matches(t.name, p.pattern, 'i')
    ) AS link_bandwidth
FROM query_table(traces) AS a
JOIN trace_devices AS t ON t.capture_id = a.capture_id
LEFT JOIN labels AS w ON w.capture_id = t.capture_id AND w.key = 'world_size';

-- Why the bandwidth of a collective isn't compared with that of the links; NULL if it is.
CREATE MACRO _no_link(
    given,  -- bytes per second of the links, as given by the caller; NULL: the device's
    known,  -- those of the device; NULL if unknown
    group_size,
    devices,  -- number of devices of the machine
    world_size,  -- number of processes of the job; NULL if unknown
    is_within  -- whether the ranks of the group are known to be on one machine
) AS (
    CASE
        WHEN given IS NOT NULL THEN NULL
        WHEN known IS NULL THEN 'bandwidth of the links unknown'
        WHEN group_size > devices THEN 'more ranks in the group than devices in the machine'
        WHEN world_size <= devices OR is_within THEN NULL
        ELSE 'ranks of the group may be on several machines'
    END
);
