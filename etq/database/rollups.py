"""Rollups: a few numbers per capture, op and module, for questions across captures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import duckdb

from etq.database.clocks import TABLE as CLOCKS
from etq.database.clocks import write_clocks
from etq.errors import WarehouseError

# The rule of the finding about a capture whose events were pruned: its rollups can't be computed again.
PRUNED: Final = "events pruned"
_HAS_EVENTS: Final = f"capture_id NOT IN (SELECT f.capture_id FROM findings AS f WHERE f.rule = '{PRUNED}')"

# Rollups of dumps, computed in this order from a temporary table of the times of events.
ROLLUPS: Final = {
    "op_times": "_find_op_times('_filled_times', ?, ?)",
    "module_times": "_find_module_times(?, ?)",
    "capture_ops": "_find_capture_ops(?, ?)",  # the columns of op_times
}
# Rollups of PyTorch traces: those computed from events, and those computed from these rollups.
OF_TRACES: Final = ("step_times", "op_shapes")
ACROSS_TRACES: Final = {
    "op_times": "_find_trace_op_times",
    "module_times": "_find_trace_module_times",
    "capture_ops": "_find_trace_ops",  # columns of op_times
}
_TRACES: Final = """
    SELECT c.capture_id FROM captures AS c
    WHERE c.capture_id BETWEEN ? AND ? AND c.format = 'torch_trace'
        AND c.capture_id NOT IN (SELECT f.capture_id FROM findings AS f WHERE f.rule = ?)
    ORDER BY c.capture_id
"""

# The tables of answers: the rows of views with default arguments, and the facts that other views read. These tables are
# computed from `_filled_parts`, rows of `_signature_times` of typical runs, the tables of `answered_times`, and the
# first and last key.
ANSWERS: Final = {
    "signature_times": "_find_signature_times('_filled_parts')",
    "all_op_totals": "_find_all_op_totals('_filled_parts')",
    "all_execute_breakdown": "_find_all_execute_breakdown('_filled_parts')",
    "all_framework_tax": "_find_all_framework_tax('_filled_runs')",
    "all_headline": "_find_all_headline('_filled_loads', '_filled_runs')",
    "all_memory_totals": f"_find_all_memory_totals({{first:d}}, {{last:d}}) WHERE {_HAS_EVENTS}",
}
# The table of advice, whose texts are written in Python. In a database in memory, which only etq queries, a row at
# place 0 marks that answers and advice about a capture are postponed until a query reads them: computing them takes
# longer than storing a small file.
ADVICE: Final = "all_advice"
# The table of the steps of traces with their operations. It is written with the advice, which also computes operations.
EFFICIENCY: Final = "all_step_efficiency"
# The names of those tables and of the views on them: a query that reads them contains one.
ANSWERED: Final = frozenset(
    {
        *ANSWERS, ADVICE, EFFICIENCY, "all_module_totals", "all_delegate_coverage", "all_source_totals", "advice",
        "causes", "capture_sizes",
    }
)  # fmt: skip
_UNWRITTEN: Final = (
    "Advice about a file in memory is computed when etq is asked for it: by advice(), rows() or sql() in Python."
)
# Up to this number of events, their times are computed once and held in memory, about 70 bytes each.
_HELD: Final = 2_000_000
_EVENTS: Final = """
    SELECT c.capture_id, count(e.capture_id) FROM captures AS c
    LEFT JOIN event_ticks AS e USING (capture_id)
    WHERE c.capture_id BETWEEN ? AND ? AND c.format <> 'torch_trace'
    GROUP BY ALL ORDER BY ALL
"""

# Derived columns of `runs`, in the order in which they are found.
RUN_FINDERS: Final = {"_find_run_scopes": "scope", "_find_typical_runs": "is_typical"}
# If all runs of a name have the same event block, as in most captures, they ran the same program. Then the search for
# programs is skipped: planning it takes longer than everything else about a few runs.
_SEVERAL_BLOCKS: Final = """
    SELECT 1 FROM runs AS r
    WHERE r.capture_id BETWEEN ? AND ? AND r.method IS NULL
    GROUP BY r.capture_id, r.name
    HAVING min(r.block_index) <> max(r.block_index)
    LIMIT 1
"""
_SCOPES_OF_NAMES: Final = """
    UPDATE runs SET scope = coalesce(method, name)
    WHERE capture_id BETWEEN ? AND ? AND scope IS DISTINCT FROM coalesce(method, name)
"""

# Without a linked record, no module is known; this check takes less time than planning the query for modules' times.
_HAS_MODULES: Final = "SELECT 1 FROM signature_ops WHERE capture_id BETWEEN ? AND ? AND module_path IS NOT NULL LIMIT 1"

# Few captures have allocations; this check takes less time than planning the query for their sums.
_HAS_ALLOCATIONS: Final = """
    SELECT 1 FROM allocators AS a WHERE a.capture_id BETWEEN $first AND $last
    UNION ALL
    SELECT 1 FROM allocations AS a WHERE a.capture_id BETWEEN $first AND $last
    LIMIT 1
