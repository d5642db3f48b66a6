"""Warehouses of older schemas, as the etq of then made them: nothing is lost, and views answer as of a fresh ingest.

    older/schema_1.duckdb.gz   schema 1, etq 0.1.0 before phases and metrics (6f871ce)
    older/schema_2.duckdb.gz   schema 2, etq 0.1.0 before node_arguments and capture_ops (2f00453)

Made in tests/captures: mlp/mlp.etdp (labels device=pixel8, build=41), mlp/mlp_alloc.etdp (pixel8, 42) and
mlp_xnn/mlp_xnn.etdp (named xnn), with their records linked; in that of schema 2, runs 2 and 3 of mlp are of phase decode
and it has a metric, temperature = 41.
"""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import etq
from etq import catalog
from etq.errors import WarehouseError
from etq.version import SCHEMA_VERSION
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES

OLDER = Path(__file__).parent / "older"
# A Python that has the oldest DuckDB that is to read warehouses, and nothing of etq.
OLD_PYTHON = os.environ.get("ETQ_OLD_DUCKDB")


def unpacked(version: int, folder: Path) -> Path:
    path = folder / f"schema_{version}.duckdb"
    path.write_bytes(gzip.decompress((OLDER / f"{path.name}.gz").read_bytes()))
    return path


def rows(connection: duckdb.DuckDBPyConnection, table: str, columns: list[str]) -> list[str]:
    listed = ", ".join(f'"{column}"' for column in columns)
    return sorted(map(repr, connection.execute(f"SELECT {listed} FROM {table}").fetchall()))


