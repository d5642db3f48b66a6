"""What overviews watch: the values of each series, and its lasting changes, as `trend` and `regressions` have them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from etq.analysis.series import order_of
from etq.errors import EtqError
from etq.verdicts import words

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
        FROM trend(what := $what{more}) AS t
        JOIN captures AS c ON c.name = t.capture
    ) AS v
    QUALIFY v.number <= $most_series AND v.position > v.captures - $most_values
    ORDER BY v.series, v.position
"""
# The changes of totals are those of their ops, too; those of others are in their trends.
_CHANGES_OF_TOTALS: Final = """
    SELECT
        r.series, r.what, r.op, r.module_path, r.instruction_id, r.verdict, r.change_percent, r.last_good, r.first_bad,
        epoch_ms(r.recorded_at) AS recorded, r.position, r.is_accepted, r.comment, r.author,
        r.base, r.new
    FROM regressions(with_accepted := true{more}) AS r
    ORDER BY r.recorded_at DESC, r.cost DESC
"""
_CHANGES: Final = """
    SELECT v.* EXCLUDE (is_change) FROM (
        SELECT
            t.series, $what AS what, CASE WHEN $what = 'op' THEN split_part($item, '@', 1) ELSE $item END AS op,
            NULL::VARCHAR AS module_path,
            CASE WHEN $what = 'op' THEN try_cast(split_part($item, '@', 2) AS INTEGER) END AS instruction_id,
            CASE
                WHEN $what <> 'metric' THEN CASE WHEN t.change_percent > 0 THEN 'slower' ELSE 'faster' END
                ELSE (
                    SELECT CASE
                        WHEN (any_value(m.better) = 'higher') = (t.change_percent > 0) THEN 'better' ELSE 'worse'
                    END
                    FROM metrics AS m WHERE m.name = $item HAVING any_value(m.better) IS NOT NULL
                )
            END AS verdict,
            t.change_percent, lag(t.label) OVER (PARTITION BY t.series ORDER BY t.position) AS last_good,
            t.label AS first_bad, epoch_ms(_recorded_at(c.captured_at, c.ingested_at)) AS recorded,
            t.position, t.is_accepted, t.comment, t.author, t.base, t.new,
            t.change_percent IS NOT NULL AS is_change
        FROM trend(what := $what{more}) AS t
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
COMPARISONS: Final = """
    SELECT o.overview, o.comparison_index, o.base, o.new, o.phase, o.min_effect, o.allow_mismatch
    FROM overview_comparisons AS o
    ORDER BY o.overview, o.comparison_index
"""
COMMENTS: Final = """
    SELECT
        c.comment_id AS number, c.verdict, c.series, c.what, c.item, c.ordered_by AS "over", c.first_bad, c.text,
        c.author, strftime(c.written_at, '%Y-%m-%d %H:%M:%S') AS written_at
    FROM change_comments AS c
    ORDER BY c.comment_id DESC
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
        return query.format(more="".join(f', "{name}" := ${name}' for name in given)), given


@dataclass(frozen=True)
class WatchedChange:
    """A lasting change of a series that an overview watches.

    number    of the item that watches it
    over      the label by which captures are ordered, of which last_good and first_bad are
    base, new selectors of what is compared at it, as `regressions` has them
    recorded  when first_bad was recorded, in milliseconds since 1970
    stands    whether it is for the worse, not accepted, and later changes have not undone it
    """

    number: int
    over: str
    series: str
    what: str
    op: str | None
    module_path: str | None
    instruction_id: int | None
    verdict: str | None
    change_percent: float
    last_good: str | None
    first_bad: str
    recorded: int
    position: int
    is_accepted: bool
    comment: str | None
    author: str | None
    base: str | None
    new: str | None
    stands: bool = False

    @property
    def of(self) -> str:
        """What changed, as a text that is the same for all changes of a series' item."""
        return json.dumps([self.over, self.series, self.what, self.op, self.module_path, self.instruction_id])

    @property
    def key(self) -> str:
        """The change's own text, which stays when captures are added."""
        return hashlib.sha256(f"{self.of} {self.first_bad}".encode()).hexdigest()[:24]

    @property
    def name(self) -> str:
        """What changed, as people read it."""
        if self.what == "total":
            return f"total of {self.op}" if self.op else "total"
        return f"{self.op}@{self.instruction_id}" if self.instruction_id is not None else self.op or self.what


def changes_of_overview(warehouse: Warehouse, overview: str) -> tuple[list[WatchedChange], dict[int, str]]:
    """Return what changed in the series of an overview, the latest first, each once, and what items can't be watched
    any more, by number. Raises `EtqError` for an unknown overview.
    """
    items = [row for row in warehouse.rows(ITEMS)[1] if row[0] == overview]
    comparisons = [row for row in warehouse.rows(COMPARISONS)[1] if row[0] == overview]
    if not items and not comparisons:
        raise EtqError(f"overview {overview}: there is none; add what it watches: etq overview NAME --add")
    found: dict[tuple[str, str], WatchedChange] = {}
    problems = {}
    for _, number, *watched in items:
        try:
            for change in _changes_of(warehouse, number, Watched.of(warehouse, *watched)):
                found.setdefault((change.of, change.first_bad), change)
        except EtqError as error:
            problems[number] = str(error)
    return sorted(found.values(), key=lambda each: (-each.recorded, each.of)), problems


def _changes_of(warehouse: Warehouse, number: int, watched: Watched) -> Iterator[WatchedChange]:
    # Imported here, as it takes numpy.
    from etq.verdicts.changes import that_stand

    query, given = watched.changes()
    columns, rows = warehouse.rows(query, **given)
    changes = [WatchedChange(number, watched.over, **dict(zip(columns, row, strict=True))) for row in rows]
    for _, group in groupby(sorted(changes, key=lambda each: (each.of, each.position)), key=lambda each: each.of):
        of_item = list(group)
        worse = [not each.is_accepted and each.verdict in (words.SLOWER, words.WORSE) for each in of_item]
        stand = that_stand([each.change_percent for each in of_item], worse)
        for each, stands in zip(of_item, stand, strict=True):
            yield replace(each, stands=stands)


def verdict_of(
    warehouse: Warehouse, base: str, new: str, phase: str | None, min_effect: float | None, allow_mismatch: bool
) -> tuple[str | None, str]:
    """Return the verdict on the total of a comparison, None where several totals differ in it, and what was decided as
    one line. Raises `QueryError` if the sides can't be compared.
    """
    from etq.analysis.comparison import OPTIONS, Comparison

    options = {"phase": phase, "min_effect": min_effect, "allow_mismatch": allow_mismatch}
    with closing(Comparison(warehouse, base, new, dict.fromkeys(OPTIONS) | options)) as comparison:
        lines = comparison.lines()
        verdicts = {verdict for _, verdict in lines if verdict is not None}
        return verdicts.pop() if len(verdicts) == 1 else None, "; ".join(line for line, _ in lines)


def as_data(change: WatchedChange) -> Mapping[str, Any]:
    """Return a change as JSON has it."""
    return {**vars(change), "key": change.key, "of": change.of, "name": change.name}
