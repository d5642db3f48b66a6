"""The report of many captures: what totals and ops were, one capture after the other, and where they changed for good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from etq.report.columns import Table, ask
from etq.report.page import Report, Section

if TYPE_CHECKING:
    from etq.warehouse import Warehouse

# What may be asked of trends, as in `trend` and `regressions`.
OPTIONS: Final = ("over", "by", "unit", "phase", "min_effect", "alpha", "since")
TAKEN: Final = {
    "trend": ("selector", "over", "by", "unit", "phase", "min_effect"),
    "regressions": ("selector", "over", "by", "since", "unit", "phase", "alpha", "min_effect"),
    "op_trends": ("selector", "over", "by", "unit", "phase"),
}
# How many points a chart has at most, and a page: some 2 MB of it.
MOST_POINTS: Final = 300
MOST_IN_ALL: Final = 60_000
MOST_CHANGES: Final = 5000

# Captures of a series that has too many for a chart are put together, neighbours only, and never across a change.
TOTALS: Final = """
    WITH levels AS (
        SELECT t.*, count(t.change_percent) OVER (PARTITION BY t.series ORDER BY t.position) AS level
        FROM {call} AS t
    ),
    counted AS (
        SELECT
            l.*,
            count(*) OVER (PARTITION BY l.series) AS places,
            count(*) OVER (PARTITION BY l.series, l.level) AS in_level,
            row_number() OVER (PARTITION BY l.series, l.level ORDER BY l.position) - 1 AS place
        FROM levels AS l
    )
    SELECT
        c.series, min(c.position) AS position, count(*) AS captures, arg_min(c.label, c.position) AS first_label,
        arg_max(c.label, c.position) AS last_label, arg_min(c.capture, c.position) AS capture,
        min(c.captured_at) AS captured_at, median(c.p25) AS p25, median(c.median) AS median, median(c.p90) AS p90,
        min(c.p25) AS low, max(c.p25) AS high, any_value(c.unit) AS unit, median(c.common_percent) AS common_percent,
        max(c.change_percent) AS change_percent, max(c.p) AS p
    FROM counted AS c
    GROUP BY
        c.series, c.level,
        c.place * least(c.in_level, greatest(1, $points * c.in_level // c.places)) // c.in_level
    ORDER BY c.series, position
"""
# The ops that changed, and of the others those that take most.
OPS: Final = """
    WITH told AS MATERIALIZED (
        FROM {call}
    ),
    known AS (
        SELECT
            t.series, t.what, t.method, t.op, t.module_path, t.instruction_id, sum(t.own * t.captures) AS size,
            count(*) AS points,
            EXISTS (
                SELECT 1 FROM {regressions} AS r
                WHERE r.series = t.series AND r.what = t.what AND r.op = t.op
                    AND r.module_path IS NOT DISTINCT FROM t.module_path
                    AND r.instruction_id IS NOT DISTINCT FROM t.instruction_id
            ) AS has_changed
        FROM told AS t
        WHERE t.what = 'op'
        GROUP BY ALL
    ),
    placed AS (
        SELECT k.*, sum(k.points) OVER (ORDER BY k.has_changed DESC, k.size DESC, k.series, k.op) AS so_far
        FROM known AS k
    )
    SELECT t.*, p.has_changed, (SELECT count(*) FROM known AS k) AS known
    FROM placed AS p
    JOIN told AS t
        ON t.what = p.what AND t.series = p.series AND t.method = p.method AND t.op = p.op
        AND t.module_path IS NOT DISTINCT FROM p.module_path
        AND t.instruction_id IS NOT DISTINCT FROM p.instruction_id
    WHERE p.so_far <= $most
    ORDER BY p.so_far, t.position
"""


def trends_of(warehouse: Warehouse, selector: str | None, given: Mapping[str, Any]) -> Report:
    """The report of the series of the captures that a selector means, or of all.

    given  options by name, as in `OPTIONS`

    Raises `QueryError` where there is no such capture, label or unit.
    """
    asked = _Asked(warehouse, selector, given)
    totals = asked.table(TOTALS, "trend", points=MOST_POINTS)
    changes = asked.table("FROM {call}", "regressions")
    sections = [_overview(asked, totals, changes), _totals(asked, totals), _regressions(asked, changes), _ops(asked)]
    return Report("trends", selector or "All captures", [section for section in sections if section is not None])


class _Asked:
    """What is asked of trends: calls of the macros, with the options that each takes."""

    def __init__(self, warehouse: Warehouse, selector: str | None, given: Mapping[str, Any]) -> None:
        self.warehouse = warehouse
        self.given = {"selector": selector, **{name: given.get(name) for name in OPTIONS}}

    def arguments(self, view: str) -> dict[str, Any]:
        return {name: self.given[name] for name in TAKEN[view] if self.given[name] is not None}

    def call(self, view: str, **more: int) -> str:
        arguments = [f'"{name}" := ${name}' for name in self.arguments(view)]
        return f"{view}({', '.join([*arguments, *(f'{name} := {value:d}' for name, value in more.items())])})"

    def table(self, query: str, view: str, **more: Any) -> Table:
        return ask(self.warehouse, query.format(call=self.call(view)), **self.arguments(view), **more)


def _overview(asked: _Asked, totals: Table, changes: Table) -> Section:
    """What is in each series, in a line."""
    query = """
        SELECT
            t.series, count(*) AS captures, arg_min(t.label, t.position) AS first_label,
            arg_max(t.label, t.position) AS last_label, arg_max(t.p25, t.position) AS last, any_value(t.unit) AS unit,
            count(t.change_percent) AS changes, arg_max(t.change_percent, t.position) AS last_change,
            arg_max(t.label, t.position) FILTER (WHERE t.change_percent IS NOT NULL) AS changed_at
        FROM {call} AS t
        GROUP BY t.series
        ORDER BY t.series
    """
    over = asked.given["over"] or "build"
    by = asked.given["by"] or "model,device,backend"
    facts = {"over": over, "by": by, "changes": changes.length, "min_effect": asked.given["min_effect"] or 0.03}
    series = asked.table(query, "trend")
    return Section("series", "Series", {"series": series, "totals": totals, "changes": changes}, facts)


def _totals(asked: _Asked, totals: Table) -> Section:
    rows = totals.columns[totals.names.index("captures")]
    note = None
    if any(count > 1 for count in rows):
        note = (
            f"Series of more than {MOST_POINTS} captures are drawn in parts: a point is the median of up to "
            f"{max(rows):,} neighbouring captures, and the faint band their range. Changes are found in all captures."
        )
    return Section("totals", "Totals", {"rows": totals}, {"over": asked.given["over"] or "build"}, note)


def _regressions(asked: _Asked, changes: Table) -> Section:
    missing = None
    if not changes.length:
        missing = (
            "No total and no op changed its level for good. What counts is 3 % or more "
            "(--min-effect), clear among all series; for an op it takes some 13 captures on each side."
        )
    return Section("regressions", "Changes for good, the costliest first", {"rows": changes}, missing=missing)


def _ops(asked: _Asked) -> Section | None:
    """Every op's trend, as many as a page bears."""
    [(longest, ops)] = asked.warehouse.rows(
        f"""
        SELECT max(n.captures), count(*) FROM (
            SELECT sum(t.captures) AS captures FROM {asked.call('op_trends', bins=1)} AS t
            WHERE t.what = 'op' GROUP BY t.series, t.method, t.op, t.module_path, t.instruction_id
        ) AS n
        """,
        **asked.arguments("op_trends"),
    )[1]
    if not ops:
        return None
    bins = max(min(MOST_POINTS, MOST_IN_ALL // ops), 60)
    query = OPS.format(call=asked.call("op_trends", bins=bins), regressions=asked.call("regressions"))
    arguments = asked.arguments("op_trends") | asked.arguments("regressions")
    rows = ask(asked.warehouse, query, most=MOST_IN_ALL, **arguments)
    notes = []
    if longest > bins:
        notes.append(
            f"Series of more than {bins} captures are drawn in parts: a point is the median of neighbouring captures, "
            "the faint band their range."
        )
    shown = _distinct(rows)
    if shown < ops:
        notes.append(f"The page has {shown:,} of {ops:,} ops: those that changed, and those that take most.")
    return Section("op_trends", "Ops", {"rows": rows}, {"over": asked.given["over"] or "build"}, " ".join(notes) or None)


def _distinct(rows: Table) -> int:
    names = ("series", "method", "op", "module_path", "instruction_id")
    columns = [rows.columns[rows.names.index(name)] for name in names]
    lists = [column["at"] if isinstance(column, dict) else column for column in columns]
    return len(set(zip(*lists, strict=True)))
