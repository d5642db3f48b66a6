"""Storing captures in a warehouse: once, whole or not at all, under names; and opening files that aren't one."""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import duckdb
import pytest

import etq
from etq import catalog
from etq.errors import ArgumentError, FormatError, WarehouseError
from etq.version import SCHEMA_VERSION
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.warehouses import empty_warehouse

MLP = CAPTURES / "mlp/mlp.etdp"
# 3:04:05 in UTC, in which moments are kept.
EAST = datetime(2026, 1, 2, 5, 4, 5, tzinfo=timezone(timedelta(hours=2)))
ONE = dump(run("Execute", kernel("add", 1, 2), execute(0, 3)))
TWO = dump(run("Execute", kernel("add", 1, 3), execute(0, 4)))


def contents(warehouse: Warehouse) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables, without times and users."""
    return {
        table.name: warehouse.rows(
            f"SELECT COLUMNS(lambda c: c NOT IN ('ingested_at', 'created_at')) FROM {table.name} ORDER BY ALL"
        )[1]
        for table in catalog.tables()
    }


@pytest.mark.long
def test_known_content_adds_nothing_but_the_options(warehouse: Warehouse) -> None:
    first = warehouse.ingest(MLP, labels={"device": "a"})
    before = contents(warehouse)
    again = warehouse.ingest(MLP)
    assert first.is_new and not again.is_new and again.capture_id == first.capture_id
    assert contents(warehouse) == before
    named = warehouse.ingest(MLP.read_bytes(), name="run", labels={"device": "b", "build": "7"}, captured_at=EAST)
    assert named.name == "run" and not named.is_new
    assert warehouse.rows("SELECT key, value FROM labels ORDER BY key")[1] == [("build", "7"), ("device", "b")]
    assert warehouse.rows("SELECT name, captured_at FROM captures")[1] == [("run", datetime(2026, 1, 2, 3, 4, 5))]
    assert warehouse.rows("SELECT count(*) FROM event_ticks")[1] == [(247,)]


def test_a_time_scale_given_later_applies_to_stored_captures(warehouse: Warehouse) -> None:
    warehouse.ingest(ONE, name="one")
    warehouse.ingest(ONE, time_scale="us")
    assert warehouse.rows("SELECT max FROM inspector_events('one', unit := 'us')")[1] == [(1.0,), (3.0,)]


def test_a_clock_width_given_later_reads_the_file_again(warehouse: Warehouse) -> None:
    wrap = CAPTURES / "mlp/mlp_wrap32.etdp"
    warehouse.ingest(wrap, clock_bits=64, labels={"a": "b"}, captured_at=datetime(2026, 1, 1))
    assert warehouse.rows("SELECT count(*) FROM events WHERE duration_ticks IS NULL")[1] == [(3,)]
    assert warehouse.rows("SELECT rule FROM findings")[1] == [("impossible times",)]
    again = warehouse.ingest(wrap, clock_bits=32)
    assert not again.is_new
    assert warehouse.rows("SELECT count(*) FROM events WHERE duration_ticks IS NULL")[1] == [(0,)]
    assert warehouse.rows("SELECT rule FROM findings")[1] == [("wrapped clock",)]
    assert warehouse.rows("SELECT name, labels, captured_at FROM capture_summary")[1] == [
        ("mlp_wrap32", "a=b", datetime(2026, 1, 1))
    ]


def test_names_come_from_paths_until_they_are_unique(warehouse: Warehouse, tmp_path: Path) -> None:
    contents = [ONE, TWO, MLP.read_bytes()]
    for place, content in zip(("a", "b/a", "c/a"), contents, strict=True):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "run.etdp").write_bytes(content)
    names = [warehouse.ingest(tmp_path / place / "run.etdp").name for place in ("a", "b/a", "c/a")]
    assert names == ["run", "a/run", "c/a/run"]
    with pytest.raises(ArgumentError, match="the name 'run' is taken by other content"):
        warehouse.ingest((CAPTURES / "mlp/mlp_1run.etdp"), name="run")
    with pytest.raises(ArgumentError, match="the name 'a/run' is taken"):
        warehouse.ingest(ONE, name="a/run")
    assert len(warehouse.captures().fetchall()) == 3


@pytest.mark.long
def test_a_damaged_file_leaves_nothing() -> None:
    with empty_warehouse() as warehouse:
        warehouse.ingest(ONE, name="before", labels={"a": "b"})
        before = contents(warehouse)
        for path in sorted((CAPTURES / "malformed").iterdir()):
            if path.name in ("mlp_concatenated.etdp", "mlp_nosizeprefix.etdp", "mlp_trailing.etdp"):
                warehouse.remove(warehouse.ingest(path))
            else:
                with pytest.raises(FormatError, match=f"^{path}: "):
                    warehouse.ingest(path)
            assert contents(warehouse) == before, path


def test_a_file_damaged_at_its_end_leaves_nothing(warehouse: Warehouse) -> None:
    """Rows of the first runs are already being inserted when the last run turns out to be damaged."""
    from etq.ingest.etdump import run_groups

    good = dump(*(run("Execute", kernel("add", at, at + 2), execute(at, at + 3)) for at in range(50)))
    bad = good.replace((49).to_bytes(8, "little") + (51).to_bytes(8, "little"), bytes(16))
    place = bad.rindex(b"native_call_add.out")
    broken = bad[:place] + b"\xff" + bad[place + 1 :]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_groups, "SLICE", 8)
        with pytest.raises(FormatError, match="not UTF-8"):
            warehouse.ingest(broken)
        assert all(not rows for table, rows in contents(warehouse).items() if table != "warehouse")
        assert warehouse.ingest(good).is_new
    assert warehouse.rows("SELECT count(*) FROM event_ticks")[1] == [(100,)]


def test_bad_options_are_refused(warehouse: Warehouse) -> None:
    with pytest.raises(ArgumentError, match="no time scale 'sec'; known are ns, us, ms, s, cycles"):
        warehouse.ingest(ONE, time_scale="sec")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a clock of 16 bits; known are 32 and 64"):
        warehouse.ingest(ONE, clock_bits=16)  # type: ignore[arg-type]


@pytest.mark.long
def test_a_file_s_own_views_and_macros_are_not_run(tmp_path: Path) -> None:
    """Another version of etq may have made them, or somebody else. DuckDB alone runs them."""
    path = tmp_path / "lab.duckdb"
    questions = (
        "FROM op_totals('mlp')", "FROM headline('mlp')", "FROM compare_ops('mlp', 'other', allow_mismatch := true)",
        "SELECT name, runs FROM capture_summary ORDER BY name", "FROM OP_totals /* of */ ('mlp')",
        "FROM query('FROM op_' || 'totals(''mlp'')')",
    )  # fmt: skip
    with etq.open(path) as warehouse:
        warehouse.ingest(MLP, name="mlp")
        warehouse.ingest(ONE, name="other")
        expected = [warehouse.rows(each) for each in questions]
    with duckdb.connect(str(path)) as plain:
        assert plain.execute(questions[0]).fetchall() == expected[0][1]
        for macro in ("op_totals(capture)", "_capture(capture, unit)", "_typical_runs(a, b)"):
            plain.execute(f"CREATE OR REPLACE MACRO {macro} AS TABLE SELECT 'old' AS op")
        plain.execute("CREATE OR REPLACE VIEW capture_summary AS SELECT 'old' AS name, 1 AS runs")
        plain.execute("CREATE MACRO mine() AS TABLE FROM op_totals('mlp')")
        assert plain.execute(questions[0]).fetchall() == [("old",)]
    for read_only in (True, False):
        with etq.open(path, read_only=read_only) as reader:
            assert [reader.rows(each) for each in questions] == expected
            assert [reader.sql(each).fetchall() for each in questions] == [rows for _, rows in expected]
            assert [reader.safe_sql(each) for each in questions[:-1]] == expected[:-1]  # no text is run
            assert reader.rows("FROM mine()") == expected[0]


@pytest.mark.parametrize(
    ("at", "end", "message"),
    [
        (slice(12_000, 12_100), None, "Corrupt database file: .*; use a copy of it, or ingest its files again"),
        (slice(0), 8000, "a database that breaks off: copy it again"),
        (slice(0), -5000, "a database that breaks off: copy it again"),
    ],
)
def test_damaged_warehouses_are_refused(tmp_path: Path, at: slice, end: int | None, message: str) -> None:
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(CAPTURES / "mlp/mlp.etdp")
    content = bytearray(path.read_bytes())
    content[at] = bytes(255 - byte for byte in content[at])
    path.write_bytes(content[:end])
    with pytest.raises(WarehouseError, match=rf"lab\.duckdb: {message}$"):
        etq.open(path, read_only=True)


def test_files_that_are_not_warehouses_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    with pytest.raises(WarehouseError, match="no such file; make a warehouse with: etq ingest FILE... --db"):
        etq.open(path, read_only=True)
    for name, what in (("mlp/mlp.etdp", "an ETDump"), ("mlp/mlp.pte", "an ExecuTorch program (.pte)")):
        with pytest.raises(WarehouseError, match=re.escape(f"{name}: {what}, not a warehouse; `etq ")):
            etq.open(CAPTURES / name)
    trace = tmp_path / "trace.json"
    trace.write_text('{"schemaVersion": 1, "traceEvents": []}')
    with pytest.raises(WarehouseError, match="trace.json: a trace in JSON, not a warehouse; "):
        etq.open(trace)
    path.write_text("no database")
    with pytest.raises(WarehouseError, match=r"lab.duckdb: not a DuckDB database; name another file"):
        etq.open(path)
    for name, content in (("some.json", '{"a": 1}'), ("short.json", "[1]"), ("some.csv", "a,b\n1,2\n")):
        (tmp_path / name).write_text(content)
        with pytest.raises(WarehouseError, match=f"{name}: not a DuckDB database; name another file"):
            etq.open(tmp_path / name)
    path.unlink()
    with duckdb.connect(str(path)) as plain:
        plain.execute("CREATE TABLE mine AS SELECT 1 AS one")
    with pytest.raises(WarehouseError, match="a DuckDB database, but not a warehouse of etq"):
        etq.open(path)
    with pytest.raises(WarehouseError, match="a folder; a warehouse is a file"):
        etq.open(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(WarehouseError, match="a pipe or device; a warehouse is a file"):
        etq.open(tmp_path / "pipe")
    with pytest.raises(WarehouseError, match=r"lab.duckdb: its folder does not exist; create it first"):
        etq.open(tmp_path / "no/such/lab.duckdb")
    with pytest.raises(ArgumentError, match=r"is not a file; etq\.open\(\) without a path opens a warehouse in memory"):
        etq.open("")


@pytest.mark.long
@pytest.mark.parametrize("version", [0, 99])
def test_a_warehouse_of_another_schema_is_refused(tmp_path: Path, version: int) -> None:
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.connection.execute("UPDATE warehouse SET schema_version = ?", [version])
    message = rf"lab.duckdb: has tables of version {version}, and this etq reads version {SCHEMA_VERSION}; ingest the files again$"
    for read_only in (False, True):
        with pytest.raises(WarehouseError, match=message):
            etq.open(path, read_only=read_only)
    with duckdb.connect(str(path)) as plain:
        assert plain.execute("SELECT schema_version FROM warehouse").fetchall() == [(version,)]


def test_a_closed_warehouse_refuses_queries(warehouse: Warehouse) -> None:
    warehouse.close()
    warehouse.close()
    assert repr(warehouse) == "<etq.Warehouse :memory: (closed)>"
    with pytest.raises(WarehouseError, match="the warehouse in memory is closed"):
        warehouse.sql("SELECT 1")


@pytest.mark.long
@pytest.mark.parametrize("limit", ["60MB", "18.7GiB"])
def test_many_ingests_leave_the_memory_limit_of_the_connection(tmp_path: Path, limit: str) -> None:
    with etq.open(tmp_path / "lab.duckdb") as warehouse:
        warehouse.connection.execute(f"SET memory_limit = '{limit}'")
        before = warehouse.rows("SELECT current_setting('memory_limit')")[1]
        for number in range(2):
            warehouse.ingest(dump(run("Execute", execute(0, 10), kernel("add", 1, 2 + number))))
        assert warehouse.rows("SELECT current_setting('memory_limit')")[1] == before


def test_a_warehouse_names_no_folder_of_its_maker(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of the present folder have a relative path, others only their name."""
    inside, outside = tmp_path / "lab" / "pixel8" / "run.etdp", tmp_path / "secret" / "other.etdp"
    for at, path in enumerate((inside, outside)):
        path.parent.mkdir(parents=True)
        path.write_bytes(dump(run("Execute", execute(0, 60 + at))))
    monkeypatch.chdir(tmp_path / "lab")
    warehouse.ingest(inside)
    warehouse.ingest("../secret/other.etdp")
    warehouse.ingest(outside)
    assert warehouse.rows("SELECT uri FROM captures ORDER BY capture_id")[1] == [("pixel8/run.etdp",), ("other.etdp",)]


