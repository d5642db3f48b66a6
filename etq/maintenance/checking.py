"""Checking a warehouse: its file, keys and references, what is computed from events, and the files it was made from."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from hashlib import file_digest
from itertools import pairwise
from pathlib import Path, PurePath
from random import randrange
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import duckdb

from etq import catalog
from etq.advice.filling import advise, ranks_of, refill
from etq.catalog import identifier
from etq.database import contents, schema
from etq.database.clocks import TABLE as CLOCKS
from etq.database.connection import connect, expanded
from etq.database.cursors import cursor, database_of
from etq.database.database import Database
from etq.database.locking import is_open_here
from etq.database.rollups import ADVICE, ANSWERS, EFFICIENCY, OF_TRACES, PRUNED, ROLLUPS, fill_rollups
from etq.errors import WarehouseError, counted, displayed, message_of
from etq.ingest.events.rows import OWN_TIMES
from etq.ingest.events.run_times import COLUMNS as RUN_TIMES
from etq.ingest.trace.rows import OF_EVENTS, OF_TICKS
from etq.ingest.trace.stored import computed_again
from etq.selectors import JOB
from etq.storage.linking import groups
from etq.storage.node_sets import costs_of
from etq.storage.nodes import ALONE

if TYPE_CHECKING:
    import pyarrow as pa

# Columns with these names refer, in all other tables, to the key of these tables.
PARENTS: Final = {
    "captures": ("capture_id",),
    "records": ("record_id",),
    "programs": ("program_id",),
    "runs": ("capture_id", "run_index"),
    "signatures": ("capture_id", "signature_index"),
    "threads": ("capture_id", "thread_index"),
    "graphs": ("record_id", "graph_id"),
    "op_nodes": ("record_id", "graph_id", "node_index"),
    "methods": ("program_id", "method"),
}
_EVENT: Final = ("capture_id", "run_index", "event_index")
# References by columns with other names, or to a part of the rows of another table.
REFERENCES: Final = (
    ("trace_events", _EVENT, "event_ticks", _EVENT),
    ("device_events", _EVENT, "event_ticks", _EVENT),
    ("op_arguments", _EVENT, "event_ticks", _EVENT),
    ("event_memory", _EVENT, "event_ticks", _EVENT),
    ("event_counters", _EVENT, "event_ticks", _EVENT),
    ("host_collectives", _EVENT, "event_ticks", _EVENT),
    ("costed_ops", _EVENT, "event_ticks", _EVENT),
    ("costed_ops", ("capture_id", "owner_index"), "costed_ops", ("capture_id", "event_index")),
    ("costed_ops", ("capture_id", "compared_index"), "costed_ops", ("capture_id", "event_index")),
    ("costed_ops", ("capture_id", "cost_index"), "call_costs", ("capture_id", "cost_index")),
    ("event_ticks", ("capture_id", "coalesce(parent_run_index, run_index)", "parent_index"), "event_ticks", _EVENT),
    ("event_ticks", ("capture_id", "run_index", "execute_index"), "event_ticks", _EVENT),
    ("op_edges", ("record_id", "graph_id", "from_node"), "op_nodes", PARENTS["op_nodes"]),
    ("op_edges", ("record_id", "graph_id", "to_node"), "op_nodes", PARENTS["op_nodes"]),
)  # fmt: skip
# The runs whose events are numbered without gaps, if all keys differ, and whether a row `r` refers to such an event.
# Readers leave no gaps, so that events needn't be compared one by one: that takes twice as long, and memory for each.
_NUMBERED: Final = """(
    SELECT e.capture_id, e.run_index, min(e.event_index) AS least, max(e.event_index) AS most FROM event_ticks AS e
    GROUP BY ALL HAVING count(*) = most::BIGINT - least + 1
)"""
_IS_NUMBERED: Final = "p.capture_id = r._0 AND p.run_index = r._1 AND r._2 BETWEEN p.least AND p.most"
# Columns whose values no two rows of a table have in common. `etq db check` compares rollups as a whole.
KEYS: Final = (
    ("labels", ("capture_id", "key")),
    ("metrics", ("capture_id", "run_index", "name", "source", "sample")),
    ("runs", ("capture_id", "run_index")),
    ("signatures", ("capture_id", "signature_index")),
    ("event_ticks", ("capture_id", "run_index", "event_index")),
    ("signature_ops", ("capture_id", "signature_index")),
    ("placed_nodes", ("capture_id", "graph_id", "node_index")),
    ("signature_costs", ("capture_id", "signature_index")),
    ("op_values", ("capture_id", "method", "debug_handle", "output_index")),
    ("threads", ("capture_id", "thread_index")),
    ("trace_events", ("capture_id", "run_index", "event_index")),
    ("trace_steps", ("capture_id", "run_index")),
    ("recordings", ("capture_id",)),
    ("host_waits", ("capture_id", "thread_index", "at_ticks")),
    ("device_gaps", ("capture_id", "event_index", "is_of_stream")),
    ("device_events", ("capture_id", "run_index", "event_index")),
    ("op_arguments", ("capture_id", "run_index", "event_index")),
    ("call_costs", ("capture_id", "cost_index")),
    ("host_collectives", ("capture_id", "run_index", "event_index")),
    ("costed_ops", ("capture_id", "run_index", "event_index")),
    ("event_counters", ("capture_id", "run_index", "event_index", "counter")),
    ("event_memory", ("capture_id", "run_index", "event_index")),
    ("graphs", ("record_id", "graph_id")),
    ("op_nodes", ("record_id", "graph_id", "node_index")),
    ("costed_nodes", ("record_id", "graph_id", "node_index")),
    ("delegated_nodes", ("record_id", "graph_id", "node_index")),
    ("record_members", ("record_id", "member_index")),
    ("methods", ("program_id", "method_index")),
    ("methods", ("program_id", "method")),
    ("instructions", ("program_id", "method", "chain_index", "instruction_id")),
    ("program_values", ("program_id", "method", "value_index")),
    ("change_comments", ("comment_id",)),
    ("named_views", ("name",)),
)  # fmt: skip
# How many captures' own times, or rollups, are computed at once.
_AT_ONCE: Final = 1000
# If there are more captures, times and rollups are computed for this many: for 10,000 they would take a minute. These
# captures are in a few ranges of successive keys, because a query then reads only the blocks of these ranges.
SAMPLE: Final = 500
_RANGES: Final = 10
# The tables of values that are computed from events.
_COMPUTED: Final = tuple(dict.fromkeys([CLOCKS, *ROLLUPS, *OF_TRACES, *ANSWERS, ADVICE, EFFICIENCY]))
# The text of the problem that derived rows differ.
_WITHIN: Final = "the times of {:,} rows differ from what the events within them give"
_OF_TICKS: Final = "{:,} rows differ from event_ticks, or from what is computed from it"
_OF_LAUNCHES: Final = "{:,} rows differ from their events, or from the events that launched them"
_OF_WAITS: Final = "{:,} rows differ from what the events of the trace give"
_PRUNED: Final = f"SELECT f.capture_id FROM findings AS f WHERE f.rule = '{PRUNED}'"


class Part(NamedTuple):
    """A part that was checked, as text, and its problems."""

    what: str
    problems: tuple[str, ...]


def check(
    path: str | os.PathLike[str], *, folder: str | os.PathLike[str] = ".", is_whole: bool = False
) -> Iterator[Part]:
    """Check a warehouse part by part. It is only read; writers wait meanwhile.

    The parts are: the tables, all of which are read; keys; references between tables; own times of events; values
    computed from these; the files in `folder` from which captures, records and programs were read. After a damaged
    table, nothing else is checked. Times and rollups are computed for at most `SAMPLE` captures, different ones each
    time, or for all if the check `is_whole`.

    Raises `WarehouseError` for a file that isn't a warehouse of this schema, or whose tables are not etq's.
    """
    path = expanded(path)
    with closing(Database(connect(path, True), path, read_only=True)) as database:
        connection = database.connection
        unread = None
        try:
            schema.check(connection, path)
            # The line above compares nothing for files that have passed before.
            contents.check(connection, path)
        except duckdb.Error as error:  # of a block that is damaged: rows are read after tables
            unread = error
        contents.refuse_computed(connection, path)
        read = _tables(connection)
        yield read
        if read.problems:
            return
        if unread is not None:
            raise unread
        of_rows, repeated = of_keys(connection)
        yield of_rows
        yield of_references(connection, are_unique=not of_rows.problems)
        captures = _keys_of(connection)
        keys = [key for key in captures if key not in repeated]
        is_sample = not is_whole and len(keys) > SAMPLE
        checked = SAMPLE if is_sample else len(keys)
        # Its temporary tables and views replace tables of the file.
        with closing(cursor(connection)) as replacing:
            if captures and (is_sample or repeated):
                _keep(replacing, _ranges(keys) if is_sample else [(captures[0], captures[-1])], repeated)
            yield of_times(len(captures), _computed(lambda: time_problems(replacing)), checked)
            has_all_ranks = not is_sample and not repeated
            problems = _computed(lambda: rollup_problems(replacing, has_all_ranks=has_all_ranks))
        yield of_rollups(len(captures), number_pruned(connection), problems, checked)
        yield of_files(connection, Path(folder))


def _computed(find: Callable[[], list[str]]) -> list[str]:
    """Return problems, or why they can't be computed, such as for times beyond 64 bits."""
    try:
        return find()
    except (duckdb.Error, WarehouseError) as error:
        return [f"can't be computed: {message_of(error)}"]


