"""The questions that pages ask. Each is a function of the warehouse and the page's parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from typing import Any, Final

from etq import catalog
from etq.analysis import causes
from etq.errors import EtqError, QueryError
from etq.report import home, report_of, single, trends_of
from etq.report.columns import Table
from etq.report.columns import ask as columns_of
from etq.report.fleet import fleet_of
from etq.report.jobs import job_of
from etq.selectors import selector_of
from etq.serve.answers import Answer, of_data
from etq.warehouse.warehouse import Warehouse

Arguments = Mapping[str, str]
_NUMBERS: Final = ("quantile", "alpha", "min_effect")


# The place of each capture in the list of all. Keys of a lake's captures are not in the order of ingest.
PLACES: Final = """
    SELECT c.capture_id, row_number() OVER (ORDER BY c.ingested_at, c.capture_id) - 1 AS place FROM captures AS c
"""


def _overview(warehouse: Warehouse, arguments: Arguments) -> Answer:
    """The number of the chosen captures, and a text about their models and devices."""
    captures, text = home.overview(warehouse, arguments.get("selector") or None)
    return of_data({"captures": captures, "text": text})


def _home(warehouse: Warehouse, arguments: Arguments) -> Answer:
    """The rows of `series`, which series are judged, and whether devices are compared."""
    judged, series = home.series_of(warehouse, arguments.get("selector") or None)
    return of_data({"judged": judged, "series": series.as_data()})


def _findings(warehouse: Warehouse, arguments: Arguments) -> Answer:
    """Causes of slowdowns in words, as in the view `causes`, with accepted changes."""
    return of_data(causes.causes_of(warehouse, selector=arguments.get("selector") or None, with_accepted=True))


def _captures(warehouse: Warehouse, _: Arguments) -> Answer:
    """All captures, in the order of ingest; for each label its values and the places of their captures; and the named
    views, in the order of their names.
    """
    rows = columns_of(
        warehouse,
        """
        SELECT
            c.name, left(c.sha256, 12) AS sha256, c.format, c.profiling_level, c.captured_at, c.size_bytes, c.uri,
            epoch_us(c.ingested_at) AS ingested
        FROM captures AS c
        ORDER BY c.ingested_at, c.capture_id
        """,
    )
    labels: dict[str, dict[str, list[int]]] = {}
    query = f"""
        SELECT l.key, l.value, list(c.place)
        FROM ({PLACES}) AS c
        JOIN labels AS l ON l.capture_id = c.capture_id
        GROUP BY l.key, l.value
        ORDER BY l.key, _version_key(l.value), l.value
    """
    for key, value, places in warehouse.rows(query)[1]:
        labels.setdefault(key, {})[value] = places
    coded = {}
    for key, values in labels.items():
        at = [-1] * rows.length
        for number, places in enumerate(values.values()):
            for place in places:
                at[place] = number
        coded[key] = {"texts": list(values), "at": at}
    names, views = warehouse.rows("SELECT v.name, v.sort_by, v.shown FROM named_views AS v ORDER BY v.name")
    return of_data(
        {"rows": rows.as_data(), "labels": coded, "views": [dict(zip(names, view, strict=True)) for view in views]}
    )


def _counts(warehouse: Warehouse, _: Arguments) -> Answer:
    """The number of runs and of findings of all captures, in the order of ingest."""
    query = """
        SELECT s.name, s.runs, s.findings
        FROM capture_summary AS s
        JOIN captures AS c ON c.name = s.name
        ORDER BY c.ingested_at, c.capture_id
    """
    return of_data({"rows": columns_of(warehouse, query).as_data()})


def _matches(warehouse: Warehouse, arguments: Arguments) -> Answer:
    """The places, in the list of all, of the captures that a selector matches; and the selector's labels by key, if it
    has only labels. Raises `QueryError` if no capture matches.
    """
    query = f"""
        SELECT p.place
        FROM ({PLACES}) AS p
        WHERE p.capture_id IN (SELECT s.capture_id FROM _several_captures($selector) AS s)
        ORDER BY p.place
    """
    selector = warehouse.expanded(arguments.get("selector", ""))
    rows = warehouse.rows(query, selector=selector)[1]
    [(terms,)] = warehouse.rows("SELECT _selector_terms($selector)", selector=selector)[1]
    is_labels = all(term["sign"] == "=" and len(term["values"]) == 1 and not term["is_time"] for term in terms)
    pairs = {term["key"]: term["values"][0] for term in terms} if is_labels else {}
    # If a selector has two values of one label, it doesn't choose a single value.
    return of_data({"places": [place for (place,) in rows], "pairs": pairs if len(pairs) == len(terms) else None})


def _series(warehouse: Warehouse, arguments: Arguments) -> Answer:
    """The execute time of each chosen capture; these times by series, in order; and kept changes, as in the view
    `trend`.
    """
    options = _options(arguments, "selector", "over", "by")
    rows: Table | None = None
    is_ordered = not options.keys().isdisjoint({"over", "by"})
    with nullcontext() if is_ordered else suppress(QueryError):  # captures may have nothing to be ordered by
        call = ", ".join(f'"{name}" := ${name}' for name in options)
        query = f"""
            SELECT series, ordered_by, label, capture, p25, unit,
                CASE stage WHEN 'kept' THEN change_percent END AS change_percent
            FROM trend({call}) ORDER BY series, position
        """
        rows = columns_of(warehouse, query, **options)
    # Captures without the label that orders series have an execute time, too.
    chosen = {"selector": options["selector"]} if "selector" in options else {}
    executes = columns_of(warehouse, EXECUTES.format(_CHOSEN if chosen else ""), **chosen).as_data()
    return of_data({"rows": None if rows is None else rows.as_data(), "executes": executes})


_CHOSEN: Final = " AND c.capture_id IN (SELECT m.capture_id FROM _matching_captures($selector) AS m)"
# The execute time of each chosen capture, from the rollups that `trend` reads.
EXECUTES: Final = """
    SELECT
        e.capture,
        _in_unit(e.ticks, _scale(e.time_scale, e.unit)) AS execute,
        e.unit
    FROM (
        SELECT
            c.name AS capture,
            c.time_scale,
            CASE c.time_scale WHEN 'cycles' THEN 'cycles' ELSE 'us' END AS unit,
            sum(o.p25) AS ticks
        FROM captures AS c
        JOIN op_times AS o ON o.capture_id = c.capture_id
        WHERE o.op_index = 0 AND o.kind <> 'device_total' AND o.phase IS NULL{}
        GROUP BY c.capture_id, c.name, c.time_scale
    ) AS e
    ORDER BY e.capture
    """


def _report(warehouse: Warehouse, arguments: Arguments) -> Answer:
    """The report of one capture, or a part of it, and the methods that can be chosen."""
    options = _options(arguments, "unit", "method", "runs")
    part = arguments.get("part") or None
    if part not in (None, *single.PARTS):
        raise EtqError(f"{part}: not a part of a report; they are {', '.join(single.PARTS)}")
    if not arguments.get("capture"):
        raise EtqError("capture: none is chosen; give a name, a hash prefix or a selector")
    capture = warehouse.capture(arguments["capture"])
    report = single.report_of(warehouse, capture, part=part, **options).as_data()
    query = "SELECT DISTINCT r.scope FROM runs AS r WHERE r.capture_id = $c AND r.is_typical IS NOT NULL ORDER BY ALL"
    methods = [scope for (scope,) in warehouse.rows(query, c=capture.capture_id)[1]]
    return of_data({**report, "capture": capture.name, "sha256": capture.sha256[:12], "methods": methods})


def _difference(warehouse: Warehouse, arguments: Arguments) -> Answer:
    """The report of two sides."""
    sides = [arguments.get("base", ""), arguments.get("new", "")]
    for name, side in zip(("base", "new"), sides, strict=True):
        if not side:
            raise EtqError(f"{name}: no captures are chosen; give a name, a hash prefix or a selector")
    options = _options(arguments, "unit", "phase", "history", "quantile", "alpha", "min_effect")
    if arguments.get("allow_mismatch") in ("1", "true"):
        options["allow_mismatch"] = True
    return of_data(report_of(warehouse, sides, **options).as_data())


def _trends(warehouse: Warehouse, arguments: Arguments) -> Answer:
    """The report of series."""
    options = _options(arguments, "selector", "over", "by", "unit", "phase", "since", "alpha", "min_effect")
    return of_data(trends_of(warehouse, **options).as_data())


def _fleet(warehouse: Warehouse, arguments: Arguments) -> Answer:
    """The report of a fleet, and the labels whose values can be compared."""
    options = _options(arguments, "selector", "by", "unit", "phase", "quantile", "alpha", "min_effect")
    return of_data(fleet_of(warehouse, **options).as_data())


def _jobs(warehouse: Warehouse, arguments: Arguments) -> Answer:
    """The report of the job that a selector chooses. Without a selector, the list of jobs, and the report if there is
    only one job.
    """
    names, rows = warehouse.rows("FROM jobs()")
    known = [dict(zip(names, row, strict=True)) for row in rows]
    selector = arguments.get("selector") or None
    if selector is None and len(known) == 1 and known[0]["job"] is not None:
        selector = selector_of({"job": known[0]["job"]})
    report = None if selector is None else job_of(warehouse, selector, selector, unit=arguments.get("unit") or None)
    return of_data({"jobs": known, "report": None if report is None else report.as_data()})


def _options(arguments: Arguments, *names: str) -> dict[str, Any]:
    """Return the given ones of these options: a number for an option of `_NUMBERS`, else a text."""
    found: dict[str, Any] = {name: arguments[name] for name in names if arguments.get(name)}
    for name in (name for name in _NUMBERS if name in found):
        try:
            found[name] = float(found[name])
        except ValueError:
            raise EtqError(f"{name}: {found[name]!r} is not a number") from None
    return found


def _schema(_: Warehouse, __: Arguments) -> Answer:
    """The public tables, views and macros, with their documentation."""
    return of_data(
        [
            {
                "name": each.name,
                "kind": each.kind,
                "text": each.text,
                "columns": [[column.name, column.type or "", column.text] for column in each.columns],
                "parameters": [[given.name, given.default, given.text] for given in each.parameters],
            }
            for each in catalog.public_objects()
        ]
    )


QUESTIONS: Final[Mapping[str, Callable[[Warehouse, Arguments], Answer]]] = {
    "overview": _overview,
    "home": _home,
    "findings": _findings,
    "captures": _captures,
    "counts": _counts,
    "matches": _matches,
    "series": _series,
    "report": _report,
    "difference": _difference,
    "trends": _trends,
    "fleet": _fleet,
    "jobs": _jobs,
    "schema": _schema,
}
