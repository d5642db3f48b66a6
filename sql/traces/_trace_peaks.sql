-- The peak rates of the devices that ran a trace's work, in operations and bytes per second: the rates given, else
-- those of the device that is named, else the capture's metrics, else those of the devices in the trace, if they are
-- all the same. Times on the host, in a trace without device events, aren't compared with peaks of its devices.
CREATE MACRO _trace_peaks(capture_key, peak_flops, peak_bandwidth, device) AS TABLE
WITH named AS (
    SELECT CASE
            WHEN device IS NOT NULL THEN device
            WHEN count(DISTINCT u.name) = 1 THEN max(u.name)
        END AS name
    FROM trace_devices AS u
    WHERE u.capture_id = capture_key AND u.is_used
),
matched AS (
    SELECT n.name, arg_min(p.peaks, p.place) AS peaks
    FROM named AS n
    LEFT JOIN (SELECT q AS peaks, row_number() OVER () AS place FROM device_peaks AS q) AS p
        ON regexp_matches(n.name, p.peaks.pattern, 'i')
    GROUP BY n.name
)
SELECT coalesce(p.peaks.device, p.name) AS named_device,
    _peak(m, 'peak_flops', 'FLOP/s', peak_flops) AS any_flops,
    coalesce(_peak(m, 'peak_bandwidth', 'B/s', peak_bandwidth), p.peaks.memory_bandwidth) AS bandwidth, p.peaks
FROM matched AS p
LEFT JOIN metrics AS m ON m.capture_id = capture_key AND device IS NULL
WHERE CASE
    WHEN device IS NOT NULL AND p.peaks IS NULL THEN error('no device is called ' || device || ' in device_peaks')
    ELSE true
END
GROUP BY p.name, p.peaks;

-- Whether kernels of a family compute products, for which they may use matrix units.
CREATE MACRO _is_product(family) AS (family IN ('product'));

-- The peak rate of operations on a type of a trace, with matrix units or without them; NULL where it isn't known.
CREATE MACRO _peak_of_type(
    peak,  -- row of `_trace_peaks`
    dtype,  -- type of the inputs, as in the trace
    family,  -- what the kernels compute
    uses  -- whether its kernels use matrix units; NULL if unknown
) AS (
    CASE
        WHEN peak.any_flops IS NOT NULL THEN peak.any_flops
        WHEN starts_with(dtype, 'OpaqueType<') THEN NULL
        WHEN starts_with(dtype, 'c10::Float8') THEN peak.peaks.matrix_fp8
        WHEN _is_product(family) AND dtype IN ('c10::Half', 'c10::BFloat16') THEN peak.peaks.matrix_fp16
        WHEN _is_product(family) AND dtype IN ('signed char', 'unsigned char') THEN peak.peaks.matrix_int8
        WHEN _is_product(family) AND uses AND dtype IN ('float', 'c10::complex<float>') THEN peak.peaks.matrix_fp32
        WHEN _is_product(family) AND uses AND dtype IN ('double', 'c10::complex<double>') THEN peak.peaks.matrix_fp64
        WHEN _is_product(family) AND uses IS NULL THEN NULL
        WHEN dtype = 'c10::Half' THEN peak.peaks.vector_fp16
        WHEN dtype = 'c10::BFloat16' THEN peak.peaks.vector_bf16
        WHEN dtype IN ('double', 'c10::complex<double>') THEN peak.peaks.vector_fp64
        WHEN dtype IS NOT NULL THEN peak.peaks.vector_fp32
    END
);
