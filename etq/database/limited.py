"""Untrusted queries in this process: a single SELECT, read-only, within a time limit.

The connection has no access to files except the warehouse's own, and a query may only read tables. The configuration is
locked, as for every warehouse that etq opens. DuckDB ends a query at its memory limit, and when it is interrupted,
except within a few functions, such as `repeat` with a large number, which run on for tens of seconds. The caller still
gets an error at the time limit, but the query keeps its thread until it ends. While `MOST_LEFT` such queries run,
others are refused.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Final, TypeVar

import duckdb

from etq.catalog import corrected
from etq.database import cursors
from etq.database.limits import SAFE_SECONDS
from etq.database.nearest import explained
from etq.errors import EXPLAINED, ArgumentError, QueryError, message_of, place_in

# Planning can't be interrupted. Its time grows with the text: 5,000 SELECTs in 95 kB take 2 s.
MOST_TEXT: Final = 100_000
MOST_LEFT: Final = 4
# Queries that run at one time; others wait, because each could be a query that can't be interrupted.
_turns: Final = threading.BoundedSemaphore(2 * MOST_LEFT)
# Queries of one asker at one time; others are refused.
MOST_OF_ONE: Final = 2
# How long an interrupted query may take to end: before its asker gets the error, and before `when_stuck` is called.
_GRACE: Final = 1.0
_LONGEST: Final = 10.0

# Revokes the access to DuckDB's log: if DuckDB can't write the log's file, it aborts the process.
_WITHOUT_LOG: Final = """
    SET VARIABLE etq_settings = (
        SELECT list(s.name) FROM system.main.duckdb_settings() AS s
        WHERE NOT contains(s.name, 'log') AND s.name NOT IN ('allowed_configs', 'lock_configuration')
    );
    SET allowed_configs = getvariable('etq_settings');
    SET lock_configuration = true
"""

# DuckDB's table functions that read only tables, names of objects, or nothing. Others read files (including the
# warehouse's own, with removed rows), run SQL from texts, or reveal removed rows and other queries. The same is true of
# DuckDB's views that call them, and of its table macros.
_HARMLESS: Final = frozenset(
    {
        "duckdb_columns", "duckdb_constraints", "duckdb_coordinate_systems", "duckdb_databases", "duckdb_functions",
        "duckdb_indexes", "duckdb_keywords", "duckdb_schemas", "duckdb_sequences", "duckdb_tables", "duckdb_types",
        "duckdb_views", "generate_series", "icu_calendar_names", "json_each", "json_tree", "pg_timezone_names",
        "pragma_collations", "pragma_platform", "pragma_show", "pragma_table_info", "pragma_version", "range", "repeat",
        "repeat_row", "summary", "test_all_types", "test_vector_types", "unnest",
    }
)  # fmt: skip
# DuckDB's scalar functions that read files or reveal data; its catalog doesn't distinguish them from harmless
# functions.
_TELLING: Final = frozenset(("current_setting", "json_serialize_plan", "stats", "write_log"))
# The functions, the table functions and the tables of a query, in the text of `json_serialize_sql`; functions in the
# text of a view; and the functions that a plan calls, those of macros and views included.
_CALLED: Final = re.compile(r'"function_name":"(\w+)"')
_CALLED_AS_TABLE: Final = re.compile(r'"type":"TABLE_FUNCTION".*?"function_name":"(\w+)"', re.DOTALL)
_TABLE: Final = re.compile(r'"table_name":("(?:[^"\\]|\\.)*")')
_CALLED_BY_VIEW: Final = re.compile(r"(\w+)\(")
_PLANNED: Final = re.compile(r'"Function": "(\w+)"')

Answer = TypeVar("Answer")
# DuckDB's table functions, table macros and views that aren't harmless.
_others: Final[set[str]] = set()
_left: Final[set[threading.Thread]] = set()
_askers: Final[Counter[str]] = Counter()
_lock: Final = threading.Lock()
# Called if a query does not end: a server ends its process, because nothing else ends the query.
when_stuck: Callable[[], object] = lambda: None  # noqa: E731


class BusyError(QueryError):
    """Too many queries are running; a later attempt may succeed."""


def left() -> int:
    """Return how many queries are running past their time limit."""
    with _lock:
        return sum(thread.is_alive() for thread in _left)


def has_left() -> bool:
    """Whether a query is running past its time limit: then its connection can't be closed."""
    return left() > 0


def when_ended(act: Callable[[], object]) -> None:
    """Call a function that closes a connection. If queries are running past their time limit, it is called after they
    have ended.
    """
    with _lock:
        left = [thread for thread in _left if thread.is_alive()]
    if not left:
        act()
        return

    def wait() -> None:
        for thread in left:
            thread.join()
        act()

    threading.Thread(target=wait, name="closing", daemon=True).start()


def check_select(query: str) -> None:
    """Raise `QueryError` for a query that isn't one SELECT, or is too long."""
    if len(query) > MOST_TEXT:
        raise QueryError(f"the query has {len(query):,} characters; shorten it to {MOST_TEXT:,}")
    try:
        kinds = [_kind(statement) for statement in duckdb.extract_statements(query)]
    except duckdb.Error as error:
        raise QueryError(corrected(message_of(error), query), place_in(query, error)) from error
    if kinds != ["SELECT"]:
        raise QueryError(f"a limited query is one SELECT, not {', '.join(kinds) or 'nothing'}")


