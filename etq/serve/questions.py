"""What pages ask of a warehouse: each question is a function of the warehouse and the page's parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from etq import catalog
from etq.analysis.series import check_keys, order_of
from etq.analysis.watched import (
    COMMENTS,
    COMPARISONS,
    ITEMS,
    MOST_SERIES,
    Watched,
    as_data,
    changes_of_overview,
    verdict_of,
)
from etq.annotations.comments import ACCEPTED
from etq.database.connection import is_lake_path
from etq.database.functions import register_for
from etq.database.locking import HeldError
from etq.database.rollups import PRUNED
from etq.errors import EtqError, QueryError
from etq.report import report_of, single, trends_report_of
from etq.report.columns import Table
from etq.report.columns import ask as columns_of
from etq.sandbox.formats import TYPES
from etq.sandbox.results import parameters_of
from etq.sandbox.statements import selected
from etq.serve.openapi import views
from etq.serve.payloads import JSON, MOST_OF_ANSWER, Payload, of_data
from etq.serve.results import check_format, result_of
from etq.warehouse.warehouse import Warehouse
from etq.warehouse.warehouse import open as open_warehouse

Arguments = Mapping[str, str]


@dataclass(frozen=True)
class Question:
    """A question: the function that answers it, of an open warehouse, for reading or writing, or of its path."""

    of: Callable[[Any, Arguments], Payload]
    needs_warehouse: bool = True
    writes: bool = False


# The place of each capture in the list of all. Keys of a lake's captures are not in the order of ingest.
PLACES: Final = """
    SELECT c.capture_id, row_number() OVER (ORDER BY c.ingested_at, c.capture_id) - 1 AS place FROM captures AS c
"""


def _captures(warehouse: Warehouse, _: Arguments) -> Payload:
    """All captures, in the order of ingest, and for each label its values and the places of their captures."""
    rows = columns_of(
        warehouse,
        """
        SELECT
            c.name, left(c.sha256, 12) AS sha256, c.format, c.profiling_level, c.captured_at, c.byte_size, c.uri,
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
    return of_data({"rows": rows.as_data(), "labels": coded})


def _counts(warehouse: Warehouse, _: Arguments) -> Payload:
    """The number of runs and of findings of all captures, in the order of ingest."""
    query = """
        SELECT s.name, s.runs, s.findings
        FROM capture_summary AS s
        JOIN captures AS c ON c.name = s.name
        ORDER BY c.ingested_at, c.capture_id
    """
    return of_data({"rows": columns_of(warehouse, query).as_data()})


def _matches(warehouse: Warehouse, arguments: Arguments) -> Payload:
    """The places of the captures that a selector matches, in the list of all. Raises `QueryError` if none matches."""
    query = f"""
        SELECT p.place
        FROM ({PLACES}) AS p
        WHERE p.capture_id IN (SELECT s.capture_id FROM _several_captures($selector) AS s)
        ORDER BY p.place
    """
    rows = warehouse.rows(query, selector=arguments.get("selector", ""))[1]
    return of_data({"places": [place for (place,) in rows]})


def _series(warehouse: Warehouse, arguments: Arguments) -> Payload:
    """The execute time of each capture, also in its series, in order, and lasting changes, as `trend` has them."""
    options = {name: arguments[name] for name in ("over", "by") if arguments.get(name)}
    rows: Table | None = None
    with suppress(QueryError) if not options else nullcontext():  # nothing to order captures by
        options["over"] = order_of(warehouse, None, options.get("over"))
        call = ", ".join(f'"{name}" := ${name}' for name in options)
        query = f"SELECT series, label, capture, p25, unit, change_percent FROM trend({call}) ORDER BY series, position"
        rows = columns_of(warehouse, query, **options)
    over = None if rows is None else options["over"]
    # Captures without the label that orders series have an execute time, too.
    executes = columns_of(warehouse, EXECUTES).as_data()
    return of_data({"over": over, "rows": None if rows is None else rows.as_data(), "executes": executes})


# The execute time of each capture, from the rollups that `trend` reads.
EXECUTES: Final = """
    SELECT
        e.capture,
        _in_unit(e.ticks, e.time_scale, e.unit) AS execute,
        e.unit
    FROM (
        SELECT
            c.name AS capture,
            c.time_scale,
            CASE c.time_scale WHEN 'cycles' THEN 'cycles' ELSE 'us' END AS unit,
            sum(o.p25) AS ticks
        FROM captures AS c
        JOIN op_times AS o ON o.capture_id = c.capture_id
        WHERE o.op_index = 0 AND o.kind <> 'device_total' AND o.phase IS NULL
        GROUP BY c.capture_id, c.name, c.time_scale
    ) AS e
    ORDER BY e.capture
    """


