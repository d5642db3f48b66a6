-- Whether a comment is on a total, op, module or metric: its name, as in `trend`, and its identity, as `item` of
-- `op_times`; NULL where it is not one. A comment on an op without an instruction is on all of its instances.
CREATE MACRO _is_comment_on(c, what, item, identity) AS (
    c.what = 'all'
    OR c.what = what AND coalesce(
        c.item IS NULL
        OR c.item = item
        OR c.item = split_part(item, '@', 1)
        OR coalesce(c.identity, CASE c.what WHEN 'total' THEN c.item END) = identity,
        false
    )
);