"""
_HAS_SHAPES: Final = "SELECT 1 FROM op_arguments WHERE capture_id = ? AND shapes IS NOT NULL LIMIT 1"
_HAS_MODULE_CALLS: Final = """
    SELECT 1 FROM step_times WHERE capture_id = ? AND kind IN ('module', 'device_module') LIMIT 1
"""


# Writes the rows of `ADVICE` of a trace, or of all dumps in a range of keys, within `answered_times`.
Advise = Callable[[duckdb.DuckDBPyConnection, int, int], None]


def fill_rollups(
    connection: duckdb.DuckDBPyConnection,
    capture_id: int,
    last_id: int | None = None,
    *,
    is_new: bool = False,
    advise: Advise | None = None,
) -> None:
    """Write the rollups of a capture, or of all up to `last_id`, replacing existing ones; new captures have none.

    Code that changes a capture's events, its record or the phases of its runs calls this. The caller holds a
    transaction. An ephemeral database has no rollups. In a range, captures whose events were pruned keep their rollups;
    for a single such capture, `WarehouseError` is raised.

    advise  as `etq.advice.filling` has it, whose function of this name calls this one; None: no advice is written
    """
    if not connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'op_times'").fetchall():
        return
    if last_id is None and is_pruned(connection, capture_id):
        raise WarehouseError("the capture's events were pruned; its rollups can't be computed without them")
    keys = [capture_id, last_id or capture_id]
    traces = [key for (key,) in connection.execute(_TRACES, [*keys, PRUNED]).fetchall()]
    has_others = len(traces) < keys[1] - keys[0] + 1
    describe_runs(connection, *keys, has_executes=has_others)
    if not is_new:
        for table in (CLOCKS, *ROLLUPS, *ANSWERS, *OF_TRACES, ADVICE, EFFICIENCY):
            connection.execute(f"DELETE FROM {table} WHERE capture_id BETWEEN ? AND ? AND {_HAS_EVENTS}", keys)
    write_clocks(connection, *keys)
    is_left = is_in_memory(connection)
    if has_others:
        for first, last, events in _parts(connection.execute(_EVENTS, keys).fetchall()):
            with answered_times(connection, first, last, is_held=events <= _HELD, has_names=not is_left):
                _fill_runtime(connection, first, last)
                if not is_left:
                    _fill_answers(connection, first, last, advise)
    for key in traces:
        fill_steps(connection, key)
    if is_left:
        leave_answers(connection, *keys)
    elif advise is not None:  # advice about a rank depends on the steps of other ranks
        for key in traces:
            advise(connection, key, key)


def leave_answers(connection: duckdb.DuckDBPyConnection, first: int, last: int) -> None:
    """Write the row that marks answers and advice as postponed, for each capture in a range of keys that has events."""
    connection.execute(
        f"""
        INSERT INTO {ADVICE} (capture_id, place, rule, severity, finding, evidence, remedy)
        SELECT c.capture_id, 0, 'not computed', 'low', ?, '', '' FROM captures AS c
        WHERE c.capture_id BETWEEN ? AND ? AND {_HAS_EVENTS}
        """,
        [_UNWRITTEN, first, last],
    )


def fill_answers(connection: duckdb.DuckDBPyConnection, first: int, last: int, advise: Advise) -> None:
    """Write the postponed answers and advice about all captures but traces in a range of keys."""
    write_clocks(connection, first, last)
    for begin, end, events in _parts(connection.execute(_EVENTS, [first, last]).fetchall()):
        with answered_times(connection, begin, end, is_held=events <= _HELD):
            _fill_answers(connection, begin, end, advise)


def _fill_runtime(connection: duckdb.DuckDBPyConnection, first: int, last: int) -> None:
    """Write the rollups of all captures but traces in a range of keys, within `answered_times`."""
    for table, rows in ROLLUPS.items():
        if table != "module_times" or connection.execute(_HAS_MODULES, [first, last]).fetchall():
            connection.execute(f"INSERT INTO {table} FROM {rows} WHERE {_HAS_EVENTS}", [first, last])


def _fill_answers(connection: duckdb.DuckDBPyConnection, first: int, last: int, advise: Advise | None) -> None:
    """Write the answers and advice about all captures but traces in a range of keys, within `answered_times`."""
    connection.execute("CREATE TEMP TABLE _filled_parts AS FROM _answered_parts('_filled_events')")
    keys = {"first": first, "last": last}
    for table, rows in ANSWERS.items():
        if table != "all_memory_totals" or connection.execute(_HAS_ALLOCATIONS, keys).fetchall():
            connection.execute(f"INSERT INTO {table} BY NAME FROM {rows.format(**keys)}")
    connection.execute("DROP TABLE _filled_parts")
    if advise is not None:
        advise(connection, first, last)


@contextmanager
def answered_times(
    connection: duckdb.DuckDBPyConnection, first: int, last: int, *, is_held: bool = True, has_names: bool = True
) -> Iterator[None]:
    """Provide temporary tables about all captures but traces in a range of keys until the block ends: the times of
    events, `_filled_times`; and the tables that answers read: `_filled_events` (times with names), `_filled_runs`
    (executes of runs) and `_filled_loads` (parts of loading).

    is_held    whether the times are stored, not computed on each read
    has_names  whether to provide the tables that answers read
    """
    made = {
        "_filled_times": (
            "TABLE" if is_held else "VIEW", f"_answered_times({first:d}, {last:d}) WHERE {_HAS_EVENTS}"
        ),
    }  # fmt: skip
    if has_names:
        made |= {
            "_filled_events": ("VIEW", "_answered_events('_filled_times')"),
            "_answered": ("VIEW", f"_answered_runs({first:d}, {last:d}) WHERE {_HAS_EVENTS}"),
            "_filled_runs": ("TABLE", "_run_taxes('_answered')"),
            "_filled_loads": ("TABLE", "_load_parts('_filled_events')"),
        }
    dropped = "; ".join(f"DROP {kind} IF EXISTS {name}" for name, (kind, _) in reversed(made.items()))
    try:
        for name, (kind, rows) in made.items():
            connection.execute(f"CREATE TEMP {kind} {name} AS FROM {rows}")
        yield
    except BaseException:
        with suppress(duckdb.Error):  # a failed transaction drops them by itself
            connection.execute(dropped)
        raise
    connection.execute(dropped)


def _parts(events: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of successive captures: first key, last key and number of events, at most `_HELD` unless it is a
    single capture. `events` are keys and numbers of events, in order.
    """
    first, last, held = None, 0, 0
    for key, number in events:
        if first is not None and held and held + number > _HELD:
            yield first, last, held
            first, held = None, 0
        first, last, held = key if first is None else first, key, held + number
    if first is not None:
        yield first, last, held