def tables(connection: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """The columns of each table."""
    found: dict[str, list[str]] = {}
    for table, column in connection.execute(
        "SELECT c.table_name, c.column_name FROM duckdb_columns() AS c "
        "JOIN duckdb_tables() AS t ON t.table_oid = c.table_oid ORDER BY c.table_name, c.column_index"
    ).fetchall():
        found.setdefault(table, []).append(column)
    return found


def ingested(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """The same captures and records, ingested now."""
    monkeypatch.chdir(CAPTURES)
    warehouse = etq.open(folder / "fresh.duckdb")
    for number, name in enumerate(("mlp", "mlp_alloc")):
        warehouse.ingest(f"mlp/{name}.etdp", labels={"device": "pixel8", "build": str(41 + number)})
    warehouse.ingest("mlp_xnn/mlp_xnn.etdp", name="xnn")
    records = [warehouse.ingest_record(f"{name}/{name}.etrecord") for name in ("mlp", "mlp_xnn")]
    for name, record in zip(("mlp", "mlp_alloc", "xnn"), (records[0], records[0], records[1]), strict=True):
        warehouse.link(name, record)
    return warehouse


def answers(ask: Callable[[str], list[object]]) -> dict[str, list[object]]:
    """What all views, and all macros of one capture, record or two captures say."""
    given = {
        "capture": ("'mlp'", "'mlp_alloc'", "'xnn'"),
        "record": ("'mlp'", "'mlp_xnn'"),
        "base": ("'mlp', 'mlp_alloc'",),
    }
    said = {}
    for each in catalog.public_objects():
        if each.kind == "view":
            said[each.name] = ask(f"FROM {each.name}")
        elif each.kind == "table macro" and each.parameters and each.parameters[0].name in given:
            for argument in given[each.parameters[0].name]:
                said[f"{each.name}({argument})"] = ask(f"FROM {each.name}({argument})")
    return said


def asked(connection: duckdb.DuckDBPyConnection) -> Callable[[str], list[object]]:
    def ask(query: str) -> list[object]:
        try:
            answer = connection.execute(query)
            names = [column[0] for column in answer.description or ()]
            kept = [at for at, name in enumerate(names) if name not in _OF_THE_FILE]
            return [names, *([rounded(row[at]) for at in kept] for row in answer.fetchall())]
        except duckdb.Error as error:
            # Of two sides that are both unknown, either may be told of.
            return ["error", re.sub(r"matches \w+", "matches", str(error).split("\n")[0])]

    return ask


# When it was read, and what the file itself takes.
_OF_THE_FILE = {
    "ingested_at", "first_ingested_at", "last_ingested_at", "created_at", "stored_bytes", "estimated_size",
}  # fmt: skip


def rounded(value: object) -> object:
    """Sums of floating-point numbers differ in their last digits from time to time."""
    return f"{value:.10g}" if isinstance(value, float) else repr(value)


@pytest.mark.long
@pytest.mark.parametrize("version", [1, 2])
def test_nothing_is_lost_and_views_answer_as_of_a_fresh_ingest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    path = unpacked(version, tmp_path)
    with duckdb.connect(str(path), read_only=True) as plain:
        assert plain.execute("SELECT schema_version FROM warehouse").fetchall() == [(version,)]
        there = tables(plain)
        before = {table: rows(plain, table, columns) for table, columns in there.items()}
    with pytest.raises(WarehouseError, match=f"of schema {version}, needs to be migrated to {SCHEMA_VERSION}"):
        etq.open(path, read_only=True)
    with etq.open(path) as warehouse:
        now = tables(warehouse.connection)
        assert sorted(now) == sorted(table.name for table in catalog.tables())
        for table in there.keys() - {"warehouse"}:
            assert set(there[table]) <= set(now[table])
            assert rows(warehouse.connection, table, there[table]) == before[table], table
        assert before["event_ticks"] and before["op_nodes"] and before["labels"]
        for name in ("mlp", "mlp_xnn"):
            assert not warehouse.ingest_record(CAPTURES / name / f"{name}.etrecord").is_new
        migrated = answers(asked(warehouse.connection))
    with ingested(tmp_path, monkeypatch) as fresh:
        if version == 2:
            fresh.phase("mlp", "decode", runs="2-3")
            fresh.metric("mlp", "temperature", 41)
        expected = answers(asked(fresh.connection))
    assert len(expected) > 60
    assert [name for name in expected if migrated[name] != expected[name]] == []


# Two databases that count floating-point numbers in another order, and words of errors.
COMPARE = """
import sys, duckdb
path = sys.argv[1]
with duckdb.connect(path, read_only=True) as connection:
    print(duckdb.__version__)
    for query in sys.stdin.read().splitlines():
        try:
            rows = connection.execute(query).fetchall()
            print([[f"{value:.10g}" if isinstance(value, float) else repr(value) for value in row] for row in rows])
        except duckdb.Error as error:
            print("error")
"""


@pytest.mark.skipif(OLD_PYTHON is None, reason="$ETQ_OLD_DUCKDB names no Python that has DuckDB 1.5")
def test_an_older_duckdb_reads_what_this_one_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert OLD_PYTHON is not None
    with ingested(tmp_path, monkeypatch) as warehouse:
        # What asks for phases is answered, too.
        warehouse.phase("mlp", "prefill", runs="1")
        warehouse.phase("mlp", "decode", runs="2-")
        queries = list(answers(lambda query: [query]).values())
        # The table macros' rows are in an order of their own; views of all captures have none.
        asked_for = "".join(f"SELECT * FROM ({query}) ORDER BY ALL\n" for (query,) in queries)
        assert warehouse.path is not None
    said = []
    for python in (sys.executable, OLD_PYTHON):
        done = subprocess.run(
            [python, "-c", COMPARE, warehouse.path], input=asked_for, capture_output=True, text=True, check=True
        )
        said.append(done.stdout.splitlines())
    assert said[0][0].startswith("2.") and said[1][0].startswith("1.5.")
    assert len(said[0]) == len(queries) + 1 and said[0].count("error") < len(queries) / 4
    differing = [query for (query,), new, old in zip(queries, said[0][1:], said[1][1:], strict=True) if new != old]
    assert differing == []
