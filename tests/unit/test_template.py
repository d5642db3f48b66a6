"""New warehouses are copied from a template in the user's cache. They are the same without it or if it is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

import etq
from etq.warehouse.warehouse import Warehouse

QUESTIONS = (
    "FROM duckdb_functions() SELECT * EXCLUDE (database_name, function_oid, database_oid) WHERE NOT internal",
    "FROM duckdb_columns() SELECT * EXCLUDE (database_name, table_oid, database_oid, schema_oid) WHERE NOT internal",
    "FROM duckdb_views() SELECT * EXCLUDE (database_name, view_oid, database_oid, schema_oid) WHERE NOT internal",
    "FROM duckdb_tables() SELECT * EXCLUDE (database_name, table_oid, database_oid, schema_oid)",
    "FROM warehouse SELECT * EXCLUDE (created_at)",
)


def known(warehouse: Warehouse) -> list[list[tuple[object, ...]]]:
    """DuckDB's catalog of a warehouse, without its internal numbers."""
    answers = [warehouse.connection.execute(f"{each} ORDER BY ALL").fetchall() for each in QUESTIONS]
    assert all(answers)
    return answers


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setenv("LOCALAPPDATA", str(folder))
    return folder


def templates(cache: Path) -> list[Path]:
    return sorted(each for each in (cache / "etq").iterdir() if each.suffix != ".txt")


@pytest.mark.long
def test_warehouses_are_the_same_with_and_without_a_template(cache: Path, tmp_path: Path) -> None:
    cache.write_text("a file, in which nothing can be cached")
    # DuckDB changes the text of a macro once it has read it from a file.
    etq.open(tmp_path / "without.duckdb").close()
    with etq.open(tmp_path / "without.duckdb") as without:
        expected = known(without)
    cache.unlink()
    etq.open(tmp_path / "makes.duckdb").close()
    [template] = templates(cache)
    made = template.stat()
    etq.open(tmp_path / "copies.duckdb").close()
    for name in ("makes", "copies"):
        with etq.open(tmp_path / f"{name}.duckdb", read_only=True) as opened:
            assert known(opened) == expected
    with etq.open() as in_memory:
        assert known(in_memory) == expected
        assert in_memory.rows("SELECT database_name FROM duckdb_databases() WHERE NOT internal")[1] == [("memory",)]
    assert (template.stat().st_ino, template.stat().st_size) == (made.st_ino, made.st_size)
    template.write_bytes(template.read_bytes()[: made.st_size // 2])
    for _ in range(2):
        with etq.open() as opened:
            assert opened.rows("FROM captures")[1] == []
    assert templates(cache) == [template] and template.stat().st_size == made.st_size, "a damaged one is made anew"
