-- Evidence: one op of a capture by name, from its `_advice_times`, with its
-- description.
CREATE MACRO _advice_ops(
    times  -- rows of `_advice_times` as a list
) AS TABLE
WITH
input AS (
    SELECT unnest(times, recursive := true)
),
placed AS (
    SELECT
        g.method,
        g.kind,
        g.op,
        g.is_copy,
        g.instruction_id,
        max_by(g.source, (g.per_run, g.source)) AS source,
        any_value(g.unit) AS unit,
        sum(g.calls) AS calls,
        fsum(g.per_run) AS per_run,
        sum(CASE WHEN g.is_opened THEN g.per_run ELSE 0 END) AS opened,
        fsum(g.share_percent) AS share_percent,
        sum(CASE WHEN g.is_of_constant THEN g.per_run ELSE 0 END)
            FILTER (WHERE g.is_of_constant IS NOT NULL) AS of_constants
    FROM input AS g
    GROUP BY g.method, g.kind, g.op, g.is_copy, g.instruction_id
),
ranked AS (
    SELECT
        p.*,
        row_number() OVER (
            PARTITION BY p.kind, p.op
            ORDER BY p.per_run DESC, p.method, p.instruction_id
        ) AS place,
        min(p.method) OVER () <> max(p.method) OVER () AS has_methods
    FROM placed AS p
),
added AS (
    SELECT
        r.kind,
        r.op,
        r.is_copy,
        r.kind = 'kernel' AND regexp_full_match(
            r.op,
            '(\w+::)?(\w*convolution|conv[123]d|addmm|baddbmm|bmm|mm|\w+_mm|matmul'
            || '|linear|\w+_linear|scaled_dot_product\w+|\w*sdpa\w*)(\.\w+)?'
        ) AS is_heavy,
        sum(r.of_constants) AS of_constants,
        count(r.instruction_id) AS instructions,
        sum(r.calls) AS calls,
        sum(r.per_run) AS per_run,
        sum(r.opened) AS opened,
        sum(r.share_percent) AS share_percent,
        any_value(r.unit) AS unit,
        -- Different methods use the same numbers for their instructions.
        string_agg(
            CASE WHEN r.has_methods THEN r.method || ' ' ELSE '' END
            || r.instruction_id, ', ' ORDER BY r.place
        ) FILTER (WHERE r.place <= 3) AS worst_instructions,
        min_by(r.source, r.place) FILTER (WHERE r.source IS NOT NULL) AS worst_source
    FROM ranked AS r
    GROUP BY r.kind, r.op, r.is_copy
)
SELECT
    d.kind,
    d.op,
    d.is_copy,
    d.is_heavy,
    d.of_constants,
    d.instructions,
    d.calls,
    d.per_run,
    d.opened,
    d.share_percent,
    d.unit,
    d.op || ' ' || _advice_time(d.per_run, d.unit) || ' in '
    || _advice_count(d.calls, 'call') || coalesce(
        ' (' || CASE
            WHEN d.instructions = 1 THEN 'instruction '
            WHEN d.instructions <= 3 THEN 'instructions '
            ELSE 'most in instructions '
        END || d.worst_instructions || coalesce('; ' || d.worst_source, '') || ')',
        ''
    ) AS words
FROM added AS d;
