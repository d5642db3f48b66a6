-- One op of a capture of different programs, with a key that is equal for the same
-- op in all of them. Ops have the same name if they are of the same kind and family,
-- or, with records, of the same module and op type. Ops of a name are the same op if
-- each program has one of them, or, with records, if all programs have as many of
-- them, in their order. Others are matched by the longest common subsequence of the
-- programs' names, so that an op that is added or removed moves no other op's place;
-- where any one of several ops of a name may be it, those with the most similar times
-- are matched. After 200 ops that differ, only ops after the last difference are.
-- Columns:
--   capture_id: the capture
--   op_index: position among the ops of the capture, as in `op_times`
--   item: key of the op, equal in all captures
CREATE MACRO _aligned_ops(
    sides  -- list of rows of capture_id, ops, only_scope and matched; NULL if the programs are equal
) AS TABLE
WITH
input AS MATERIALIZED (
    SELECT unnest(sides, recursive := true)
),
named AS MATERIALIZED (
    SELECT
        d.capture_id,
        min(d.capture_id) OVER (PARTITION BY d.ops) AS program,
        d.matched,
        o.op_index,
        ln(greatest(o.p25, 1)) AS log_ticks,
        row_number() OVER (PARTITION BY d.capture_id ORDER BY o.op_index) AS place,
        CASE d.matched
            WHEN 'module' THEN concat_ws(
                '|', coalesce(d.only_scope, o.scope), coalesce(o.module_path, '?'),
                coalesce(o.op_type, o.family)
            )
            ELSE concat_ws(
                '|', coalesce(d.only_scope, o.scope), o.kind, o.family
            )
        END AS name
    FROM input AS d
    JOIN op_times AS o ON o.capture_id = d.capture_id
    WHERE d.matched <> 'event' AND o.phase IS NULL AND o.op_index > 0
),
-- The ops of each program, and what they take in its median capture.
numbered AS MATERIALIZED (
    SELECT
        o.*,
        row_number() OVER (PARTITION BY o.program, o.name ORDER BY o.place) AS ordinal,
        count(*) OVER (PARTITION BY o.program, o.name) AS ops
    FROM (
        SELECT
            a.program,
            a.place,
            a.name,
            any_value(a.matched) AS matched,
            median(a.log_ticks) AS median_log
        FROM named AS a
        GROUP BY a.program, a.place, a.name
    ) AS o
),
sequences AS MATERIALIZED (
    SELECT
        n.program,
        n.program = min(n.program) OVER () AS is_first,
        count(*) OVER () AS programs,
        n.names,
        list_transform(n.logs, lambda l: l - list_median(n.logs)) AS logs
    FROM (
        SELECT
            a.program,
            list(a.name ORDER BY a.place) AS names,
            list(a.median_log ORDER BY a.place) AS logs
        FROM numbered AS a
        GROUP BY a.program
    ) AS n
),
begun AS (
    SELECT
        s.program,
        f.names AS first_names,
        s.names,
        f.logs AS first_logs,
        s.logs,
        _common_parts(f.names, s.names) AS parts
    FROM sequences AS s
    JOIN sequences AS f ON f.is_first AND NOT s.is_first
),
-- If the programs differ in more ops than are compared, only the ops that they have
-- in common at their ends are matched.
common AS (
    SELECT
        b.program,
        b.first_names,
        b.names,
        b.first_logs,
        b.logs,
        list_append(b.parts, struct_pack(
            x := len(b.first_names) - b.ending,
            y := len(b.names) - b.ending,
            n := b.ending
        )) AS parts
    FROM (
        SELECT
            r.*,
            coalesce(
                list_position(
                    list_transform(
                        range(0, r.rest),
                        lambda i: r.first_names[len(r.first_names) - i]
                            = r.names[len(r.names) - i]
                    ),
                    false
                ) - 1,
                r.rest
            ) AS ending
        FROM (
            SELECT
                g.*,
                least(
                    len(g.first_names)
                    - coalesce(g.parts[len(g.parts)].x + g.parts[len(g.parts)].n, 0),
                    len(g.names)
                    - coalesce(g.parts[len(g.parts)].y + g.parts[len(g.parts)].n, 0)
                ) AS rest
            FROM begun AS g
        ) AS r
    ) AS b
),
-- How many elements before the end of each part the next one may begin, as what is
-- between them ends with the same names.
sliding AS (
    SELECT
        c.*,
        list_transform(range(1, len(c.parts)), lambda k: coalesce(
            list_position(
                list_transform(
                    range(0, least(c.parts[k].n, 300)),
                    lambda i:
                        c.first_names[c.parts[k + 1].x - i]
                        = c.names[c.parts[k + 1].y - i]
                ),
                false
            ) - 1,
            least(c.parts[k].n, 300)
        )) AS most
    FROM common AS c
),
-- The number of these with which times are most similar.
slid AS (
    SELECT
        d.program,
        d.parts,
        list_transform(range(1, len(d.parts)), lambda k: list_min(list_transform(
            range(0, d.most[k] + 1),
            lambda m: struct_pack(
                distance := list_reduce(
                    list_transform(
                        range(0, m),
                        lambda i:
                            abs(
                                d.first_logs[d.parts[k + 1].x - i]
                                - d.logs[d.parts[k + 1].y - i]
                            )
                            - abs(
                                d.first_logs[d.parts[k].x + d.parts[k].n - i]
                                - d.logs[d.parts[k].y + d.parts[k].n - i]
                            )
                    ),
                    lambda sum, e: sum + e,
                    0::DOUBLE
                ),
                slide := m
            )
        )).slide) AS slides
    FROM sliding AS d
),
matched AS (
    SELECT m.program, m.part.y + m.step AS place, m.part.x + m.step AS first_place
    FROM (
        SELECT p.program, p.part, unnest(range(1, p.part.n + 1)) AS step
        FROM (
            SELECT
                s.program,
                unnest(list_transform(range(1, len(s.parts) + 1), lambda k: struct_pack(
                    x := s.parts[k].x - coalesce(s.slides[k - 1], 0),
                    y := s.parts[k].y - coalesce(s.slides[k - 1], 0),
                    n := s.parts[k].n + coalesce(s.slides[k - 1], 0)
                    - coalesce(s.slides[k], 0)
                ))) AS part
            FROM slid AS s
        ) AS p
    ) AS m
),
placed AS (
    SELECT
        n.*,
        count(*) OVER of_name = s.programs
        AND min(n.ops) OVER of_name = max(n.ops) OVER of_name
        AND (n.matched = 'module' OR n.ops = 1) AS is_same,
        CASE WHEN s.is_first THEN n.place ELSE m.first_place END AS first_place,
        max(m.first_place) OVER (PARTITION BY n.program ORDER BY n.place) AS previous
    FROM numbered AS n
    JOIN sequences AS s ON s.program = n.program
    LEFT JOIN matched AS m ON m.program = n.program AND m.place = n.place
    WINDOW of_name AS (PARTITION BY n.name, n.ordinal)
),
keyed AS (
    SELECT
        p.program,
        p.place,
        CASE
            WHEN p.is_same THEN concat_ws('|', p.name, p.ordinal)
            WHEN p.first_place IS NOT NULL
                THEN concat_ws('|', p.name, 'at', p.first_place)
            ELSE concat_ws(
                '|', p.name, 'after', coalesce(p.previous, 0),
                row_number() OVER (
                    PARTITION BY p.program, p.previous, p.name, p.first_place IS NULL
                    ORDER BY p.place
                )
            )
        END AS item
    FROM placed AS p
)
SELECT a.capture_id, a.op_index, k.item
FROM named AS a
JOIN keyed AS k ON k.program = a.program AND k.place = a.place;
