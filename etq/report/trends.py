"""The report of many captures: totals and ops, one capture after the other, and their change points."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from etq import catalog
from etq.analysis.series import BY, series_of
from etq.report.columns import Table, ask
from etq.report.kit import Section, added_of, grid
from etq.report.page import Report

if TYPE_CHECKING:
    from etq.database.handles import Answers

# The options of trends, as in `trend` and `regressions`.
OPTIONS: Final = ("over", "by", "unit", "phase", "min_effect", "alpha", "since")
_NUMBERS: Final = ("min_effect", "alpha")
# What several sections show: temporary tables, and the calls that return their rows.
FOUND: Final = {
    "_found_captures": "_series_factors($selector, $over, $by, $phase)",
    "_found_items": "_series_items('temp._found_captures', $phase)",
    "_found_comments": "_series_comments('temp._found_captures')",
    "_found_changes": (
        "_regressions_of('temp._found_captures', 'temp._found_items', 'temp._found_comments', "
        "$selector, $since, $unit, $alpha, $min_effect, true)"
    ),
    "_found_trend": (
        "_trend_of('temp._found_captures', 'temp._found_comments', 'total', NULL, "
        "$selector, $unit, $phase, $alpha, $min_effect, false)"
    ),
}
# The options that the page shows.
SHOWN_OPTIONS: Final = ("unit", "phase", "min_effect", "alpha", "since")
# The most points of a chart, and of a page, which is then about 2 MB.
MOST_POINTS: Final = 300
LEAST_POINTS: Final = 60
MOST_IN_ALL: Final = 60_000
MOST_CHANGES: Final = 5000

# If a series has too many captures for a chart, neighbouring captures are combined, but never across a change point.
# `place` is the position of a point's first label among the labels of all series, for charts of several series.
TOTALS: Final = """
    WITH labels_of_all AS (
        SELECT s.label, row_number() OVER (ORDER BY min(s.label_key), s.label) AS place
        FROM temp._found_captures AS s
        GROUP BY s.label
    ),
    levels AS (
        SELECT t.*, count(t.change_percent) OVER (PARTITION BY t.series, t.unit ORDER BY t.position) AS level
        FROM temp._found_trend AS t
    ),
    counted AS (
        SELECT
            l.*,
            count(*) OVER (PARTITION BY l.series, l.unit) AS places,
            count(*) OVER (PARTITION BY l.series, l.unit, l.level) AS in_level,
            row_number() OVER (PARTITION BY l.series, l.unit, l.level ORDER BY l.position) - 1 AS place
        FROM levels AS l
    )
    SELECT
        c.series, min(c.position) AS position, count(*) AS captures, arg_min(c.label, c.position) AS first_label,
        arg_max(c.label, c.position) AS last_label, arg_min(c.capture, c.position) AS capture,
        median(c.p25) AS p25, median(c.median) AS median, median(c.p90) AS p90,
        min(c.p25) AS low, max(c.p25) AS high, c.unit, median(c.common_percent) AS common_percent,
        max(c.change_percent) AS change_percent, max(c.stage) AS stage, max(c.p) AS p,
        arg_min(k.place, c.position) AS place
    FROM counted AS c
    JOIN labels_of_all AS k USING (label)
    GROUP BY
        c.series, c.unit, c.level,
        c.place * least(c.in_level, greatest(1, $points * c.in_level // c.places)) // c.in_level
    ORDER BY c.series, c.unit, position
"""
# A row for each series and clock.
SERIES: Final = """
    SELECT
        t.series, count(*) AS captures, arg_min(t.label, t.position) AS first_label,
        arg_max(t.label, t.position) AS last_label, arg_min(t.p25, t.position) AS first,
        arg_max(t.p25, t.position) AS last, t.unit,
        count(*) FILTER (WHERE t.stage = 'kept' AND NOT t.is_accepted) AS changes,
        arg_max(t.change_percent, t.position) FILTER (WHERE t.stage = 'kept' AND NOT t.is_accepted) AS last_change,
        arg_max(t.label, t.position) FILTER (WHERE t.stage = 'kept' AND NOT t.is_accepted) AS changed_at,
        arg_max_null(t.shown_percent, t.position) AS shown_by_5_builds_percent, any_value(t.ordered_by) AS ordered_by
    FROM temp._found_trend AS t
    GROUP BY t.series, t.unit
    ORDER BY changes DESC, t.series, t.unit
"""
KINDS: Final = {
    **dict.fromkeys(("first_label", "last_label", "changed_at"), "label"),
    **dict.fromkeys(("first", "last"), "time"),
    "last_change": "change",
    "shown_by_5_builds_percent": "percent",
}
# The ops that changed, and the longest of the other ops.
OPS: Final = """
    WITH points AS MATERIALIZED (
        SELECT t.*, concat_ws(chr(31), t.series, t.unit, t.op, t.module_path, '@' || t.instruction_id) AS name
        FROM _op_parts('temp._found_items', 'temp._found_captures', $bins, $unit) AS t
        WHERE t.what = 'op'
    ),
    changes AS MATERIALIZED (
        SELECT DISTINCT concat_ws(chr(31), r.series, r.unit, r.op, r.module_path, '@' || r.instruction_id) AS name
        FROM temp._found_changes AS r
        WHERE r.what <> 'total' AND r.instances = 1
    ),
    known AS (
        SELECT t.method, t.name, sum(t.normalized * t.captures) AS size, count(*) AS points
        FROM points AS t
        GROUP BY t.method, t.name
    ),
    placed AS MATERIALIZED (
        SELECT
            k.method, k.name,
            sum(k.points) OVER (ORDER BY c.name IS NULL, k.size DESC, k.name, k.method) AS so_far
        FROM known AS k
        LEFT JOIN changes AS c ON c.name = k.name
    )
    SELECT t.* EXCLUDE (what, name)
    FROM placed AS p
    JOIN points AS t ON t.name = p.name AND t.method = p.method
    WHERE p.so_far <= $most
    ORDER BY p.so_far, t.position
"""


def trends_of(warehouse: Answers, selector: str | None, options: Mapping[str, Any]) -> Report:
    """Return the report of the series of the captures that a selector matches, or of all captures.

    options  options by name, as in `OPTIONS`

    Raises `QueryError` for an unknown capture, label or unit.
    """
    trends = _Trends(warehouse, selector, options)
    made = added_of("regressions")
    with _found(trends):
        changes, accepted = (
            ask(warehouse, f"SELECT *{made} FROM temp._found_changes WHERE {chosen} LIMIT $most", most=MOST_CHANGES)
            for chosen in ("NOT is_accepted", "is_accepted")
        )
        series = ask(warehouse, SERIES)
        points, ops = _ops(trends)
        sections = [
            _overview(trends, series, changes),
            _totals(trends, series, changes),
            _regressions(trends, changes, accepted, points),
        ]
    return Report("trends", selector or "All captures", [*sections, *([ops] if ops is not None else [])])


@contextmanager
def _found(trends: _Trends) -> Iterator[None]:
    """Provide temporary tables of rows that several sections show. Other threads wait until the block ends."""
    with trends.warehouse.locked() as connection:
        try:
            for table, rows in FOUND.items():
                options = trends.given(*re.findall(r"\$(\w+)", rows))
                trends.warehouse.rows(f"CREATE TEMP TABLE {table} AS FROM {rows}", **options)
            yield
        finally:
            for name in FOUND:
                connection.execute(f"DROP TABLE IF EXISTS temp.{name}")


class _Trends:
    """What is asked: captures and options, with the defaults of `trend` and `regressions`."""

    def __init__(self, warehouse: Answers, selector: str | None, options: Mapping[str, Any]) -> None:
        self.warehouse = warehouse
        self.options = {"selector": selector, **{name: options.get(name) for name in OPTIONS}}
        given = (self.options[name] for name in ("over", "by", "phase"))
        self.series = series_of(warehouse, selector, *given)

    def given(self, *names: str) -> dict[str, Any]:
        of_view = {each.name: each.default for each in catalog.named("regressions").parameters}
        defaults = {"by": BY} | {name: float(str(of_view[name])) for name in _NUMBERS}
        given = {name: self.options[name] for name in names}
        return {name: defaults.get(name) if value is None else value for name, value in given.items()}


def _overview(trends: _Trends, series: Table, changes: Table) -> Section:
    facts = {
        "over": trends.series.order,
        "judged": trends.series.judged > 0,
        "by": trends.given("by")["by"],
        "options": {
            name: value for name, value in trends.options.items() if value is not None and name in SHOWN_OPTIONS
        },
    }
    notes = [
        f"{note[0].upper()}{note[1:]}." for note in (trends.series.missing, trends.series.mixed) if note is not None
    ]
    return Section("series", "Overview", {"series": series, "changes": changes}, facts, " ".join(notes) or None)


def _totals(trends: _Trends, series: Table, changes: Table) -> Section:
    rows = ask(trends.warehouse, TOTALS, points=MOST_POINTS)
    most = max(rows.columns[rows.names.index("captures")], default=1)
    note = None
    if most > 1:
        note = (
            f"Series of more than {MOST_POINTS} captures are drawn in parts: a point is the median of up to "
            f"{most:,} neighbouring captures. Changes are found in all of them."
        )
    facts = {"orders": trends.series.orders}
    return Section(
        *("totals", "Totals", {"rows": rows, "changes": changes}, facts, note),
        grids=[grid("trend", series, name="series", kinds=KINDS, is_own=True)],
    )


def _regressions(trends: _Trends, changes: Table, accepted: Table, points: Table) -> Section:
    missing = note = None
    least = 100 * float(trends.given("min_effect")["min_effect"])
    if not changes.length:
        missing = (
            f"{trends.series.unchanged('change of a total or an op').capitalize()}. A change counts if it is "
            f"{least:.3g} % or more, and clear among all series. It is seen after 3 builds, and kept once "
            "it is unlikely that disturbed builds caused it."
        )
    elif changes.length == MOST_CHANGES:
        note = f"The {MOST_CHANGES:,} costliest."
    grids = [
        grid("regressions", rows, title, name=name)
        for name, rows, title in (("regressions", changes, None), ("accepted", accepted, "Accepted"))
        if rows.length
    ]
    facts = {"orders": trends.series.orders}
    tables = {"rows": changes, "points": points}
    return Section("regressions", "Changes", tables, facts, note, missing, grids)


def _ops(trends: _Trends) -> tuple[Table, Section | None]:
    """Return the points of the ops that fit into a page, and a section that lists all ops."""
    listed = ask(
        trends.warehouse,
        """
        SELECT t.* EXCLUDE (what, position, p25, first_label, last_label), t.module_path AS module,
            count(*) OVER () AS known
        FROM _op_parts('temp._found_items', 'temp._found_captures', 1, $unit) AS t
        WHERE t.what = 'op'
        ORDER BY t.normalized DESC, t.series, t.op, t.method
        LIMIT $most
        """,
        most=MOST_CHANGES,
        **trends.given("unit"),
    )
    known = listed.columns[listed.names.index("known")][0] if listed.length else 0
    bins = max(min(MOST_POINTS, MOST_IN_ALL // max(known, 1)), LEAST_POINTS)
    points = ask(trends.warehouse, OPS, bins=bins, most=MOST_IN_ALL, **trends.given("unit"))
    if not listed.length:
        return points, None
    notes = []
    if max(listed.columns[listed.names.index("captures")]) > bins:
        notes.append(f"Series of more than {bins} captures are drawn in parts, as the medians of neighbours.")
    shown = _distinct(points)
    if shown < known:
        notes.append(
            f"The page has the trends of {shown:,} of {known:,} ops: those that changed, and those that take most time."
        )
    facts = {"orders": trends.series.orders}
    return points, Section("op_trends", "Ops", {}, facts, " ".join(notes) or None, grids=[grid("op_trends", listed)])


def _distinct(points: Table) -> int:
    names = ("series", "method", "op", "module_path", "instruction_id")
    columns = [points.columns[points.names.index(name)] for name in names]
    lists = [column["at"] if isinstance(column, dict) else column for column in columns]
    return len(set(zip(*lists, strict=True)))
