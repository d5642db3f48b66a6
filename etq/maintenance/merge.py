"""Merging several warehouses into one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import duckdb

from etq import catalog
from etq.advice.filling import fill_rollups, ranks_of, refill, refill_rated
from etq.annotations.labels import RANKS
from etq.catalog import quoted
from etq.database import schema
from etq.database.connection import absolute, check_name, check_path, connect, expanded, open_unchanged
from etq.database.contents import note_passed
from etq.database.locking import retry_while_locked
from etq.database.neighbours import check_free
from etq.database.publishing import NO_FOLDER, private_folder, publish_new
from etq.database.rollups import PRUNED
from etq.errors import ArgumentTypeError, WarehouseError, message_of
from etq.maintenance.copying import check_warehouse
from etq.maintenance.retention import EVENT_TABLES
from etq.storage.linking import link
from etq.storage.metrics import PEAKS
from etq.storage.naming import names_for

# The kinds of content that have keys in a warehouse; content comes after the kinds that it refers to.
KINDS: Final = ("program", "record", "capture")


class Merged(NamedTuple):
    """The result of a merge: the number of captures, and how many of them an earlier warehouse already had.

    `conflicts` has a line for each difference between warehouses about one capture; the first warehouse's value was
    kept.
    """

    captures: int
    known: int
    conflicts: tuple[str, ...]


def merge(paths: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str]) -> Merged:
    """Create a warehouse from all captures, records and programs of several others, which are only read.

    The same content is stored once, with the labels, metrics, phases, record and program of any warehouse; where they
    differ, the first warehouse's are kept, and the result lists the difference. Events are stored if at least one
    warehouse has not pruned them. Keys are assigned again, in the order of the warehouses; a name that other content
    has is extended by the file's folders or its hash. Tables that are not etq's are left out.

    Raises `WarehouseError` for a file that isn't a warehouse of this schema, and for an output that exists already or
    can't be written; no incomplete output is left.
    """
    if isinstance(paths, str | os.PathLike):
        raise ArgumentTypeError(f"paths is a list of warehouses, not {paths!r}")
    sources = [expanded(path) for path in paths]
    target = Path(expanded(output))
    for path in sources:
        check_warehouse(path)
    check_name(str(target))
    check_path(str(target))
    if os.path.lexists(target):
        raise WarehouseError(f"{target}: exists; a merge makes a new warehouse")
    check_free(str(target))
    if not target.parent.is_dir():
        raise WarehouseError(f"{target}: {NO_FOLDER}")
    try:
        with private_folder(target) as folder:
            # DuckDB names a database by its file's name up to the first dot; this must not be the name of a source.
            fresh = Path(folder) / "merged.duckdb"
            schema.create_file(str(fresh))
            with connect(str(fresh), False, is_shared=False, is_own=True, reads=sources) as connection:
                merged = _merged(connection, sources)
            publish_new(fresh, target)
            note_passed(str(target), is_own=True)
        return merged
    except FileExistsError as error:
        raise WarehouseError(f"{target}: made by another process meanwhile; it was not changed") from error
    except duckdb.Error as error:
        raise WarehouseError(f"{target}: {message_of(error)}") from error
    except OSError as error:
        raise WarehouseError(f"{target}: can't be written: {(error.strerror or str(error)).lower()}") from error


def _merged(connection: duckdb.DuckDBPyConnection, sources: Sequence[str]) -> Merged:
    """Fill an empty file from the warehouses."""
    known, conflicts = 0, []
    schema.note_creation(connection)
    for path in sources:
        retry_while_locked(path, partial(open_unchanged, path, partial(_attach, connection, path), _detach))
        try:
            # This connection can access other files, and the file may have been replaced since it was checked.
            schema.check(connection, path, "_source")
            result = schema.in_transaction(connection, lambda: _add(connection))
        finally:
            _detach(connection)
        known += result.known
        conflicts += [f"{path}: {conflict}" for conflict in result.conflicts]
    [(captures,)] = connection.execute("SELECT count(*) FROM captures").fetchall()
    # Closing a connection writes its log into the file without reporting errors.
    connection.execute("CHECKPOINT")
    return Merged(captures, known, tuple(conflicts))


def _attach(connection: duckdb.DuckDBPyConnection, path: str) -> duckdb.DuckDBPyConnection:
    return connection.execute(f"ATTACH {quoted(absolute(path))} AS _source (READ_ONLY)")


def _detach(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("DETACH _source")


def _add(connection: duckdb.DuckDBPyConnection) -> Merged:
    """Add the attached warehouse `_source` to the connected one. The caller holds a transaction."""
    for kind in KINDS:
        _give_keys(connection, kind)
    for table in catalog.tables():
        _copy(connection, table)
    conflicts = [f"{name}: {what}" for name, what in connection.execute(_CONFLICTS_IN_ORDER).fetchall()]
    _unite(connection)
    [(known,)] = connection.execute("SELECT count(*) FROM _capture_keys WHERE NOT is_new").fetchall()
    for kind in KINDS:
        connection.execute(f"DROP TABLE _{kind}_keys")
    return Merged(0, known, tuple(conflicts))


def _give_keys(connection: duckdb.DuckDBPyConnection, kind: str) -> None:
    """Create a table that maps the source's keys of a kind to keys here; known content keeps its key here."""
    connection.execute(
        f"""
        CREATE TEMP TABLE _{kind}_keys AS
        SELECT
            s.{kind}_id AS old_key,
            coalesce(
                k.{kind}_id,
                (SELECT coalesce(max(l.{kind}_id), 0) FROM {kind}s AS l)
                + row_number() OVER (PARTITION BY k.{kind}_id IS NULL ORDER BY s.{kind}_id)
            )::INTEGER AS new_key,
            k.{kind}_id IS NULL AS is_new,
            s.name AS name
        FROM _source.{kind}s AS s
        LEFT JOIN {kind}s AS k ON k.sha256 = s.sha256
        """
    )
    rows = connection.execute(
        f"""
        SELECT m.old_key, s.name, s.uri, s.sha256
        FROM _{kind}_keys AS m
        JOIN _source.{kind}s AS s ON s.{kind}_id = m.old_key
        WHERE m.is_new AND s.name IN (SELECT k.name FROM {kind}s AS k)
        ORDER BY m.new_key
        """
    ).fetchall()
    if not rows:
        return
    names = connection.execute(f"SELECT k.name FROM {kind}s AS k UNION SELECT s.name FROM _source.{kind}s AS s")
    taken = {name for (name,) in names.fetchall()}
    for key, name, uri, sha256 in rows:
        free = next(each for each in longer_names(name, uri, sha256) if each not in taken)
        taken.add(free)
        connection.execute(f"UPDATE _{kind}_keys SET name = ? WHERE old_key = ?", [free, key])


