"""The subject of a comment on a change, a series and an op, in a form that stays valid as captures are added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from etq.analysis.series import BY, series_of
from etq.annotations.comments import ALL, Comment, labels_of_series
from etq.errors import QueryError, printable

if TYPE_CHECKING:
    from etq.database.handles import Answers

_PLACED: Final = """
    SELECT DISTINCT s.ordered_by, s.label FROM _series_captures($selector, $over, $by) AS s
    WHERE s.label = $label OR s.ordered_by = 'commit' AND starts_with(s.label, $label)
"""
# The ops of the captures that an item of a trend names.
_IDENTITIES: Final = """
    SELECT DISTINCT o.item
    FROM op_times AS o
    JOIN _series_captures($selector, $over, '') AS s USING (capture_id)
    WHERE o.op_index > 0 AND o.phase IS NULL
        AND split_part($item, '@', 1) IN (o.family || _device_suffix(o.kind), o.op_type)
        AND (split_part($item, '@', 2) = '' OR o.instruction_id = try_cast(split_part($item, '@', 2) AS INTEGER))
    {chosen}
    LIMIT 2
"""
# Instructions have this form in `regressions`.
_LAST: Final = "QUALIFY s.position = max(s.position) OVER ()"
_CREEPS: Final = """
    SELECT 1 FROM regressions($selector, over := $over, "by" := $by) AS r
    WHERE r.kind = 'creep' AND r.first_bad = $label AND ($what = 'all' OR r.what = $what)
        AND (
            $item IS NULL
            OR $item = r.op || CASE r.what WHEN 'op' THEN coalesce('@' || r.instruction_id, '') ELSE '' END
        )
    LIMIT 1
"""


def commented(
    warehouse: Answers,
    first_bad: str,
    selector: str | None,
    what: str,
    item: str | None,
    over: str | None,
    by: str | None,
    *,
    verdict: str,
    text: str,
    author: str | None,
) -> Comment:
    """Return a comment on a change. Raises `QueryError` if no capture has the label, or the op doesn't exist."""
    series = labels_of_series(warehouse.connection, selector)
    given = {"selector": series or None, "over": over}
    placed = warehouse.rows(_PLACED, **given, by=by or BY, label=first_bad)[1]
    if len(placed) != 1:
        known = series_of(warehouse, series or None, over, by).order
        many = f"no capture has {known}" if not placed else f"{len(placed)} labels match"
        raise QueryError(f"{many} {printable(first_bad)}; etq regressions lists first_bad")
    [(given["over"], label)] = placed
    identity = None
    if what == "op" and item is not None:
        for chosen in (_LAST, ""):
            rows = warehouse.rows(_IDENTITIES.format(chosen=chosen), **given, item=item)[1]
            if rows:
                break
        else:
            raise QueryError(f"no op {printable(item)} in these captures; etq regressions names those that changed")
        identity = rows[0][0] if len(rows) == 1 else None
    is_creep = what in ("total", "op", ALL) and bool(
        warehouse.rows(_CREEPS, **given, by=by or BY, label=label, what=what, item=item)[1]
    )
    kind = "creep" if is_creep else "step"
    return Comment(series, what, item, identity, given["over"] or "", label, kind, verdict, text, author)