def fill_steps(connection: duckdb.DuckDBPyConnection, key: int, step_name: str | None = None) -> None:
    """Write the rollups of a trace, which has none; its steps are profiler steps, or the calls of an annotation.

    Planning a search takes longer than checking whether it would find anything.
    """
    finders = ["_find_step_times"]
    if connection.execute("SELECT 1 FROM device_events AS d WHERE d.capture_id = ? LIMIT 1", [key]).fetchall():
        finders.append("_find_device_step_times")
    # As a literal, NULL lets the planner drop the branch for annotations.
    name, given = ("NULL", [key]) if step_name is None else ("?", [key, step_name])
    for finder in finders:
        connection.execute(f"INSERT INTO step_times FROM {finder}(?, {name})", given)
    if connection.execute(_HAS_SHAPES, [key]).fetchall():
        connection.execute("INSERT INTO op_shapes FROM _find_op_shapes(?)", [key])
    for table, finder in ACROSS_TRACES.items():
        if table != "module_times" or connection.execute(_HAS_MODULE_CALLS, [key]).fetchall():
            connection.execute(f"INSERT INTO {table} FROM {finder}(?)", [key])


def describe_runs(
    connection: duckdb.DuckDBPyConnection, capture_id: int, last_id: int, *, has_executes: bool = True
) -> None:
    """Write the derived columns of the runs of a capture, or of all up to `last_id`; traces have no executes."""
    keys = [capture_id, last_id]
    for finder, column in RUN_FINDERS.items():
        if column == "is_typical" and not has_executes:
            continue
        if column == "scope" and not connection.execute(_SEVERAL_BLOCKS, keys).fetchall():
            connection.execute(_SCOPES_OF_NAMES, keys)
            continue
        connection.execute(
            f"""
            UPDATE runs SET {column} = f.{column} FROM {finder}(?, ?) AS f
            WHERE runs.capture_id = f.capture_id AND runs.run_index = f.run_index
                AND runs.{column} IS DISTINCT FROM f.{column}
            """,
            keys,
        )


def is_in_memory(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the database of a connection has no file."""
    query = "SELECT d.path IS NULL FROM duckdb_databases() AS d WHERE d.database_name = current_database()"
    [(is_without,)] = connection.execute(query).fetchall()
    return bool(is_without)


def is_pruned(connection: duckdb.DuckDBPyConnection, capture_id: int) -> bool:
    """Whether a capture's events were pruned."""
    query = f"SELECT 1 FROM findings AS f WHERE f.capture_id = ? AND f.rule = '{PRUNED}'"
    return bool(connection.execute(query, [capture_id]).fetchall())