def _tables(connection: duckdb.DuckDBPyConnection) -> Part:
    """Read each value of each table, the user's own included: DuckDB compares the checksums as it reads."""
    names = "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT temporary ORDER BY ALL"
    tables = connection.execute(names).fetchall()
    problems, rows = [], 0
    for place, name in tables:
        query = f"SELECT count(*), max(hash(COLUMNS(*))) FROM {identifier(place)}.{identifier(name)}"
        try:
            [(number, *_)] = connection.execute(query).fetchall()
            rows += number
        except duckdb.Error as error:
            problems.append(f"{displayed(name)}: damaged: {message_of(error)}")
    return Part(f"tables ({len(tables)}, with {counted(rows, 'row')})", tuple(problems))


def of_keys(connection: duckdb.DuckDBPyConnection) -> tuple[Part, set[int]]:
    """Find rows with the same key, which joins would count twice, and the captures that have such rows. Nothing is
    computed again for these: each join of such rows multiplies their number.

    If each row's key is greater than that of the row before, all keys differ. Rows are stored in this order unless
    captures were changed. For 100 million events, this comparison takes 2 s, and grouping the keys 50 s.
    """
    problems, captures = list[str](), set[int]()
    for table, columns in KEYS:
        key = ", ".join(columns)
        query = f"SELECT row({key}) > lag(row({key})) OVER () AS follows FROM {table}"
        # The first row follows none.
        [(others,)] = connection.execute(
            f"SELECT count(*) FROM ({query}) WHERE follows IS DISTINCT FROM true"
        ).fetchall()
        query = f"SELECT DISTINCT {columns[0]} FROM (FROM {table} SELECT {key} GROUP BY {key} HAVING count(*) > 1)"
        if others > 1 and (repeated := connection.execute(query).fetchall()):
            problems.append(f"{table}: rows have the same {key}")
            captures.update(capture for (capture,) in repeated if columns[0] == "capture_id")
    return Part(f"keys ({len(KEYS)})", tuple(problems)), captures


