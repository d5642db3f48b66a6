"""What overviews watch: the values of each series, and its lasting changes, as `trend` and `regressions` have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from etq.analysis.series import order_of

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

# The most series of one item, and the most values of each, the last ones.
MOST_SERIES: Final = 20
MOST_VALUES: Final = 300

# The values of series: `series_count` is the number of series that there are, `recorded` in milliseconds since 1970.
_VALUES: Final = """
    SELECT
        v.series, v.position, v.label, v.capture, v.value, v.unit, v.change_percent, v.recorded,
        max(v.number) OVER () AS series_count
    FROM (
        SELECT
            t.series, t.position, t.label, t.capture, t.normalized AS value, t.unit, t.change_percent,
            epoch_ms(_recorded_at(c.captured_at, c.ingested_at)) AS recorded,
            dense_rank() OVER (ORDER BY t.series) AS number,
            count(*) OVER (PARTITION BY t.series) AS captures
        FROM trend($what, {given}) AS t
        JOIN captures AS c ON c.name = t.capture
    ) AS v
    QUALIFY v.number <= $most_series AND v.position > v.captures - $most_values
    ORDER BY v.series, v.position
"""
# The changes of totals are those of their ops, too; those of others are in their trends.
_CHANGES_OF_TOTALS: Final = """
    SELECT
        r.series, r.what, r.op, r.module_path, r.instruction_id, r.verdict, r.change_percent, r.last_good, r.first_bad,
        epoch_ms(r.recorded_at) AS recorded
    FROM regressions({given}) AS r
    ORDER BY r.recorded_at DESC, r.cost DESC
"""
_CHANGES: Final = """
    SELECT v.* EXCLUDE (is_change) FROM (
        SELECT
            t.series, $what AS what, CASE WHEN $what = 'op' THEN split_part($item, '@', 1) ELSE $item END AS op,
            NULL::VARCHAR AS module_path,
            CASE WHEN $what = 'op' THEN try_cast(split_part($item, '@', 2) AS INTEGER) END AS instruction_id,
            CASE WHEN $what <> 'metric' THEN CASE WHEN t.change_percent > 0 THEN 'slower' ELSE 'faster' END END
                AS verdict,
            t.change_percent, lag(t.label) OVER (PARTITION BY t.series ORDER BY t.position) AS last_good,
            t.label AS first_bad, epoch_ms(_recorded_at(c.captured_at, c.ingested_at)) AS recorded,
            t.change_percent IS NOT NULL AS is_change
        FROM trend($what, {given}) AS t
        JOIN captures AS c ON c.name = t.capture
    ) AS v
    WHERE v.is_change
    ORDER BY v.recorded DESC, v.series
"""
ITEMS: Final = """
    SELECT o.overview, o.item_index, o.what, o.item, o.selector, o.ordered_by, o.separated_by
    FROM overview_items AS o
    ORDER BY o.overview, o.item_index
"""


@dataclass(frozen=True)
class Watched:
    """What an item of an overview watches: the parameters of `trend`."""

    what: str
    item: str | None
    selector: str | None
    over: str
    by: str | None

    @classmethod
    def of(
        cls, warehouse: Warehouse, what: str, item: str | None, selector: str | None, over: str | None, by: str | None
    ) -> Watched:
        """Return it with the order of captures. Raises `QueryError` as `order_of` does."""
        return cls(what, item, selector, order_of(warehouse, selector, over), by)

    def values(self) -> tuple[str, dict[str, Any]]:
        """The query for the values of its series, and the query's parameters."""
        query, given = self._asked(_VALUES, ("item", "selector", "over", "by"))
        return query, {**given, "what": self.what, "most_series": MOST_SERIES, "most_values": MOST_VALUES}

    def changes(self) -> tuple[str, dict[str, Any]]:
        """The query for the lasting changes of its series, the latest first, and the query's parameters."""
        if self.what == "total" and self.item is None:
            return self._asked(_CHANGES_OF_TOTALS, ("selector", "over", "by"))
        query, given = self._asked(_CHANGES, ("item", "selector", "over", "by"))
        return query, {**given, "what": self.what, "item": self.item}

    def _asked(self, query: str, names: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        return query.format(given=", ".join(f'"{name}" := ${name}' for name in given)), given
