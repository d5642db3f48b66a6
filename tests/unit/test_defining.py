"""A warehouse in memory has the tables, views and macros that its queries name, and the rows of these tables."""

from __future__ import annotations

from pathlib import Path

from etq import catalog
from etq.warehouse.ephemeral import open_ephemeral
from etq.warehouse.warehouse import Warehouse
from tests.benchmarks.make_gpu_trace import make_gpu_trace
from tests.conftest import CAPTURES

MACROS = "SELECT count(*) FROM duckdb_functions() AS f WHERE f.database_name = current_database()"


def test_what_a_statement_names() -> None:
    """Calls of macros, and words that are tables or views: no texts, comments, arguments, columns, other words."""
    query = """
        INSERT INTO findings (rule) SELECT r.labels, 'metrics', $threads, runs := 1 -- methods
        FROM Events AS r, op_totals ('x', "by" := 'family') WHERE advice = module_totals
    """
    assert catalog.named_in(query) == ["findings", "events", "op_totals"]


def test_objects_are_created_when_they_are_named() -> None:
    warehouse, capture = open_ephemeral(CAPTURES / "mlp" / "mlp.etdp")
    with warehouse:
        assert warehouse.rows(MACROS)[1] == [(0,)]
        rows = warehouse.rows("FROM op_totals($capture)", capture=capture)
        [(few,)] = warehouse.rows(MACROS)[1]
        assert 0 < few < len(catalog.objects()) / 5
        assert warehouse.rows("FROM op_totals($capture)", capture=capture) == rows
        assert warehouse.rows(MACROS)[1] == [(few,)]
        assert warehouse.op_totals(capture).fetchall() == rows[1]
        assert warehouse.rows("SELECT count(*) FROM runs WHERE is_typical IS NULL AND scope IS NULL")[1] == [(0,)]


def test_tables_have_their_rows_whenever_they_are_named(warehouse: Warehouse, tmp_path: Path) -> None:
    """In whatever order: the rows are those of the file ingested."""
    path = tmp_path / "gpu.pt.trace.json"
    make_gpu_trace(path, 2_000, 1)
    warehouse.ingest(path)
    opened, _ = open_ephemeral(path, ["kernel_table"])
    with opened:
        for table in reversed(catalog.tables()):
            # Rollups are for questions across captures; a capture's row has the time of its ingest.
            is_read = table.columns[0].name == "capture_id" and table.file != "tables/rollups.sql"
            if is_read and table.name != "captures":
                query = f"SELECT * EXCLUDE (capture_id) FROM {table.name} ORDER BY ALL"
                assert opened.rows(query) == warehouse.rows(query), table.name