def of_references(connection: duckdb.DuckDBPyConnection, *, are_unique: bool) -> Part:
    """Find rows that refer to rows that don't exist.

    are_unique  whether `of_keys` found no problem
    """
    references = [
        *(
            (table.name, columns, parent, columns)
            for table in catalog.tables()
            for parent, columns in PARENTS.items()
            if table.name != parent and {*columns} <= {column.name for column in table.columns}
        ),
        *REFERENCES,
    ]
    problems: list[str] = []
    for table, columns, parent, keys in references:
        given = [f"{column} AS _{number}" for number, column in enumerate(columns)]
        are_equal = " AND ".join(f"p.{key} = r._{number}" for number, key in enumerate(keys))
        are_there = " AND ".join(f"r._{number} IS NOT NULL" for number in range(len(keys)))
        if (table, parent) == ("signature_outputs", "signatures"):  # references have values of nodes, and no signatures
            are_there += " AND r._0 NOT IN (SELECT c.capture_id FROM captures AS c WHERE c.format = 'reference')"
        query = f"FROM (SELECT {', '.join(given)} FROM {table}) AS r ANTI JOIN {{}} AS p ON {{}} WHERE {are_there}"
        if are_unique and keys == _EVENT:
            unnumbered = query.format(_NUMBERED, _IS_NUMBERED)
            if not connection.execute(f"SELECT 1 {unnumbered} LIMIT 1").fetchall():
                continue
        what = f"{table}: {{}} rows whose {columns[-1]} is in no row of {parent}"
        problems += _problem(connection, query.format(parent, are_equal), what, keys)
    return Part(f"references between tables ({len(references)})", tuple(problems))


