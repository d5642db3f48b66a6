-- The devices of some traces: their names, and their vendor, from names of runtime calls or library kernels; NULL where
-- unknown.
CREATE MACRO _devices_of(
    capture_keys  -- a list
) AS TABLE
SELECT
    (
        SELECT list_sort(list(DISTINCT d.name))
        FROM trace_devices AS d
        WHERE list_contains(capture_keys, d.capture_id) AND d.name <> ''
    ) AS names,
    (
        SELECT
            -- Kernels of PyTorch on ROCm have names with CUDA in them.
            CASE
                WHEN bool_or(regexp_matches(s.label, '^hip|^Cijk_|^_ZN2ck|\bck::|^igemm_|miopen')) THEN 'AMD'
                WHEN bool_or(regexp_matches(s.label, '^cuda[A-Z]|cudnn|cutlass|^sm\d+_|^volta_|^ampere_')) THEN 'NVIDIA'
            END
        FROM signatures AS s
        WHERE list_contains(capture_keys, s.capture_id) AND s.activity IN ('call', 'kernel')
    ) AS vendor;
