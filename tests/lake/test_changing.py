"""A lake is changed as a warehouse's file is: after the same operation, all tables of both have the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import duckdb
import pytest

import etq
from etq import catalog
from etq.lake import export
from etq.lake.reading.tables import COMMENTS, KINDS, kind_of
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.lake.test_lake import FLEET

pytestmark = pytest.mark.long

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")

Rows = dict[str, Counter[tuple[Any, ...]]]
# When events were pruned, or a comment was written, differs.
_WHEN = {"findings": "detail := regexp_replace(t.detail, '^pruned at .*? UTC', '')", COMMENTS: "written_at := NULL"}


def rows_of_lake(lake: Path) -> Rows:
    """The rows of all tables, as deltalake reads them."""
    from deltalake import DeltaTable

    with duckdb.connect() as connection:
        for table in catalog.tables():
            connection.execute(table.statement)
            if (lake / table.name / "_delta_log").is_dir():
                connection.register("_rows", DeltaTable(lake / table.name).to_pyarrow_table().drop_columns(["load_id"]))
                connection.execute(f"DROP TABLE {table.name}; CREATE TABLE {table.name} AS FROM _rows")
        return rows_of(connection)


def rows_of_file(path: Path) -> Rows:
    with duckdb.connect(path, read_only=True) as connection:
        return rows_of(connection)


def rows_of(connection: duckdb.DuckDBPyConnection) -> Rows:
    """The rows of all tables of captures, records and programs, with their hashes in the place of keys; and comments."""
    found = {}
    for table in catalog.tables():
        kind = kind_of(table.name)
        if kind is None and table.name != COMMENTS:
            continue
        columns = [
            f"(SELECT k.sha256 FROM {column.name[:-3]}s AS k WHERE k.{column.name} = t.{column.name})"
            if column.name in {f"{each}_id" for each in KINDS}
            else f"t.{column.name}"
            for column in table.columns
        ]
        when = _WHEN.get(table.name, "").partition(" := ")
        columns = [when[2] if column == f"t.{when[0]}" else column for column in columns]
        rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table.name} AS t").fetchall()
        found[table.name] = Counter(
            tuple(str(value) if isinstance(value, list) else value for value in row) for row in rows
        )
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse and a lake of it, in two loads: dumps, one with its record, and the ranks of a job."""
    folder = tmp_path_factory.mktemp("kept")
    with etq.open(folder / "lab.duckdb") as warehouse:
        warehouse.ingest_many(FLEET[:2], labels={"build": "1"})
        export(folder / "lake", warehouse)
        warehouse.ingest(CAPTURES / "mlp/mlp.etdp", etrecord=CAPTURES / "mlp/mlp.etrecord", labels={"build": "2"})
        for rank in range(2):
            warehouse.ingest(CAPTURES / f"torch_gpu/rank{rank}.pt.trace.json.gz", labels={"job": "gpu"})
        export(folder / "lake", warehouse)
    assert rows_of_lake(folder / "lake") == rows_of_file(folder / "lab.duckdb")
    return folder


def _comment(warehouse: Warehouse) -> None:
    warehouse.remove_comment(warehouse.accept("2", "a newer model", over="build"))
    warehouse.comment("2", "known", over="build", author="ada")


# What is done one after another.
CHANGES: dict[str, list[Callable[[Warehouse], object]]] = {
    "annotate": [
        _comment,
        lambda warehouse: warehouse.label("00", build="3", device="pixel8", captured_at="2026-05-01"),
        lambda warehouse: warehouse.label("mlp", build=None),
        lambda warehouse: warehouse.metric("rank0", "temperature", 41),
        lambda warehouse: warehouse.ingest_metrics("rank0", b'{"peak_flops": 1e12, "peak_bandwidth": 1e11}'),
        lambda warehouse: warehouse.phase("mlp", "decode", runs="1-"),
    ],
    "rank": [lambda warehouse: warehouse.label("rank1", job="other", rank="5")],
    "remove": [lambda warehouse: warehouse.remove("rank1"), lambda warehouse: warehouse.remove("00", "mlp")],
    "prune": [
        lambda warehouse: warehouse.prune(0, selectors=["build=2", "rank0"], keep_rollups=True),
        lambda warehouse: warehouse.prune(1, ["build"]),
        lambda warehouse: warehouse.prune(0),
    ],
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_lake_is_changed_as_a_file_is(what: str, kept: Path, tmp_path: Path) -> None:
    copyfile(kept / "lab.duckdb", tmp_path / "lab.duckdb")
    copytree(kept / "lake", tmp_path / "lake")
    answers = []
    for place in ("lab.duckdb", "lake"):
        with etq.open(tmp_path / place) as warehouse:
            results = [change(warehouse) for change in CHANGES[what]]
            results = [[each.name for each in result] if isinstance(result, list) else result for result in results]
            answers.append([*results, warehouse.rows("SELECT name FROM captures ORDER BY name")[1]])
    assert answers[0] == answers[1], "also what the warehouse answers that did it"
    expected, found = rows_of_file(tmp_path / "lab.duckdb"), rows_of_lake(tmp_path / "lake")
    assert expected != rows_of_file(kept / "lab.duckdb"), "the change changes something"
    wrong = {name for name in expected if expected[name] != found[name]}
    assert {name: ((found[name] - expected[name]), (expected[name] - found[name])) for name in wrong} == {}