def of_times(captures: int, problems: Sequence[str], checked: int | None = None) -> Part:
    """The part about `time_problems`, given the numbers of captures and of those `checked`; None: all."""
    return Part(f"times of events and runs ({_number_checked(captures, checked)})", tuple(problems))


def _number_checked(captures: int, checked: int | None) -> str:
    return counted(captures, "capture") if checked in (None, captures) else f"{checked:,} of {captures:,} captures"


def time_problems(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Compute the own times of events again from those of their children, and the times of runs from these; compare
    columns of trace and device events that are copied from other tables.

    Captures whose events were pruned are left out.
    """
    problems = list[str]()
    for table, finder, columns, by, differs in (
        ("event_ticks", "_find_own_times", OWN_TIMES, "capture_id, run_index, event_index", _WITHIN),
        ("runs", "_find_run_times", RUN_TIMES, "capture_id, run_index", _WITHIN),
        ("trace_events", "_find_trace_events", OF_TICKS, "capture_id, run_index, event_index", _OF_TICKS),
        ("device_events", "_find_device_events", OF_EVENTS, "capture_id, run_index, event_index", _OF_LAUNCHES),
    ):
        stored, found = (", ".join(f"{each}.{name}" for name in columns) for each in ("t", "f"))
        for first, last in _parts(_keys_of(connection)):
            rows = connection.execute(
                f"""
                SELECT c.name, count(*) FROM {table} AS t
                LEFT JOIN {finder}({first:d}, {last:d}) AS f USING ({by})
                JOIN captures AS c USING (capture_id)
                WHERE t.capture_id BETWEEN {first:d} AND {last:d} AND t.capture_id NOT IN ({_PRUNED})
                    AND ({stored}) IS DISTINCT FROM ({found})
                GROUP BY ALL ORDER BY ALL
                """
            ).fetchall()
            problems += [f"{table}: {name}: {differs.format(number)}" for name, number in rows]
    return problems + wait_problems(connection)


def wait_problems(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Compute facts of traces, such as passes, waits and gaps, again from their events. Captures whose events were
    pruned are left out.
    """
    problems = list[str]()
    traces = connection.execute(
        f"SELECT c.capture_id, c.name FROM captures AS c WHERE c.format = 'torch_trace'"
        f" AND c.capture_id NOT IN ({_PRUNED}) ORDER BY 1"
    ).fetchall()
    for key, name in traces:
        try:
            for table, found in computed_again(partial(_rows_of, connection, key)):
                if number := _number_differing(connection, table, key, found):
                    problems.append(f"{table}: {name}: {_OF_WAITS.format(number)}")
        except ValueError as error:
            problems.append(f"trace_events: {name}: facts can't be computed: {error}")
    return problems


def _number_differing(connection: duckdb.DuckDBPyConnection, table: str, key: int, found: pa.RecordBatch) -> int:
    """Return how many rows of a capture differ in these columns from computed ones."""
    columns = ", ".join(found.schema.names)
    connection.register("_again", found)
    try:
        [(number,)] = connection.execute(
            f"""
            SELECT coalesce(greatest(sum(d.more) FILTER (d.more > 0), -sum(d.more) FILTER (d.more < 0)), 0)::BIGINT
            FROM (
                SELECT sum(b.more) AS more
                FROM (
                    SELECT {columns}, 1 AS more FROM {table} WHERE capture_id = ?
                    UNION ALL
                    SELECT {columns}, -1 FROM _again
                ) AS b
                GROUP BY {columns}
            ) AS d
            """,
            [key],
        ).fetchall()
    finally:
        connection.unregister("_again")
    return int(number)


def _rows_of(connection: duckdb.DuckDBPyConnection, key: int, query: str) -> Any:
    return connection.sql(query, params={"key": key}).to_arrow_table()


def _keys_of(connection: duckdb.DuckDBPyConnection) -> list[int]:
    return [key for (key,) in connection.execute("SELECT c.capture_id FROM captures AS c ORDER BY 1").fetchall()]


def _parts(keys: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of as many successive keys as are computed at once."""
    for start in range(0, len(keys), _AT_ONCE):
        part = keys[start : start + _AT_ONCE]
        yield part[0], part[-1]


def _ranges(keys: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and last captures of a sample of `SAMPLE` captures: `_RANGES` ranges of successive captures, one
    at random in each part of the keys.

    The sample is then computed as a whole: for each range, planning the queries would take longer than running them.
    """
    ends, size = [part * len(keys) // _RANGES for part in range(_RANGES + 1)], SAMPLE // _RANGES
    starts = [randrange(begin, end - size + 1) for begin, end in pairwise(ends)]
    return [(keys[each], keys[each + size - 1]) for each in starts]


def _keep(connection: duckdb.DuckDBPyConnection, ranges: Sequence[tuple[int, int]], but: Iterable[int]) -> None:
    """Hide from a connection all captures outside of these ranges, and others: replace tables by temporary views."""
    are_kept = " OR ".join(f"capture_id BETWEEN {first:d} AND {last:d}" for first, last in ranges) or "false"
    hidden = " OR ".join(f"capture_id = {key:d}" for key in but) or "false"
    for table in catalog.tables():
        if table.name not in ("runs", *_COMPUTED) and any(column.name == "capture_id" for column in table.columns):
            stored = f"{identifier(database_of(connection))}.main.{table.name}"
            connection.execute(f"CREATE TEMP VIEW {table.name} AS FROM {stored} WHERE ({are_kept}) AND NOT ({hidden})")


def of_rollups(captures: int, pruned: int, problems: Sequence[str], checked: int | None = None) -> Part:
    """The part about `rollup_problems`, given the numbers of captures, of those without events, and of those
    `checked`.
    """
    without = f", {pruned:,} without events" if pruned else ""
    return Part(f"rollups, by the events ({_number_checked(captures, checked)}{without})", tuple(problems))


def number_pruned(connection: duckdb.DuckDBPyConnection) -> int:
    """The number of captures whose events were pruned."""
    [(pruned,)] = connection.execute(f"SELECT count(*) FROM ({_PRUNED})").fetchall()
    return int(pruned)


def rollup_problems(connection: duckdb.DuckDBPyConnection, *, has_all_ranks: bool = True) -> list[str]:
    """Compute rollups and the derived columns of runs again, into temporary tables that replace those of the file.

    References, which have no events, and captures whose events were pruned are left out; and so is advice about the
    ranks of jobs, unless `has_all_ranks` is set.
    """
    main = f"{identifier(database_of(connection))}.main"
    stored = {table: f"FROM {main}.{table} SEMI JOIN captures USING (capture_id)" for table in (*_COMPUTED, "runs")}
    for table in _COMPUTED:
        connection.execute(f"CREATE TEMP TABLE {table} AS {stored[table]} LIMIT 0")
    connection.execute(f"CREATE TEMP TABLE runs AS {stored['runs']}")
    connection.execute("UPDATE runs SET scope = NULL, is_typical = true")
    keys = _keys_of(connection)
    for first, last in _parts(keys):
        fill_rollups(connection, first, last, is_new=True, advise=advise)
    if has_all_ranks and len(keys) > _AT_ONCE:  # ranks of a job may be in several parts
        refill(connection, ranks_of(connection, keys))
    problems = []
    of_jobs = f"SELECT l.capture_id FROM labels AS l WHERE l.key = '{JOB}'"
    for table, rows in stored.items():
        left_out = _PRUNED if has_all_ranks or table != ADVICE else f"{_PRUNED} UNION ALL {of_jobs}"
        # Equal rows are counted: stored minus computed. EXCEPT ALL in both directions takes six times as long.
        differing = connection.execute(
            f"""
            SELECT c.name, sum(abs(d.more))::BIGINT FROM (
                SELECT b.* EXCLUDE (more), sum(b.more) AS more
                FROM (SELECT *, 1 AS more {rows} UNION ALL SELECT *, -1 FROM temp.{table}) AS b
                GROUP BY ALL HAVING sum(b.more) <> 0
            ) AS d
            JOIN captures AS c ON c.capture_id = d.capture_id
            WHERE c.format <> 'reference' AND c.capture_id NOT IN ({left_out})
            GROUP BY ALL ORDER BY ALL
            """
        ).fetchall()
        what = "in its derived columns" if table == "runs" else "of the rollup"
        problems += [
            f"{table}: {name}: {number:,} rows {what} differ from what its events give" for name, number in differing
        ]
    return [*problems, *_placed_problems(connection), *_value_problems(connection), *_cost_problems(connection)]


def _placed_problems(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Compute again which nodes delegates run, by records alone and by captures."""
    columns = "graph_id, node_index, debug_handle, instruction_id, backend, basis"
    # A macro's arguments are put into it as text: none of its aliases may be that of the table with the keys.
    for table, kind, keys in (
        ("delegated_nodes", "record", ALONE.format("_asked.record_id")),
        ("placed_nodes", "capture", "_asked.record_id, _asked.program_id, _asked.capture_id"),
    ):
        key = f"{kind}_id"
        rows = connection.execute(
            f"""
            SELECT k.name, count(*) FROM (
                SELECT d.{key} FROM (
                    SELECT {key}, {columns}, 1 AS more FROM {table}
                    UNION ALL
                    SELECT _asked.{key}, {columns}, -1
                    FROM {kind}s AS _asked, LATERAL (FROM _node_delegates({keys})) AS n
                ) AS d
                GROUP BY d.{key}, {columns} HAVING sum(d.more) <> 0
            ) AS d
            JOIN {kind}s AS k USING ({key})
            GROUP BY ALL ORDER BY ALL
            """
        ).fetchall()
        what = "record" if kind == "record" else "record, program and events"
        for name, number in rows:
            yield f"{table}: {name}: {number:,} rows differ from what its {what} give"


def _value_problems(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Compute again which logged values are those of ops."""
    columns = "debug_handle, output_index, run_index, event_index, value_index, sizes, module_path, mapping, problem"
    rows = connection.execute(
        f"""
        WITH valued AS (SELECT DISTINCT v.capture_id FROM debug_values AS v)
        SELECT c.name, count(*) FROM (
            SELECT b.capture_id FROM (
                SELECT capture_id, {columns}, 1 AS more FROM op_values
                UNION ALL
                SELECT capture_id, {columns}, -1 FROM _find_op_values('valued')
            ) AS b
            GROUP BY b.capture_id, {columns} HAVING sum(b.more) <> 0
        ) AS d
        JOIN captures AS c USING (capture_id)
        GROUP BY ALL ORDER BY ALL
        """
    ).fetchall()
    for name, number in rows:
        yield f"op_values: {name}: {number:,} rows differ from what its logged values give"


def _cost_problems(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Compute again the costs of the nodes that events run."""
    linked = "SELECT c.capture_id, c.name FROM captures AS c WHERE c.record_id IS NOT NULL"
    names = dict(connection.execute(linked).fetchall())
    for keys in groups(connection, [*names]):
        found = costs_of(lambda query: connection.execute(query).fetchall(), keys[0])
        for key in keys:
            if number := _number_differing(connection, "signature_costs", key, found):
                yield f"signature_costs: {names[key]}: {number:,} rows differ from what its nodes give"


def of_files(connection: duckdb.DuckDBPyConnection, folder: Path) -> Part:
    """Compare files that are still at their place in the folder with what was read from them."""
    query = " UNION ALL ".join(
        f"SELECT '{kind}' AS kind, k.name, k.uri, k.size_bytes, k.sha256 FROM {kind}s AS k"
        + (" WHERE k.format <> 'reference'" if kind == "capture" else "")
        for kind in ("capture", "record", "program")
    )
    there, problems = 0, []
    rows = connection.execute(f"{query} ORDER BY ALL").fetchall()
    for kind, name, uri, size, sha256 in rows:
        # Names that lead outside of the folder aren't opened: somebody else may have written them.
        found = None if _is_outside(uri) else _content(folder / uri, size)
        there += found is not None
        if found not in (None, sha256):
            problems.append(f"{kind} {name}: {uri}: the file changed after it was read")
    return Part(f"files of the folder that they were read from ({there:,} of {len(rows):,})", tuple(problems))


def _is_outside(uri: str) -> bool:
    """Whether a stored path leads out of the folder that it is relative to."""
    path = PurePath(uri)
    return path.is_absolute() or ".." in path.parts


def _content(path: Path, size: int) -> str | None:
    """Return the SHA-256 of a file; None if it isn't there, or is an open warehouse; an empty text if its size is
    another.
    """
    if is_open_here(path):
        return None
    try:
        # A file that a warehouse names may be a pipe or a device.
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return None
    with os.fdopen(file, "rb") as opened:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return None
        return file_digest(opened, "sha256").hexdigest() if found.st_size == size else ""


def _problem(connection: duckdb.DuckDBPyConnection, query: str, what: str, columns: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong, with the number of a query's rows and the first of them, if it has any."""
    for number, *values in connection.execute(
        f"SELECT count(*) OVER (), * FROM ({query}) ORDER BY ALL LIMIT 1"
    ).fetchall():
        first = ", ".join(f"{column} {displayed(str(value))}" for column, value in zip(columns, values, strict=True))
        yield f"{what.format(f'{number:,}')}, such as {first}"