def _report(warehouse: Warehouse, arguments: Arguments) -> Payload:
    """The report of one capture, or a part of it, and the methods that can be chosen."""
    options: dict[str, Any] = {name: arguments[name] for name in ("method", "runs") if arguments.get(name)}
    part = arguments.get("part") or None
    if part not in (None, *single.PARTS):
        raise EtqError(f"{part}: not a part of a report; they are {', '.join(single.PARTS)}")
    if not arguments.get("capture"):
        raise EtqError("capture: none is chosen; give a name, a hash prefix or a selector")
    capture = warehouse.capture(arguments["capture"])
    report = single.report_of(warehouse, capture, arguments.get("unit") or None, part=part, **options).as_data()
    query = "SELECT DISTINCT r.scope FROM runs AS r WHERE r.capture_id = $c AND r.is_typical IS NOT NULL ORDER BY ALL"
    methods = [scope for (scope,) in warehouse.rows(query, c=capture.capture_id)[1]]
    return of_data({**report, "capture": capture.name, "sha256": capture.sha256[:12], "methods": methods})


def _difference(warehouse: Warehouse, arguments: Arguments) -> Payload:
    """The report of two sides."""
    sides = [arguments.get("base", ""), arguments.get("new", "")]
    for name, side in zip(("base", "new"), sides, strict=True):
        if not side:
            raise EtqError(f"{name}: no captures are chosen; give a name, a hash prefix or a selector")
    options: dict[str, Any] = {name: arguments[name] for name in ("unit", "phase", "history") if arguments.get(name)}
    options |= _numbers(arguments, ("quantile", "alpha", "min_effect"))
    if arguments.get("allow_mismatch") in ("1", "true"):
        options["allow_mismatch"] = True
    return of_data(report_of(warehouse, sides, **options).as_data())


def _trends(warehouse: Warehouse, arguments: Arguments) -> Payload:
    """The report of series."""
    options: dict[str, Any] = {
        name: arguments[name] for name in ("over", "by", "unit", "phase", "since") if arguments.get(name)
    }
    options |= _numbers(arguments, ("alpha", "min_effect"))
    return of_data(trends_report_of(warehouse, arguments.get("selector") or None, **options).as_data())


def _overviews(warehouse: Warehouse, _: Arguments) -> Payload:
    """What all overviews watch."""
    tables = {"items": ITEMS, "comparisons": COMPARISONS, "comments": COMMENTS}
    return of_data({name: columns_of(warehouse, query).as_data() for name, query in tables.items()})


def _changes(warehouse: Warehouse, arguments: Arguments) -> Payload:
    """What changed in the series of an overview, or of all, by its name: each change, and problems of items."""
    names = [arguments["overview"]] if "overview" in arguments else [row[0] for row in warehouse.rows(ITEMS)[1]]
    found = {}
    for name in dict.fromkeys(names):
        changes, problems = changes_of_overview(warehouse, name)
        numbers = [number for overview, number, *_ in warehouse.rows(ITEMS)[1] if overview == name]
        found[name] = {
            "changes": [as_data(each) for each in changes],
            "items": numbers,
            "problems": {str(number): problem for number, problem in problems.items()},
        }
    return of_data(found)


def _compared(warehouse: Warehouse, arguments: Arguments) -> Payload:
    """What is decided about a comparison of an overview, in a line."""
    for overview, number, base, new, *options in warehouse.rows(COMPARISONS)[1]:
        if overview == arguments.get("overview") and str(number) == arguments.get("number"):
            verdict, line = verdict_of(warehouse, base, new, *options)
            return of_data({"verdict": verdict, "line": line})
    raise EtqError("overview: it has no such comparison any more; reload the page")


def _watched(warehouse: Warehouse, arguments: Arguments) -> Payload:
    """The values of the series that an item of an overview watches, and their changes."""
    what = arguments.get("what") or "total"
    given = [arguments.get(name) or None for name in ("item", "selector", "over", "by")]
    watched = Watched.of(warehouse, what, *given)
    tables = {}
    for name, (query, parameters) in (("values", watched.values()), ("changes", watched.changes())):
        tables[name] = columns_of(warehouse, query, **parameters).as_data()
    return of_data({"over": watched.over, "most_series": MOST_SERIES, **tables})