def _check_reads(cursor: duckdb.DuckDBPyConnection, query: str, parameters: object) -> None:
    """Raise `QueryError` for a query that reads anything but tables. If somebody else may have made the file, its
    macros and views are checked as well.
    """
    [(tree,)] = cursor.execute("SELECT system.main.json_serialize_sql(?::VARCHAR)", [query]).fetchall()
    if tree.startswith('{"error":true'):
        raise QueryError("the query can't be checked; write it as one SELECT")
    if not _others:
        _others.update(_found_others(cursor))  # in one step: another thread must not see a part of them
    tables = set(map(json.loads, _TABLE.findall(tree)))
    read = _others.intersection(map(str.lower, (*_CALLED_AS_TABLE.findall(tree), *tables)))
    read |= _TELLING.intersection(map(str.lower, _CALLED.findall(tree)))
    # DuckDB may take these for files.
    files = {name for name in tables if "." in name}
    if not read and files:
        # The names of tables, without the CTEs that are in scope. Plans don't help: they don't name a file if its
        # statistics are the answer.
        with suppress(duckdb.Error):  # of a query with parameters
            files.intersection_update(cursor.get_table_names(query))
        read = files
    if not read and _is_received(cursor):
        [(_, plan)] = cursor.execute(f"{EXPLAINED}{query}", parameters).fetchall()
        read = _others.intersection(map(str.lower, _PLANNED.findall(plan)))
    if read:
        raise QueryError(f"{min(read)}: a limited query reads tables and views, no files and no other queries")


def _found_others(cursor: duckdb.DuckDBPyConnection) -> set[str]:
    found = cursor.execute(
        """
        SELECT f.function_name FROM system.main.duckdb_functions() AS f
        WHERE f.function_type = 'table' OR (f.function_type = 'table_macro' AND f.internal)
        """
    ).fetchall()
    functions = {name for (name,) in found} - _HARMLESS
    views = cursor.execute("SELECT v.view_name, v.sql FROM system.main.duckdb_views() AS v WHERE v.internal").fetchall()
    return functions | {name for name, text in views if functions.intersection(_CALLED_BY_VIEW.findall(text))}


def _is_received(cursor: duckdb.DuckDBPyConnection) -> bool:
    """Whether a database is a file with macros and views that somebody else may have made."""
    query = "FROM system.main.duckdb_databases() AS d WHERE d.database_name = ? AND d.path IS NOT NULL"
    return not cursors.is_own(cursor) and bool(cursor.execute(query, [cursors.database_of(cursor)]).fetchall())


def ask(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    answer: Callable[[duckdb.DuckDBPyConnection], Answer],
    seconds: float = SAFE_SECONDS,
    parameters: object = None,
    asker: str | None = None,
) -> Answer:
    """Return the result of `answer`, which runs the query on the cursor that it gets, in a read-only transaction.

    Raises `QueryError` for a query that isn't one SELECT, is wrong, or takes longer than `seconds`, and what `answer`
    raises; `ArgumentError` for `seconds` that aren't a number above 0; `BusyError` while `MOST_OF_ONE` queries of an
    `asker` run, or too many of all.
    """
    if not (isinstance(seconds, int | float) and 0 < seconds <= threading.TIMEOUT_MAX):
        raise ArgumentError(f"seconds is a number above 0, not {seconds!r}")
    check_select(query)
    cursor = cursors.cursor(connection)
    with suppress(duckdb.InvalidInputException):  # locked already
        cursor.execute(_WITHOUT_LOG)
    _enter(asker)
    outcome: list[Answer] = []
    failure: list[BaseException] = []

    def run() -> None:
        has_turn = _turns.acquire(timeout=seconds / 2)
        try:
            if not has_turn:
                raise BusyError(f"{2 * MOST_LEFT} queries run already; try again later")
            _check_reads(cursor, query, parameters)
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            outcome.append(answer(cursor))
        except BaseException as error:
            failure.append(error)
        finally:
            with suppress(duckdb.Error):  # if the error has ended the transaction
                cursor.rollback()
            cursor.close()
            if has_turn:
                _turns.release()
            _leave(asker)

    thread = threading.Thread(target=run, name="limited query", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        with suppress(duckdb.Error):  # if the query has just ended
            cursor.interrupt()
        thread.join(_GRACE)
        if thread.is_alive():
            with _lock:
                _left.add(thread)
            watch = threading.Timer(_LONGEST, lambda: thread.is_alive() and when_stuck())
            watch.daemon = True
            watch.start()
        if not outcome:
            raise QueryError(f"the query took longer than {seconds:g} s")
    if failure:
        if isinstance(failure[0], duckdb.Error):
            message = message_of(failure[0])
            with suppress(duckdb.Error), closing(cursors.cursor(connection)) as names:  # an error may end the database
                message = explained(names, message, query)
            raise QueryError(message, place_in(query, failure[0])) from failure[0]
        raise failure[0]
    return outcome[0]


def _enter(asker: str | None) -> None:
    """Count a query that an asker begins. Raises `BusyError` if there are too many."""
    with _lock:
        _left.difference_update([thread for thread in _left if not thread.is_alive()])
        if len(_left) >= MOST_LEFT:
            raise BusyError(f"{MOST_LEFT} queries still run past their time limit; try again later")
        if asker is not None and _askers[asker] >= MOST_OF_ONE:
            raise BusyError(f"{asker}: has {MOST_OF_ONE} queries running; ask again when one has ended")
        if asker is not None:
            _askers[asker] += 1


def _leave(asker: str | None) -> None:
    with _lock:
        if asker is not None:
            _askers[asker] -= 1


def _kind(statement: duckdb.Statement) -> str:
    try:
        return str(statement.type.name)
    except ValueError:  # of a kind that DuckDB's Python package has no name for
        return "another statement"
