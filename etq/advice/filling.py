"""Advice as rows of the table `all_advice`. In a file, it is written together with the rollups of captures; in memory,
when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import duckdb

from etq.advice.collecting import COLUMNS, TRACE, Row
from etq.advice.dump_rows import rows_of_dumps
from etq.advice.shared import Jobs
from etq.database import rollups
from etq.database.schema import in_transaction
from etq.errors import WarehouseError
from etq.selectors import JOB

if TYPE_CHECKING:
    from etq.advice.trace_evidence import Evidence

_NUMBERS: Final = {"capture_id": "INTEGER", "place": "INTEGER", "time_at_stake": "DOUBLE", "share_percent": "DOUBLE"}
_KEYS: Final = ("capture_id", "place")
_OF_JOBS: Final = f"""
    SELECT DISTINCT o.capture_id FROM labels AS o
    JOIN captures AS c ON c.capture_id = o.capture_id AND c.format = '{TRACE}'
    WHERE o.key = '{JOB}'
        AND o.value IN (SELECT l.value FROM labels AS l WHERE l.key = '{JOB}' AND list_contains($keys, l.capture_id))
    ORDER BY ALL
"""
# The keys of traces whose advice is written at the end of `ranks_together`.
_waiting: Final[WeakKeyDictionary[duckdb.DuckDBPyConnection, set[int]]] = WeakKeyDictionary()


def fill_rollups(
    connection: duckdb.DuckDBPyConnection, capture_id: int, last_id: int | None = None, *, is_new: bool = False
) -> None:
    """Write the rollups of captures by `etq.database.rollups`, and the advice about the captures and about the other
    ranks of their jobs.
    """
    filled = range(capture_id, (last_id or capture_id) + 1)
    ranks = ranks_of(connection, filled)
    later = {*ranks} if connection in _waiting else set()

    def advise_others(connection: duckdb.DuckDBPyConnection, first: int, last: int) -> None:
        if first not in later:
            advise(connection, first, last)

    rollups.fill_rollups(connection, capture_id, last_id, is_new=is_new, advise=advise_others)
    refill(connection, sorted(later) or [key for key in ranks if key not in filled])


@contextmanager
def ranks_together(
    connection: duckdb.DuckDBPyConnection, write: Callable[[Callable[[], None]], None]
) -> Iterator[None]:
    """Run a block that adds or changes captures; then write the advice about the ranks of their jobs, once.

    write  runs a function in a transaction of its own
    """
    _waiting.setdefault(connection, set())
    try:
        yield
    except WarehouseError:  # this error is reported, not the error of writing
        with suppress(WarehouseError, duckdb.Error):
            _write_waiting(connection, write)
        raise
    finally:
        _write_waiting(connection, write)


def _write_waiting(connection: duckdb.DuckDBPyConnection, write: Callable[[Callable[[], None]], None]) -> None:
    if waiting := _waiting.pop(connection, None):
        # If a transaction failed, some keys may belong to no capture.
        query = f"SELECT c.capture_id FROM captures AS c WHERE c.format = '{TRACE}' ORDER BY ALL"
        traces = [key for (key,) in connection.execute(query).fetchall() if key in waiting]
        write(lambda: refill(connection, traces))


def ranks_of(connection: duckdb.DuckDBPyConnection, keys: Iterable[int]) -> list[int]:
    """Return the keys of the traces among these captures, and of all traces of their jobs."""
    return [key for (key,) in connection.execute(_OF_JOBS, {"keys": list(keys)}).fetchall()]


def refill(connection: duckdb.DuckDBPyConnection, keys: Iterable[int]) -> None:
    """Write the advice about traces again, unless their events were pruned. Within a block of `ranks_together`, this
    happens when the block ends.
    """
    if (waiting := _waiting.get(connection)) is not None:
        waiting.update(keys)
        return
    jobs = Jobs()
    for key in keys:
        if not rollups.is_pruned(connection, key):
            for table in (rollups.ADVICE, rollups.EFFICIENCY):
                connection.execute(f"DELETE FROM {table} WHERE capture_id = ?", [key])
            advise(connection, key, key, jobs)


def refill_rated(connection: duckdb.DuckDBPyConnection, keys: Iterable[int]) -> None:
    """Write the advice about the traces among these captures again, because it depends on the peaks among their
    metrics.
    """
    query = "SELECT c.capture_id FROM captures AS c WHERE list_contains($keys, c.capture_id) AND c.format = $format"
    refill(connection, [key for (key,) in connection.execute(query, {"keys": [*keys], "format": TRACE}).fetchall()])


def advise(connection: duckdb.DuckDBPyConnection, first: int, last: int, jobs: Jobs | None = None) -> None:
    """Write the advice about a trace, or about all dumps from one key up to another. If the database is in memory,
    leave that to `write_once`.

    `jobs` keeps evidence and findings that the ranks of a job share, for the following ranks. Advice is computed under
    the memory limit of queries, because the limit that applies while a file is stored is lower.
    """
    if rollups.is_in_memory(connection):
        rollups.leave_answers(connection, first, last)
        return
    [(most,)] = connection.execute("SELECT getvariable('most_memory')").fetchall()
    if most is not None:
        connection.execute(f"SET memory_limit = '{most}MB'")
    query = "SELECT 1 FROM captures AS c WHERE c.capture_id = ? AND c.format = ?"
    if connection.execute(query, [first, TRACE]).fetchall():
        _write_trace(connection, first, jobs)
    else:
        write(connection, rows_of_dumps(connection, first, last))


def _write_trace(connection: duckdb.DuckDBPyConnection, key: int, jobs: Jobs | None) -> None:
    """Write the advice about a trace, and its steps with their operations."""
    # Imported here, as captures that are dumps need no rules about traces.
    from etq.advice.trace_rows import rows_of_trace

    also = partial(_write_steps, connection, key)
    write(connection, {key: rows_of_trace(connection, key, jobs=jobs, also=also)})


def _write_steps(connection: duckdb.DuckDBPyConnection, key: int, evidence: Evidence) -> None:
    """Write the steps of a trace with their operations, if operations and peaks are known and nothing is
    written yet.
    """
    stored = f"SELECT 1 FROM {rollups.EFFICIENCY} AS e WHERE e.capture_id = ? LIMIT 1"
    if evidence.rated is not None and not connection.execute(stored, [key]).fetchall():
        connection.execute(
            f"""
            INSERT INTO {rollups.EFFICIENCY} BY NAME
            SELECT {key:d} AS capture_id, row_number() OVER (ORDER BY e.run_index) AS place, e.*
            FROM _step_efficiency({key:d}, '{evidence.rated}', 'us') AS e
            """
        )


def write_steps(connection: duckdb.DuckDBPyConnection, keys: Iterable[int]) -> None:
    """Write the postponed steps of these traces with their operations, without the advice."""
    from etq.advice.trace_evidence import Evidence

    query = f"""
        SELECT c.capture_id FROM captures AS c
        WHERE list_contains($keys, c.capture_id) AND c.format = '{TRACE}'
            AND c.capture_id NOT IN (SELECT e.capture_id FROM {rollups.EFFICIENCY} AS e)
        ORDER BY ALL
    """
    for (key,) in connection.execute(query, {"keys": [*keys]}).fetchall():
        evidence = Evidence(connection, key)
        try:
            _write_steps(connection, key, evidence)
        finally:
            evidence.drop()


def as_query(rows: Sequence[Row], names: Sequence[str] = COLUMNS) -> tuple[str, dict[str, list[Any]]]:
    """Return rows as a query, with its parameters."""
    columns = [f"unnest(${name}::{_NUMBERS.get(name, 'VARCHAR')}[]) AS {name}" for name in names]
    values = [*map(list, zip(*rows, strict=True))] if rows else [[] for _ in names]
    return f"SELECT {', '.join(columns)}", dict(zip(names, values, strict=True))


def write(connection: duckdb.DuckDBPyConnection, advice: Mapping[int, Sequence[Row]]) -> None:
    """Write the rows about captures."""
    rows = [(key, place, *row) for key, of_capture in advice.items() for place, row in enumerate(of_capture, 1)]
    if rows:
        query, parameters = as_query(rows, (*_KEYS, *COLUMNS))
        connection.execute(f"INSERT INTO {rollups.ADVICE} BY NAME {query}", parameters)


def write_once(connection: duckdb.DuckDBPyConnection) -> None:
    """Write the postponed answers and advice, in the caller's transaction if there is one."""
    query = f"""
        SELECT c.capture_id, c.format = '{TRACE}', a.capture_id IS NOT NULL
        FROM captures AS c LEFT JOIN {rollups.ADVICE} AS a ON a.capture_id = c.capture_id AND a.place = 0
        ORDER BY ALL
    """
    if not connection.execute(f"SELECT 1 FROM {rollups.ADVICE} WHERE place = 0 LIMIT 1").fetchall():
        return

    def write_dumps(connection: duckdb.DuckDBPyConnection, first: int, last: int) -> None:
        write(connection, rows_of_dumps(connection, first, last))

    def write_all() -> None:
        jobs = Jobs()
        captures = connection.execute(query).fetchall()
        connection.execute(f"DELETE FROM {rollups.ADVICE} WHERE place = 0")
        # Consecutive dumps are written together.
        for (is_trace, is_left), group in groupby(captures, lambda capture: capture[1:]):
            keys = [key for key, *_ in group] if is_left else []
            if keys and not is_trace:
                rollups.fill_answers(connection, keys[0], keys[-1], write_dumps)
            for key in keys if is_trace else ():
                _write_trace(connection, key, jobs)

    # Each query has a transaction of its own, unless one is open.
    first, second = (connection.execute("SELECT txid_current()").fetchall() for _ in range(2))
    if first == second:
        write_all()
    else:
        in_transaction(connection, write_all)