def _edit(warehouse: Warehouse, arguments: Arguments) -> Payload:
    """Add to an overview what it is to watch, or remove what has a number there; write or remove a comment."""
    overview = arguments.get("overview", "")
    for name, remove in (
        ("remove", partial(warehouse.unwatch, overview)),
        ("remove_comparison", partial(warehouse.unwatch_comparison, overview)),
        ("remove_comment", warehouse.remove_comment),
    ):
        if (number := arguments.get(name)) is not None:
            if not (number.isascii() and number.isdecimal() and len(number) < 10):
                raise EtqError(f"overview: {number!r} is not the number of what it has; reload the page")
            remove(int(number))
            return of_data({"number": None})
    if "first_bad" in arguments:
        return _comment(warehouse, arguments)
    if "base" in arguments:
        return of_data({"number": warehouse.watch_comparison(overview, arguments["base"], arguments.get("new", ""))})
    given = {name: arguments.get(name) or None for name in ("item", "over", "by")}
    check_keys(warehouse, given)
    what, selector = arguments.get("what") or "total", arguments.get("selector") or None
    return of_data({"number": warehouse.watch(overview, selector, what=what, **given)})


def _health(path: str, _: Arguments) -> Payload:
    """The number of captures, or who holds the file: a writer is no failure."""
    try:
        with open_warehouse(path, read_only=True, wait=HEALTH_SECONDS) as warehouse:
            return of_data({"captures": warehouse.rows("SELECT count(*) FROM captures")[1][0][0]})
    except HeldError as error:
        return of_data({"held": str(error)})


def _comment(warehouse: Warehouse, arguments: Arguments) -> Payload:
    given = {name: arguments.get(name) or None for name in ("item", "over", "by", "author")}
    check_keys(warehouse, given)
    number = warehouse.comment(
        arguments["first_bad"], arguments.get("text", ""), arguments.get("selector") or None,
        what=arguments.get("what") or "total", accepted=arguments.get("verdict") == ACCEPTED, **given,
    )  # fmt: skip
    return of_data({"number": number})


def _types(warehouse: Warehouse, _: Arguments) -> Payload:
    """The types of the columns of each view."""
    found = {}
    for view in views():
        given = ", ".join("NULL" for parameter in view.parameters if parameter.default is None)
        relation = warehouse.relation(f"FROM {view.name}{'' if view.kind == 'view' else f'({given})'}")
        found[view.name] = [str(each) for each in relation.types]
    return Payload(200, JSON, msgspec.json.encode(found))


def _query(warehouse: Warehouse, arguments: Mapping[str, Any]) -> Payload:
    """The rows of a SELECT about a lake."""
    query, format = arguments["query"], arguments["format"]
    with warehouse.locked() as connection:
        register_for(connection, query)
        parts = selected(connection, query, parameters_of(arguments["parameters"]), format, MOST_OF_ANSWER)
    return Payload(200, TYPES[format], b"".join(parts))


def _numbers(arguments: Arguments, names: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for name in names:
        if text := arguments.get(name):
            try:
                found[name] = float(text)
            except ValueError:
                raise EtqError(f"{name}: {text!r} is not a number") from None
    return found


def _schema(_: str, __: Arguments) -> Payload:
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


def _stored(warehouse: Warehouse, arguments: Arguments) -> Payload:
    """Those of files that the warehouse has, by SHA-256: captures with their events, and, of a file, what is linked."""
    links = "UNION ALL FROM records SELECT sha256 UNION ALL FROM programs SELECT sha256"
    of_file = "" if is_lake_path(warehouse.path or "") else links
    query = f"""
        SELECT DISTINCT h.sha256 FROM (SELECT unnest($hashes::VARCHAR[]) AS sha256) AS h JOIN (
            SELECT c.sha256 FROM captures AS c
            WHERE c.capture_id NOT IN (SELECT f.capture_id FROM findings AS f WHERE f.rule = '{PRUNED}')
            {of_file}
        ) USING (sha256)
    """
    return of_data([sha256 for (sha256,) in warehouse.rows(query, hashes=arguments["hashes"])[1]])


def _sql(path: str, arguments: Arguments) -> Payload:
    from etq.sandbox.client import ask

    format = arguments.get("format", "json")
    check_format(format)
    columns, rows = ask(path, arguments.get("query", ""), None, SQL_SECONDS, SQL_MEGABYTES)
    return result_of(columns, rows, format)


# Limits of queries that users write.
SQL_SECONDS: Final = 30.0
SQL_MEGABYTES: Final = 512
# How long a check of the server's health waits for a writer.
HEALTH_SECONDS: Final = 2.0

QUESTIONS: Final[dict[str, Question]] = {
    "captures": Question(_captures),
    "counts": Question(_counts),
    "matches": Question(_matches),
    "series": Question(_series),
    "report": Question(_report),
    "difference": Question(_difference),
    "trends": Question(_trends),
    "overviews": Question(_overviews),
    "watched": Question(_watched),
    "changes": Question(_changes),
    "compared": Question(_compared),
    "edit": Question(_edit, writes=True),
    "schema": Question(_schema, needs_warehouse=False),
    "stored": Question(_stored),
    "sql": Question(_sql, needs_warehouse=False),
    "health": Question(_health, needs_warehouse=False),
    "query": Question(_query),
    "types": Question(_types),
}
