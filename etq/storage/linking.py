"""Linking captures to their records and programs, which maps events to nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import duckdb

from etq import catalog
from etq.errors import WarehouseError
from etq.storage.methods import FITTING, find_methods
from etq.storage.node_sets import find_costs
from etq.storage.nodes import find_nodes_of_handles, place_nodes
from etq.storage.outputs import find_op_values, find_outputs

# The tables that linking fills from signatures.
_FOUND: Final = (
    *("linked_methods", "placed_nodes", "signature_nodes", "signature_delegate_ops", "signature_ops"),
    *("signature_costs", "signature_outputs"),
)
_OF_LINKS: Final = "rule IN ('foreign record', 'foreign program', 'method unknown')"
_KEYS: Final = "(SELECT unnest($keys::INTEGER[]))"


def link(
    connection: duckdb.DuckDBPyConnection, capture_id: int, column: str, key: int, *, must_fit: bool = False
) -> None:
    """Link a capture to a record or program, by the column of `captures` that has its key.

    Infers the methods of its runs, and finds the nodes of its events. A record or program that doesn't fit is linked
    too, with a finding, unless it `must_fit` some block of events. Raises `WarehouseError` if it must fit and doesn't,
    and for a PyTorch trace, which has no program. The caller holds a transaction.
    """
    query = "SELECT name FROM captures WHERE capture_id = ? AND format = 'torch_trace'"
    for (name,) in connection.execute(query, [capture_id]).fetchall():
        raise WarehouseError(f"{name} is a PyTorch trace, which has no record or program: link an ETDump")
    # Imported here, as reading a file needs no advice.
    from etq.advice.filling import fill_rollups

    link_many(connection, [capture_id], column, key)
    if must_fit:
        _check_fits(connection, capture_id, column)
    fill_rollups(connection, capture_id)


def _check_fits(connection: duckdb.DuckDBPyConnection, capture_id: int, column: str) -> None:
    """Raise `WarehouseError` if the record or program that the column links to fits none of the capture's blocks."""
    query = """
        SELECT any_value(f.detail) FROM findings AS f
        WHERE f.capture_id = $capture AND f.rule = $rule AND NOT EXISTS (
            FROM linked_methods AS m WHERE m.capture_id = $capture AND m.score >= $fitting
        )
    """
    rule = "foreign record" if column == "record_id" else "foreign program"
    [(detail,)] = connection.execute(query, {"capture": capture_id, "rule": rule, "fitting": FITTING}).fetchall()
    if detail is not None:
        raise WarehouseError(detail)


def link_many(connection: duckdb.DuckDBPyConnection, capture_ids: Sequence[int], column: str, key: int) -> None:
    """Link captures as `link` does, but without their rollups, which the caller fills.

    The results depend only on the signatures, so they are computed once for all captures with the same signatures.
    PyTorch traces among them are left out.
    """
    query = f"SELECT capture_id FROM captures WHERE capture_id IN {_KEYS} AND format <> 'torch_trace' ORDER BY ALL"
    capture_ids = [key for (key,) in connection.execute(query, {"keys": list(capture_ids)}).fetchall()]
    if capture_ids:
        link_all(connection, capture_ids, {column: key})


def link_all(connection: duckdb.DuckDBPyConnection, capture_ids: Sequence[int], links: Mapping[str, int]) -> None:
    """Link captures, which aren't PyTorch traces, to a record, a program or both, as `link_many` does."""
    keys = {"keys": list(capture_ids)}
    for table in (*_FOUND, "op_values"):
        connection.execute(f"DELETE FROM {table} WHERE capture_id IN {_KEYS}", keys)
    connection.execute(f"DELETE FROM findings WHERE capture_id IN {_KEYS} AND {_OF_LINKS}", keys)
    connection.execute(f"UPDATE runs SET method = NULL, method_score = NULL WHERE capture_id IN {_KEYS}", keys)
    _set_links(connection, capture_ids, links)
    for first, *others in [[*capture_ids]] if len(capture_ids) == 1 else groups(connection, capture_ids):
        find_methods(connection, first)
        find_nodes(connection, first)
        find_ops(connection, first)
        find_costs(connection, first)
        find_outputs(connection, first)
        if others:
            _copy_links(connection, first, others)
    set_methods(connection, capture_ids)
    find_op_values(connection, capture_ids)


def link_new(connection: duckdb.DuckDBPyConnection, capture_id: int, links: Mapping[str, int]) -> None:
    """Link a capture that was never linked, as `link_many` does, but without nodes, ops, costs and outputs. The caller
    calls `find_nodes`, `find_ops`, `find_costs` and `find_outputs`, in this order, when it needs these.
    """
    _set_links(connection, [capture_id], links)
    find_methods(connection, capture_id)
    set_methods(connection, [capture_id])


