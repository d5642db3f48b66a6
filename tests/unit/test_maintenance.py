"""Maintenance of a warehouse: removing captures, pruning events, reclaiming space."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import duckdb
import pytest

import etq
from etq import catalog
from etq.errors import ArgumentError, QueryError, WarehouseError
from etq.maintenance import compaction, retention
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.conftest import CAPTURES
from tests.sampling import thinned
from tests.unit.test_warehouse import MLP, ONE, TWO, contents

FLEET = sorted((CAPTURES / "fleet").glob("*/*.etdp"))
RECORD = CAPTURES / "mlp/mlp.etrecord"


def names(warehouse: Warehouse) -> list[str]:
    return [name for (name,) in warehouse.rows("SELECT c.name FROM captures AS c ORDER BY c.capture_id")[1]]


@pytest.mark.long
def test_what_is_removed_leaves_nothing(warehouse: Warehouse) -> None:
    """After the last captures are removed, the tables are as before they were added; records stay."""
    warehouse.ingest(MLP, name="first", labels={"a": "b"})
    record = warehouse.ingest_record(RECORD)
    before = contents(warehouse)
    trace = CAPTURES / "torch/transformer_stack.pt.trace.json.gz"
    buffer = CAPTURES / "mlp/mlp_debug.bin"
    warehouse.ingest(trace, name="trace")
    warehouse.ingest(CAPTURES / "mlp/mlp_debug.etdp", name="debug", debug_buffer=buffer, labels={"c": "d"})
    warehouse.ingest(CAPTURES / "mlp/mlp_100runs.etdp", name="linked")
    warehouse.link("linked", record)
    warehouse.metric("linked", "temperature", 40)
    warehouse.remove("trace", "c=d", warehouse.capture("linked"))
    assert contents(warehouse) == before
    with pytest.raises(QueryError, match="no capture matches trace"):
        warehouse.remove("first", "trace")
    assert names(warehouse) == ["first"]
    assert warehouse.ingest(trace).is_new


@pytest.mark.long
def test_prune_keeps_the_last_of_each_group(warehouse: Warehouse) -> None:
    moments = [3, None, 1, 2, None]
    for model in ("mlp", "convnet"):
        for path, day in zip((CAPTURES / "fleet" / model).glob("0[0-4].etdp"), moments, strict=True):
            warehouse.ingest(
                path,
                name=f"{model} {day or 'of none'} {path.stem}",
                labels={"model": model},
                captured_at=None if day is None else datetime(2024, 1, day),
            )
    warehouse.ingest(MLP, name="unlabelled")
    # Those of unknown time were recorded when they were ingested, as far as is known.
    expected = [
        name for model in ("convnet", "mlp") for day in ("1", "2", "3") for name in names(warehouse)
        if name.startswith(f"{model} {day}")
    ]  # fmt: skip
    found = [each.name for each in warehouse.prune(2, ["model"], dry_run=True)]
    assert found == expected and len(names(warehouse)) == 11
    assert [each.name for each in warehouse.prune(2, ["model"], selectors=["model=mlp"])] == expected[3:]
    assert len(names(warehouse)) == 8
    assert [each.name for each in warehouse.prune(2, ["model"])] == expected[:3]
    assert warehouse.prune(2, ["model"]) == []
    assert len(warehouse.prune(0)) == 5 and names(warehouse) == []


@pytest.mark.long
def test_prune_by_a_label(warehouse: Warehouse) -> None:
    """Files without dates, in the order of a shell: b10 before b9."""
    builds = ("b10", "b11", "b8", "b9")
    made = [Labelled(build, path, {"build": build}) for build, path in zip(builds, FLEET[:4], strict=True)]
    ingest_all(warehouse, [*made, ("unlabelled", MLP)])
    found = warehouse.prune(2, selectors=["b8", "b9", "b10", "b11"], dry_run=True)
    assert [each.name for each in found] == ["b10", "b11"]
    assert [each.name for each in warehouse.prune(2, over="build")] == ["b8", "b9"]
    assert names(warehouse) == ["b10", "b11", "unlabelled"]
    with pytest.raises(ArgumentError, match="no capture has a label 'biuld'"):
        warehouse.prune(2, over="biuld")


@pytest.mark.long
def test_pruned_events_are_reported_and_come_back(warehouse: Warehouse) -> None:
    mlp = FLEET[40:52]
    assert {path.parent.name for path in mlp} == {"mlp"}
    captures = warehouse.ingest_many(mlp, link_to=[warehouse.ingest_record(RECORD)])
    for number, capture in enumerate(captures):
        warehouse.label(capture, side="base" if number % 2 else "new")  # type: ignore[arg-type]
    asked = ("op_times", "module_times", "capture_ops", "labels", "signatures", "signature_ops", "runs")
    before = contents(warehouse)
    compared = _compared(warehouse)
    assert len(warehouse.prune(2, keep_rollups=True)) == 10 and warehouse.prune(2, keep_rollups=True) == []
    after = contents(warehouse)
    assert {table: after[table] for table in asked} == {table: before[table] for table in asked}
    assert _compared(warehouse) == compared
    assert warehouse.rows("SELECT DISTINCT t.capture_id FROM event_ticks AS t ORDER BY 1")[1] == [(11,), (12,)]
    for view in ("op_totals", "framework_tax", "advice", "percentiles", "module_totals"):
        with pytest.raises(Exception, match="the events of 00 were pruned; .* ingest its file again"):
            getattr(warehouse, view)("00").fetchall()
    with pytest.raises(QueryError, match="the events of 00 were pruned"):
        etq.report.graph_of(warehouse, "00")
    assert warehouse.event_ops("00").fetchall() and warehouse.metric_values("00").fetchall() == []
    with pytest.raises(WarehouseError, match="rollups can't be computed without them"):
        warehouse.phase("00", "decode", runs="1-")
    # The file brings all back.
    assert [each.is_new for each in warehouse.ingest_many(mlp)] == [False] * 12  # type: ignore[union-attr]
    assert contents(warehouse) == before


def _compared(warehouse: Warehouse) -> list[tuple[object, ...]]:
    """Compares values, except the last digits, which depend on the order of adding."""
    rows = warehouse.rows("FROM compare_ops('side=base', 'side=new')")[1]
    return [tuple(round(value, 9) if isinstance(value, float) else value for value in row) for row in rows]


def test_no_table_of_events_is_forgotten() -> None:
    """Pruning empties all tables with a row for each event, and their costs, and no others."""
    found = {
        table.name
        for table in catalog.tables()
        if table.columns[0].name == "capture_id" and {"event_index"} & {column.name for column in table.columns}
    }
    assert set(retention.EVENT_TABLES) == found | {"call_costs"}


@pytest.mark.long
def test_compacting_gives_space_back(tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest_many(FLEET)
        warehouse.rows("CREATE TABLE mine AS SELECT 1 AS one")
        warehouse.remove(*(str(name) for name in names(warehouse)[:55]))
        before = contents(warehouse)
        sizes = warehouse.compact()
        assert sizes[1] == path.stat().st_size < sizes[0]
        assert contents(warehouse) == before
        assert warehouse.rows("FROM mine")[1] == [(1,)]
        assert warehouse.ingest_many(FLEET[:2])[0].is_new  # type: ignore[union-attr]
    assert [each.name for each in tmp_path.iterdir()] == ["lab.duckdb"]
    with duckdb.connect(str(path), read_only=True) as plain:
        [(text,)] = plain.execute("SELECT comment FROM duckdb_tables() WHERE table_name = 'captures'").fetchall()
        assert text == catalog.objects()["captures"].text
        assert plain.execute("SELECT tags['storage_version'] FROM duckdb_databases()").fetchall()[0] == ("v1.5.0+",)


@pytest.mark.long
def test_compacting_leaves_the_file_where_it_can_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lab.duckdb"
    with pytest.raises(WarehouseError, match="a warehouse in memory can't be compacted"), etq.open() as memory:
        memory.compact()
    with etq.open(path) as warehouse:
        warehouse.ingest(ONE, name="one")
    with etq.open(path, read_only=True) as reader, pytest.raises(WarehouseError, match="can't be compacted"):
        reader.compact()
    in_place = compaction._put_in_place

    def after_another(fresh: Path, old: Path, before: os.stat_result) -> None:
        script = "import etq, sys; etq.open(sys.argv[1]).ingest(sys.argv[2], name='two')"
        (tmp_path / "two.etdp").write_bytes(TWO)
        subprocess.run([sys.executable, "-c", script, str(path), str(tmp_path / "two.etdp")], check=True)
        in_place(fresh, old, before)

    monkeypatch.setattr(compaction, "_put_in_place", after_another)
    with etq.open(path) as warehouse:
        with pytest.raises(WarehouseError, match="another process wrote to it; the file was not changed"):
            warehouse.compact()
        assert names(warehouse) == ["one", "two"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["lab.duckdb", "two.etdp"]


KILLED = """
import os, signal, sys, threading, time
import etq
from etq.maintenance import compaction
def end(*_):
    os.kill(os.getpid(), signal.SIGKILL)
