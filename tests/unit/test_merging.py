"""Making one warehouse of several: the same rows as if all had been ingested into one."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

import etq
from etq.database.publishing import publish_new
from etq.errors import EtqError, WarehouseError
from etq.maintenance.merge import Merged, merge
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.unit.test_warehouse import ONE, TWO, contents

MLP, CONVNET = CAPTURES / "mlp", CAPTURES / "convnet"
FIRST = [MLP / "mlp.etdp", MLP / "mlp_100runs.etdp", CONVNET / "convnet_debug.etdp"]
SECOND = [
    CONVNET / "convnet.etdp",
    MLP / "mlp_100runs.etdp",
    CAPTURES / "torch/transformer_stack.pt.trace.json.gz",
    MLP / "mlp_alloc.etdp",
]


def fill(warehouse: Warehouse, files: list[Path]) -> None:
    """Ingest files and link each to its program and record, if there are any."""
    for path in files:
        capture = warehouse.ingest(path, labels={"model": path.parent.name}, captured_at=datetime(2026, 1, 2))
        stem = path.parent / path.parent.name
        if (pte := stem.with_suffix(".pte")).exists():
            warehouse.link(capture, warehouse.ingest_program(pte))
        if (record := stem.with_suffix(".etrecord")).exists():
            warehouse.link(capture, warehouse.ingest_record(record))
        if not warehouse.rows("SELECT 1 FROM metrics AS m WHERE m.capture_id = $key", key=capture.capture_id)[1]:
            warehouse.metric(capture, "temperature", 40)


@pytest.mark.long
def test_merging_is_ingesting_all_into_one(tmp_path: Path) -> None:
    for name, files in (("a", FIRST), ("b", SECOND), ("all", [*FIRST, *SECOND])):
        with etq.open(tmp_path / f"{name}.duckdb") as warehouse:
            fill(warehouse, files)
    before = [(tmp_path / f"{name}.duckdb").read_bytes() for name in "ab"]
    merged = etq.merge([tmp_path / "a.duckdb", tmp_path / "b.duckdb"], tmp_path / "c.duckdb")
    assert merged == Merged(6, 1, ())
    assert [(tmp_path / f"{name}.duckdb").read_bytes() for name in "ab"] == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.duckdb", "all.duckdb", "b.duckdb", "c.duckdb"]
    with etq.open(tmp_path / "c.duckdb") as made, etq.open(tmp_path / "all.duckdb") as expected:
        assert repr(contents(made)) == repr(contents(expected))
        assert made.op_totals("mlp").fetchall() == expected.op_totals("mlp").fetchall()
        assert made.ingest(ONE).capture_id == 7


@pytest.mark.long
def test_annotations_of_both_are_united(tmp_path: Path) -> None:
    with etq.open(tmp_path / "a.duckdb") as first:
        first.ingest(ONE, name="run", labels={"device": "a", "build": "1"})
        first.metric("run", "temperature", 40)
        first.phase("run", "prefill", runs="0")
    with etq.open(tmp_path / "b.duckdb") as second:
        second.ingest(TWO, name="else", labels={"device": "c"})
        second.ingest(
            ONE, name="one", labels={"device": "b", "model": "m"}, time_scale="us", captured_at=datetime(2026, 1, 2)
        )
        second.metric("one", "temperature", 50)
        second.metric("one", "battery", 80, "%")
        second.ingest_metrics("one", b'{"load": 3}')
        second.phase("one", "decode", runs="0")
    merged = merge([tmp_path / "a.duckdb", tmp_path / "b.duckdb"], tmp_path / "c.duckdb")
    path = tmp_path / "b.duckdb"
    assert merged == Merged(
        2,
        1,
        (
            f"{path}: run: label device: a stays, not b",
            f"{path}: run: metric temperature: 40.0 stays, not 50.0",
            f"{path}: run: phases: those of the first stay, and differ for 1 runs",
            f"{path}: run: time_scale: ns stays, not us",
        ),
    )
    with etq.open(tmp_path / "c.duckdb", read_only=True) as made:
        assert made.rows("SELECT s.name, s.labels, s.captured_at FROM capture_summary AS s")[1] == [
            ("run", "build=1, device=a, model=m", datetime(2026, 1, 2)),
            ("else", "device=c", None),
        ]
        assert made.rows("SELECT m.capture_id, m.name, m.value FROM metrics AS m ORDER BY 1, 2")[1] == [
            (1, "battery", 80.0), (1, "load", 3.0), (1, "temperature", 40.0),
        ]  # fmt: skip
        assert made.rows("SELECT r.phase FROM runs AS r ORDER BY r.capture_id")[1] == [("prefill",), (None,)]


@pytest.mark.long
def test_merging_takes_links_and_phases_of_the_second(tmp_path: Path) -> None:
    run = MLP / "mlp_100runs.etdp"
    with etq.open(tmp_path / "a.duckdb") as first:
        first.ingest_record(CONVNET / "convnet.etrecord")
        first.ingest(run)
    for name in ("b", "all"):
        with etq.open(tmp_path / f"{name}.duckdb") as warehouse:
            if name == "all":
                warehouse.ingest_record(CONVNET / "convnet.etrecord")
            warehouse.ingest(run)
            warehouse.link("mlp_100runs", warehouse.ingest_record(MLP / "mlp.etrecord"))
            warehouse.phase("mlp_100runs", "decode", runs="50-")
    assert merge([tmp_path / "a.duckdb", tmp_path / "b.duckdb"], tmp_path / "c.duckdb") == Merged(1, 1, ())
    with etq.open(tmp_path / "c.duckdb") as made, etq.open(tmp_path / "all.duckdb") as expected:
        assert contents(made) == contents(expected)


@pytest.mark.long
def test_what_can_not_be_merged_is_refused(tmp_path: Path) -> None:
    good, old, output = tmp_path / "good.duckdb", tmp_path / "old.duckdb", tmp_path / "c.duckdb"
    etq.open(good).close()
    with etq.open(old) as warehouse:
        warehouse.connection.execute("UPDATE warehouse SET schema_version = 0")
    refused: list[tuple[list[Path], Path, str]] = [
        ([good, old], output, "old.duckdb: has tables of version 0, and this etq reads version 1"),
        ([good, tmp_path / "none.duckdb"], output, "none.duckdb: no such file; make a warehouse"),
        ([good], old, "old.duckdb: exists; a merge makes a new warehouse"),
        ([good], tmp_path / "no/c.duckdb", "no/c.duckdb: its folder does not exist; create it first"),
    ]
    for paths, to, text in refused:
        with pytest.raises(EtqError, match=text):
            merge(paths, to)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good.duckdb", "old.duckdb"]
    with etq.open(good), pytest.raises(WarehouseError):
        merge([good], output)
    assert not output.exists()


@pytest.mark.long
def test_a_file_that_is_made_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "lab.duckdb", tmp_path / "all.duckdb"
    with etq.open(source) as warehouse:
        warehouse.ingest(ONE, name="one")

    def after_another(written: Path, place: Path) -> None:
        with etq.open(target) as warehouse:
            warehouse.ingest(TWO, name="two")
        publish_new(written, place)

    monkeypatch.setattr("etq.maintenance.merge.publish_new", after_another)
    with pytest.raises(WarehouseError, match="all.duckdb: made by another process meanwhile; it was not changed"):
        merge([source], target)
    with etq.open(target, read_only=True) as warehouse:
        assert warehouse.rows("SELECT c.name FROM captures AS c")[1] == [("two",)]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["all.duckdb", "lab.duckdb"]