def _set_links(connection: duckdb.DuckDBPyConnection, capture_ids: Sequence[int], links: Mapping[str, int]) -> None:
    values = ", ".join(f"{column} = {key:d}" for column, key in links.items())
    connection.execute(f"UPDATE captures SET {values} WHERE capture_id IN {_KEYS}", {"keys": list(capture_ids)})


def set_methods(connection: duckdb.DuckDBPyConnection, capture_ids: Sequence[int]) -> None:
    """Set the methods of the runs of captures that were linked; the runs had none."""
    connection.execute(
        f"""
        UPDATE runs SET method = b.method, method_score = b.score FROM linked_methods AS b
        WHERE runs.capture_id IN {_KEYS} AND runs.capture_id = b.capture_id AND runs.block_index = b.block_index
        """,
        {"keys": list(capture_ids)},
    )


def groups(connection: duckdb.DuckDBPyConnection, capture_ids: Sequence[int]) -> list[list[int]]:
    """Return captures in groups with the same signatures, record and program; each capture of format `reference` is a
    group by itself.
    """
    columns = [f"s.{column.name}" for column in catalog.named("signatures").columns if column.name != "capture_id"]
    query = f"""
        SELECT list(k.capture_id ORDER BY k.capture_id)
        FROM (
            SELECT c.capture_id, c.record_id, c.program_id,
                EXISTS (FROM debug_values AS v WHERE v.capture_id = c.capture_id) AS has_values,
                CASE WHEN c.format = 'reference' THEN c.capture_id END AS reference,
                list(row({", ".join(columns)}) ORDER BY s.signature_index) AS shape
            FROM captures AS c
            LEFT JOIN signatures AS s ON s.capture_id = c.capture_id
            WHERE c.capture_id IN {_KEYS}
            GROUP BY ALL
        ) AS k
        GROUP BY k.record_id, k.program_id, k.has_values, k.reference, k.shape
        ORDER BY ALL
    """
    return [keys for (keys,) in connection.execute(query, {"keys": list(capture_ids)}).fetchall()]


def find_nodes(connection: duckdb.DuckDBPyConnection, capture_id: int) -> None:
    """Find the nodes that delegates run, and the nodes of a capture's events, after the methods of its runs."""
    has_delegates = place_nodes(connection, capture_id)
    find_nodes_of_handles(connection, capture_id, has_delegates=has_delegates)
    has_ops = _has_delegate_ops(connection, capture_id)
    if has_ops or _has_unmapped_delegates(connection, capture_id):
        from etq.storage.aligning import align_delegates

        align_delegates(connection, capture_id, has_ops)


def find_ops(connection: duckdb.DuckDBPyConnection, capture_id: int) -> None:
    """Find the ops, modules and lines of a capture's events, after their nodes."""
    connection.execute(
        f"INSERT INTO signature_ops SELECT {capture_id:d}, f.* FROM _find_event_ops({capture_id:d}) AS f"
    )


def _copy_links(connection: duckdb.DuckDBPyConnection, first: int, others: Sequence[int]) -> None:
    """Copy the results of the first capture to the others."""
    for table in (*_FOUND, "findings"):
        connection.execute(
            f"""
            INSERT INTO {table}
            SELECT k.capture_id, f.* EXCLUDE (capture_id)
            FROM (SELECT unnest($keys::INTEGER[]) AS capture_id) AS k, {table} AS f
            WHERE f.capture_id = $first {f"AND {_OF_LINKS}" if table == "findings" else ""}
            ORDER BY k.capture_id, f.rowid
            """,
            {"first": first, "keys": list(others)},
        )


def _has_unmapped_delegates(connection: duckdb.DuckDBPyConnection, capture_id: int) -> bool:
    """Whether the capture's record has delegates that wrote no map."""
    query = """
        SELECT 1 FROM captures AS k JOIN delegates AS d ON d.record_id = k.record_id
        WHERE k.capture_id = ? AND NOT d.is_mapped LIMIT 1
    """
    return bool(connection.execute(query, [capture_id]).fetchall())


def _has_delegate_ops(connection: duckdb.DuckDBPyConnection, capture_id: int) -> bool:
    """Whether the capture's program has graphs of delegates."""
    query = """
        SELECT 1 FROM captures AS k JOIN delegate_ops AS o ON o.program_id = k.program_id WHERE k.capture_id = ? LIMIT 1
    """
    return bool(connection.execute(query, [capture_id]).fetchall())