NET = CAPTURES / "cond/cond.pte"


def test_a_known_program_adds_nothing_but_the_name(warehouse: Warehouse) -> None:
    first = warehouse.ingest_program(NET)
    assert first.is_new and first.program_id == 1 and str(first) == "cond"
    before = contents(warehouse)
    again = warehouse.ingest_program(str(NET))
    assert not again.is_new and (again.program_id, again.sha256) == (1, first.sha256)
    assert contents(warehouse) == before
    named = warehouse.ingest_program(NET.read_bytes(), name="net")
    assert (named.program_id, named.name, named.is_new) == (1, "net", False)
    assert warehouse.program_size(named).fetchall() == warehouse.program_size("net").fetchall()
    [row] = warehouse.rows("SELECT uri, size_bytes, etq_version FROM programs")[1]
    assert row == (str(NET.relative_to(Path.cwd())), NET.stat().st_size, etq.__version__)
    with pytest.raises(ArgumentError, match="the name 'net' is taken by other content"):
        warehouse.ingest_program(CAPTURES / "mlp/mlp.pte", name="net")


@pytest.mark.long
def test_a_second_file_may_be_of_another_kind() -> None:
    """Events are queried in place or inserted, by the kind of the first file; those of both are there."""
    trace = CAPTURES / "torch/memory_outside.pt.trace.json.gz"
    query = "SELECT e.capture_id, count(*) FROM event_ticks AS e GROUP BY ALL ORDER BY ALL"
    for first, second in ((MLP, trace), (trace, MLP), (MLP, CAPTURES / "convnet/convnet.etdp")):
        alone = [etq.read(path).rows(query)[1][0][1] for path in (first, second)]
        with etq.read(first) as warehouse:
            warehouse.attach_second(second)
            assert warehouse.rows(query)[1] == [*enumerate(alone, 1)]
