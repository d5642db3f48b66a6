"""Advice is stored, and follows what it rests on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

import etq
from etq.advice.trace_evidence import Evidence
from etq.maintenance.checking import check
from etq.maintenance.merge import merge
from etq.warehouse.warehouse import Warehouse
from tests.trace_builders import event, trace

PEAKS = {"peak_flops": 1e12, "peak_bandwidth": 1e11}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A sum of 4 MB to 4 MB each by a kernel of 1,000 us on a device without a name: 12.6 MB take 126 us at 100 GB/s."""
    op = event("cpu_op", "aten::add", 0, 10, external=1, shapes=[[1 << 20], [1 << 20], []])
    op["args"]["Input type"] = ["float", "float", "Scalar"]
    path = tmp_path / "t.json"
    launch = event("cuda_runtime", "cudaLaunchKernel", 2, 8, external=1, correlation=1)
    path.write_bytes(
        trace(op, launch, event("kernel", "k", 20, 1020, 7, external=1, correlation=1, device=0, stream=7))
    )
    return path


def advice(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    return warehouse.rows("SELECT rule, finding FROM all_advice ORDER BY ALL")[1]


@pytest.mark.long
def test_advice_follows_peaks(file: Path, tmp_path: Path) -> None:
    with etq.open(tmp_path / "without.duckdb") as warehouse:
        warehouse.ingest(file)
        before = advice(warehouse)
    written = json.dumps(PEAKS).encode()
    with etq.open(tmp_path / "with.duckdb") as warehouse:
        warehouse.ingest(file, metrics=[written])
        rated = advice(warehouse)
    assert {rule for rule, _ in before} < {rule for rule, _ in rated}
    merge([tmp_path / "without.duckdb", tmp_path / "with.duckdb"], tmp_path / "both.duckdb")
    with etq.open(tmp_path / "both.duckdb") as warehouse:
        assert advice(warehouse) == rated
    with etq.open(tmp_path / "without.duckdb") as warehouse:
        for name, value in PEAKS.items():
            warehouse.metric("t", name, value)
        assert advice(warehouse) == rated
        for name in PEAKS:
            warehouse.metric("t", name, None)
        assert advice(warehouse) == before
        warehouse.ingest_metrics("t", written)
        assert advice(warehouse) == rated


@pytest.fixture
def ranks(tmp_path: Path) -> list[Path]:
    """Rank 1 comes 300 us late to a collective that then takes 50."""
    message = {
        "Collective name": "allreduce", "Process Group Name": "0", "Process Group Description": "default_pg",
        "Group size": 2, "dtype": "Float", "In msg nelems": 64, "Out msg nelems": 64,
    }  # fmt: skip
    paths = [tmp_path / f"r{rank}.json" for rank in (0, 1)]
    for rank, start in ((0, 100), (1, 400)):
        call = event("cuda_runtime", "cudaLaunchKernel", start - 10, start - 5, correlation=1)
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        ring = event("kernel", name, start, 450, 7, correlation=1, device=rank, stream=7)
        ring["args"] |= message
        step = event("user_annotation", "ProfilerStep#1", 50, 460)
        info = {"rank": rank, "world_size": 2, "backend": "nccl"}
        paths[rank].write_bytes(trace(step, call, ring, distributedInfo=info))
    return paths


@pytest.mark.long
def test_advice_follows_labels_of_a_merged_warehouse(ranks: list[Path], tmp_path: Path) -> None:
    """One warehouse knows no ranks."""
    for name, job in (("with", "j"), ("without", None)):
        with etq.open(tmp_path / f"{name}.duckdb") as warehouse:
            for path in ranks:
                warehouse.ingest(path)
                warehouse.label(path.stem, job=job)
    with etq.open(tmp_path / "with.duckdb") as warehouse:
        known = advice(warehouse)
    with etq.open(tmp_path / "without.duckdb") as warehouse:
        assert ("late rank" in dict(known)) > ("late rank" in dict(advice(warehouse)))
    merge([tmp_path / "without.duckdb", tmp_path / "with.duckdb"], tmp_path / "both.duckdb")
    with etq.open(tmp_path / "both.duckdb") as warehouse:
        assert advice(warehouse) == known


@pytest.mark.long
def test_what_ranks_wait_for_is_asked_once(ranks: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not by each rank for all, which is the square of their number."""
    asked: list[str] = []
    rows = Evidence.rows

    def counted(evidence: Evidence, make: Any, query: str, **values: str) -> Any:
        asked.extend(["waits"] if "_waits_for_ranks" in query else [])
        return rows(evidence, make, query, **values)

    monkeypatch.setattr(Evidence, "rows", counted)
    with etq.open(tmp_path / "x.duckdb") as warehouse:
        warehouse.ingest_many(ranks, labels={"job": "j"})
        assert "late rank" in dict(advice(warehouse)) and asked == ["waits"]


@pytest.mark.long
def test_advice_follows_events_that_are_pruned(ranks: list[Path], tmp_path: Path) -> None:
    """What rank 0 waited for is no longer there, and would not be if all was computed again."""
    path = tmp_path / "x.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest_many(ranks, labels={"job": "j"})
        query = "SELECT finding FROM advice('r0') WHERE rule = 'communication'"
        assert "rank 1 comes last" in warehouse.rows(query)[1][0][0]
        warehouse.prune(0, selectors=["r1"], keep_rollups=True)
        assert "one rank does not show" in warehouse.rows(query)[1][0][0]
    assert [part.problems for part in check(path)] == [()] * 6


def test_advice_about_a_file_that_is_read_is_never_empty_by_mistake(file: Path) -> None:
    """It is computed when etq is asked; DuckDB alone can't, and says so."""
    with etq.read(file) as read:
        for query in ("FROM advice(1)", "SELECT count(*) FROM advice(1)"):
            with pytest.raises(duckdb.Error, match="computed when etq is asked for it"):
                read.connection.execute(query).fetchall()
        # Names that only resemble those that need it: to compute it takes longer than most queries.
        read.rows("SELECT 1 AS all_runs FROM device_idle_causes(1)")
        assert read.connection.execute("SELECT place, rule FROM all_advice").fetchall() == [(0, "not computed")]
        asked = read.rows("SELECT rule FROM advice(1)")[1]
        assert asked and read.connection.execute("SELECT rule FROM advice(1)").fetchall() == asked
