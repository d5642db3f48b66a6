"""The report of a warehouse: the things that are slower, the most costly first, and all series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from etq.analysis import causes
from etq.errors import counted
from etq.report.columns import Table, ask, table
from etq.report.kit import Section
from etq.report.page import Report

if TYPE_CHECKING:
    from etq.database.handles import Answers

# How many captures of each series are drawn at most (the last ones), and how many series.
_MOST_POINTS: Final = 90
_MOST_DRAWN: Final = 300
_POINTS: Final = f"""
    SELECT t.series, t.ordered_by, t.label, t.capture, t.p25, t.unit,
        CASE t.stage WHEN 'kept' THEN t.change_percent END AS change_percent
    FROM _trend('total', NULL, $selector, NULL, 'model,device,backend', NULL, NULL, 0.05, 0.03, true) AS t
    WHERE list_contains($drawn::VARCHAR[], t.series)
    QUALIFY row_number() OVER (PARTITION BY t.series, t.unit ORDER BY t.position DESC) <= {_MOST_POINTS}
    ORDER BY t.series, t.position
"""
_OVERVIEW: Final = """
    SELECT count(*), max(_recorded_at(c.captured_at, c.ingested_at)), count(DISTINCT m.value), count(DISTINCT d.value)
    FROM captures AS c
    LEFT JOIN labels AS m ON m.capture_id = c.capture_id AND m.key = 'model'
    LEFT JOIN labels AS d ON d.capture_id = c.capture_id AND d.key = 'device'
    WHERE $selector IS NULL OR c.capture_id IN (SELECT s.capture_id FROM _several_captures($selector) AS s)
"""


def home_of(warehouse: Answers, selector: str | None, name: str) -> Report:
    """Return the report of the captures that a selector chooses; None: all. `name` is that of the warehouse.

    Raises `QueryError` for an unknown selector.
    """
    found = causes.causes_of(warehouse, selector=selector, with_accepted=True)
    judged, series = series_of(warehouse, selector)
    names = series.list("series")
    drawn = [*dict.fromkeys([*(cause["series"] for cause in found), *names])][:_MOST_DRAWN]
    tables = {"series": series, "points": ask(warehouse, _POINTS, selector=selector, drawn=drawn)}
    facts: dict[str, Any] = {
        "causes": [{key: _plain(value) for key, value in cause.items()} for cause in found],
        "overview": overview(warehouse, selector)[1],
        "source": name,
    }
    open_ones = sum(not cause["is_accepted"] for cause in found)
    title = counted(open_ones, "finding") if open_ones else "No findings"
    drawn_text = f"The page draws the last captures of {_MOST_DRAWN} of {len(names):,} series."
    return Report(
        "home",
        selector or name,
        [
            Section("slower", title, tables, facts),
            Section(
                "all_series", "Series", tables, {"judged": judged}, drawn_text if len(names) > _MOST_DRAWN else None
            ),
        ],
    )


def series_of(warehouse: Answers, selector: str | None) -> tuple[str, Table]:
    """Return the rows of `series`, and a text that says which series are judged, and whether devices are compared."""
    names, rows = warehouse.rows("FROM series($selector)", selector=selector)
    series = [dict(zip(names, row, strict=True)) for row in rows]
    return causes.judged(series, causes.compared_devices(warehouse, selector=selector)), table(names, rows)


def overview(warehouse: Answers, selector: str | None = None) -> tuple[int, str]:
    """Return the number of captures that a selector chooses (None: all), and a text with the numbers of captures,
    models and devices, and the time of the newest recording.
    """
    [(captures, newest, models, devices)] = warehouse.rows(_OVERVIEW, selector=selector)[1]
    of_models = f" of {counted(models, 'model')}" if models else ""
    on_devices = f" on {counted(devices, 'device')}" if devices else ""
    recorded = f"; newest {newest:%Y-%m-%d %H:%M} UTC" if newest else ""
    return captures, f"{counted(captures, 'capture')}{of_models}{on_devices}{recorded}"


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