def longer_names(name: str, uri: str, sha256: str) -> Iterator[str]:
    """Yield longer names for content whose name is taken: first with the file's folders before it,
    then with its hash.
    """
    yield from (each for each in names_for(uri, lambda: sha256) if each.endswith(f"/{name}"))
    yield f"{name}-{sha256[:12]}"
    yield f"{name}-{sha256}"


def _copy(connection: duckdb.DuckDBPyConnection, table: catalog.SqlObject) -> None:
    """Copy the rows of new content, with its keys here;
    also copy events that were pruned here but not in the source.
    """
    kind = next((kind for kind in KINDS if table.columns[0].name == f"{kind}_id"), None)
    if kind is None:
        return
    replaced = [f"m.new_key AS {kind}_id"]
    joined = ""
    if table.name == f"{kind}s":
        replaced.append("m.name AS name")
    if table.name == "captures":
        for other in ("program", "record"):
            replaced.append(f"{other}.new_key AS {other}_id")
            joined += f" LEFT JOIN _{other}_keys AS {other} ON {other}.old_key = t.{other}_id"
    chosen = f"m.is_new OR m.new_key IN ({_REFILLED})" if table.name in EVENT_TABLES else "m.is_new"
    connection.execute(
        f"""
        INSERT INTO {table.name} BY NAME
        SELECT t.* REPLACE ({", ".join(replaced)})
        FROM _source.{table.name} AS t
        JOIN _{kind}_keys AS m ON m.old_key = t.{kind}_id
        {joined}
        WHERE {chosen}
        ORDER BY m.new_key, t.rowid
        """
    )


