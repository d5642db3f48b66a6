-- The parts of the longest common subsequence of two lists, as structs of x and y
-- (elements of base and of new before it) and n (its elements), by the greedy
-- algorithm of Myers (An O(ND) difference algorithm and its variations). After 200
-- elements that are in one list alone, no more are compared.
CREATE MACRO _common_parts(
    base,  -- list
    new  -- list
) AS (
    list_max(list_transform(
        -- The furthest paths into both lists that pass over d elements.
        list_reduce(
            -- The numbers of elements passed over, as x: DuckDB 1.5 reduces a list only
            -- to a value of its elements' type.
            list_transform(
                range(0, least(len(base) + len(new), 200) + 1),
                lambda d: [struct_pack(
                    x := d,
                    y := 0::BIGINT,
                    parts := []::STRUCT(x BIGINT, y BIGINT, n BIGINT)[]
                )]
            ),
            lambda paths, step: CASE
                WHEN len(list_filter(
                    paths, lambda f: f.x = len(base) AND f.y = len(new)
                )) > 0 THEN paths
                ELSE list_transform(
                    list_transform(
                        list_transform(range(1, step[1].x + 2), lambda i: CASE
                            WHEN step[1].x > 0 AND (
                                i > step[1].x
                                OR i > 1 AND paths[i - 1].x >= paths[i].x
                            )
                                THEN struct_pack(
                                    x := paths[i - 1].x + 1,
                                    y := paths[i - 1].y,
                                    parts := paths[i - 1].parts
                                )
                            ELSE struct_pack(
                                x := paths[i].x,
                                y := paths[i].y + 1,
                                parts := paths[i].parts
                            )
                        END),
                        lambda f: struct_pack(
                            path := f,
                            n := coalesce(
                                list_position(
                                    list_transform(
                                        range(
                                            1,
                                            least(len(base) - f.x, len(new) - f.y) + 1
                                        ),
                                        lambda i: base[f.x + i] = new[f.y + i]
                                    ),
                                    false
                                ) - 1,
                                greatest(0, least(len(base) - f.x, len(new) - f.y))
                            )::BIGINT
                        )
                    ),
                    lambda e: struct_pack(
                        x := e.path.x + e.n,
                        y := e.path.y + e.n,
                        parts := CASE
                            WHEN e.n > 0 THEN list_append(
                                e.path.parts,
                                struct_pack(x := e.path.x, y := e.path.y, n := e.n)
                            )
                            ELSE e.path.parts
                        END
                    )
                )
            END,
            [struct_pack(
                x := 0::BIGINT,
                y := -1::BIGINT,
                parts := []::STRUCT(x BIGINT, y BIGINT, n BIGINT)[]
            )]
        ),
        lambda f: CASE
            WHEN f.x <= len(base) AND f.y <= len(new)
                THEN struct_pack(passed := f.x + f.y, parts := f.parts)
        END
    )).parts
);