at = sys.argv[2]
in_place = compaction._put_in_place
if at == "written":
    compaction._put_in_place = end
if at == "placed":
    compaction._put_in_place = lambda *given: (in_place(*given), end())
with etq.open(sys.argv[1]) as warehouse:
    if at.isdigit():
        threading.Timer(int(at) / 1000, end).start()
    while True:
        warehouse.compact()
"""


@pytest.mark.long
@pytest.mark.parametrize("at", thinned(["written", "placed", "20", "60", "150"], ["placed"]))
def test_killed_while_compacting_nothing_is_lost(tmp_path: Path, at: str) -> None:
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest_many(FLEET[:20])
        warehouse.remove(*names(warehouse)[:5])
        before = contents(warehouse)
    assert subprocess.run([sys.executable, "-c", KILLED, str(path), at], check=False).returncode == -9
    with etq.open(path) as warehouse:
        assert contents(warehouse) == before
        warehouse.compact()
        assert contents(warehouse) == before
    assert [each.name for each in tmp_path.iterdir()] == ["lab.duckdb"], "what was left is cleared away"


def test_sizes_have_each_table() -> None:
    text = "".join(catalog.objects()[name].statement for name in ("_table_bytes", "capture_sizes"))
    keyed = {table.name for table in catalog.tables() if table.columns[0].name == "capture_id"}
    assert {
        name for name in keyed if f"pragma_storage_info('{name}')" not in text or f"FROM {name} AS t" not in text
    } == set()