def _unite(connection: duckdb.DuckDBPyConnection) -> None:
    """Add annotations that known captures have in the source but not here, comments and named views."""
    connection.execute(f"DELETE FROM findings WHERE rule = '{PRUNED}' AND capture_id IN ({_REFILLED})")
    ranked = connection.execute(_RANKED).fetchall()
    for statement in _UNITED:
        connection.execute(statement)
    changed = connection.execute(_PHASED).fetchall()
    for column, capture_id, key in connection.execute(_LINKED).fetchall():
        link(connection, capture_id, column, key)
    for (capture_id,) in sorted({*changed}):
        fill_rollups(connection, capture_id)
    refill_rated(connection, [key for (key,) in connection.execute(_RATED).fetchall()])
    # The ranks of a job may come from both warehouses.
    new = connection.execute("SELECT m.new_key FROM _capture_keys AS m WHERE m.is_new").fetchall()
    refill(connection, ranks_of(connection, [key for (key,) in [*new, *ranked]]))


# Keys of captures whose events were pruned here but not in the source.
_REFILLED: Final = f"""
    SELECT m.new_key FROM _capture_keys AS m
    JOIN findings AS f ON f.capture_id = m.new_key AND f.rule = '{PRUNED}'
    WHERE NOT m.is_new AND m.old_key NOT IN (
        SELECT s.capture_id FROM _source.findings AS s WHERE s.rule = '{PRUNED}'
    )
"""
_KNOWN: Final = "JOIN _capture_keys AS m ON NOT m.is_new AND m.old_key = s.capture_id"
_COMMENTS_OF: Final = """
    INSERT INTO change_comments
    SELECT s.* REPLACE (
        row_number() OVER (ORDER BY s.comment_id)
        + (SELECT coalesce(max(c.comment_id), 0) FROM change_comments AS c) AS comment_id
    )
    FROM {} AS s
    WHERE NOT EXISTS (
        FROM change_comments AS c
        WHERE (c.series, c.what, c.ordered_by, c.first_bad, c.verdict, c.text, c.written_at)
            = (s.series, s.what, s.ordered_by, s.first_bad, s.verdict, s.text, s.written_at)
            AND c.item IS NOT DISTINCT FROM s.item
    )
"""
# Queries that merge the tables whose rows don't belong to one capture: each adds those rows of the source's table that
# the target doesn't have yet. Of views with the same name, the first warehouse's stays.
MISSING_OF: Final[Mapping[str, str]] = {
    "change_comments": _COMMENTS_OF,
    "named_views": """
        INSERT INTO named_views BY NAME
        FROM {} AS s WHERE s.name NOT IN (SELECT v.name FROM named_views AS v)
    """,
}
_UNITED: Final = (
    *(query.format(f"_source.{table}") for table, query in MISSING_OF.items()),
    f"""
    UPDATE captures SET captured_at = s.captured_at
    FROM _source.captures AS s {_KNOWN}
    WHERE captures.capture_id = m.new_key AND captures.captured_at IS NULL
    """,
    f"""
    INSERT INTO labels
    SELECT m.new_key, s.key, s.value FROM _source.labels AS s {_KNOWN}
    WHERE NOT EXISTS (FROM labels AS l WHERE l.capture_id = m.new_key AND l.key = s.key)
    """,
    # Metrics of one file are copied together; metrics attached by hand are copied by name.
    f"""
    INSERT INTO metrics BY NAME
    SELECT s.* REPLACE (m.new_key AS capture_id) FROM _source.metrics AS s {_KNOWN}
    WHERE NOT EXISTS (
        FROM metrics AS h
        WHERE h.capture_id = m.new_key AND h.source IS NOT DISTINCT FROM s.source AND (
            s.source IS NOT NULL OR h.name = s.name AND h.run_index IS NOT DISTINCT FROM s.run_index
        )
    )
    """,
)
# Keys of known captures that get a label job or rank, or for which the source has peaks.
_RANKED: Final = f"""
    SELECT DISTINCT m.new_key FROM _source.labels AS s {_KNOWN}
    WHERE s.key IN ({", ".join(map(quoted, RANKS))})
        AND NOT EXISTS (FROM labels AS l WHERE l.capture_id = m.new_key AND l.key = s.key)
    ORDER BY ALL
"""
_RATED: Final = f"""
    SELECT DISTINCT m.new_key FROM _source.metrics AS s {_KNOWN} WHERE starts_with(s.name, '{PEAKS}') ORDER BY ALL
"""
_IS_WHOLE: Final = f"m.new_key NOT IN (SELECT f.capture_id FROM findings AS f WHERE f.rule = '{PRUNED}')"
_PHASED: Final = f"""
    UPDATE runs SET phase = s.phase
    FROM _source.runs AS s {_KNOWN}
    WHERE runs.capture_id = m.new_key AND runs.run_index = s.run_index
        AND runs.phase IS NULL AND s.phase IS NOT NULL AND {_IS_WHOLE}
    RETURNING runs.capture_id
"""
_LINKED: Final = " UNION ALL ".join(
    f"""
    SELECT '{kind}_id', m.new_key, k.new_key
    FROM _source.captures AS s {_KNOWN}
    JOIN _{kind}_keys AS k ON k.old_key = s.{kind}_id
    JOIN captures AS c ON c.capture_id = m.new_key
    WHERE c.{kind}_id IS NULL AND {_IS_WHOLE}
    """
    for kind in ("program", "record")
)
# Values that may differ between warehouses: the value here and the value in the source.
_COMPARED: Final = {
    "assumed sizes": ("coalesce(c.assumed, 'none')", "coalesce(s.assumed, 'none')"),
    **{column: (f"c.{column}", f"s.{column}") for column in ("captured_at", "time_scale", "clock_bits")},
    **{
        kind: (
            f"(SELECT k.name FROM {kind}s AS k WHERE k.{kind}_id = c.{kind}_id)",
            f"""(
                SELECT k.name FROM {kind}s AS k
                JOIN _{kind}_keys AS n ON n.new_key = k.{kind}_id WHERE n.old_key = s.{kind}_id
            )""",
        )
        for kind in ("program", "record")
    },
}
_CONFLICTS: Final = " UNION ALL ".join(
    [
        *(
            f"""
            SELECT c.name, '{what}: ' || ({here})::VARCHAR || ' stays, not ' || ({there})::VARCHAR
            FROM _source.captures AS s {_KNOWN} JOIN captures AS c ON c.capture_id = m.new_key
            WHERE {here} <> {there}
            """
            for what, (here, there) in _COMPARED.items()
        ),
        f"""
        SELECT c.name, 'label ' || l.key || ': ' || l.value || ' stays, not ' || s.value
        FROM _source.labels AS s {_KNOWN} JOIN captures AS c ON c.capture_id = m.new_key
        JOIN labels AS l ON l.capture_id = m.new_key AND l.key = s.key
        WHERE l.value <> s.value
        """,
        f"""
        SELECT c.name, 'metric ' || h.name || ': ' || h.value || ' stays, not ' || s.value
        FROM _source.metrics AS s {_KNOWN} JOIN captures AS c ON c.capture_id = m.new_key
        JOIN metrics AS h
            ON h.capture_id = m.new_key AND h.name = s.name AND h.sample = s.sample
            AND h.run_index IS NOT DISTINCT FROM s.run_index
        WHERE h.source IS NULL AND s.source IS NULL AND h.value <> s.value
        """,
        f"""
        SELECT c.name, 'phases: those of the first stay, and differ for ' || count(*) || ' runs'
        FROM _source.runs AS s {_KNOWN} JOIN captures AS c ON c.capture_id = m.new_key
        JOIN runs AS r ON r.capture_id = m.new_key AND r.run_index = s.run_index
        WHERE r.phase <> s.phase
        GROUP BY c.name
        """,
        """
        SELECT '@' || v.name, v.selector || ' stays, not ' || s.selector
        FROM _source.named_views AS s JOIN named_views AS v USING (name)
        WHERE v.selector <> s.selector
        """,
    ]
)
_CONFLICTS_IN_ORDER: Final = f"SELECT * FROM ({_CONFLICTS}) ORDER BY ALL"
