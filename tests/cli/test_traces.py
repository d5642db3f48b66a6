"""PyTorch traces on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import etq
from tests.cli.test_cli import etq_says
from tests.conftest import CAPTURES

TRACES = CAPTURES / "torch"


def test_a_folder_of_workers(tmp_path: Path) -> None:
    folder = tmp_path / "log" / "deep"
    folder.mkdir(parents=True)
    shutil.copy(TRACES / "steps_7.pt.trace.json.gz", folder / "host_41.1790857026000000000.pt.trace.json.gz")
    shutil.copy(TRACES / "steps_12.pt.trace.json.gz", folder / "host_42.1790857026000000001.pt.trace.json.gz")
    (folder / "notes.txt").write_text("nothing")
    shutil.copy(CAPTURES / "mlp" / "mlp.etdp", tmp_path / "log")
    db = str(tmp_path / "lab.duckdb")
    result = etq_says("ingest", str(tmp_path / "log"), "--label", "model=toy", "--db", db)
    assert result.exit_code == 0
    assert sorted(result.stderr.splitlines()) == [
        "host_41.1790857026000000000: ingested", "host_42.1790857026000000001: ingested", "mlp: ingested",
    ]  # fmt: skip
    with etq.open(db, read_only=True) as warehouse:
        labels = warehouse.sql("SELECT value FROM labels WHERE key = 'worker' ORDER BY value").fetchall()
        assert labels == [("host_41",), ("host_42",)]
        assert warehouse.key_averages("worker=host_42").filter("name = 'ProfilerStep*'").project(
            "calls"
        ).fetchall() == [(3,)]


def test_a_folder_without_any(tmp_path: Path) -> None:
    result = etq_says("ingest", str(tmp_path), "--db", str(tmp_path / "lab.duckdb"))
    assert result.exit_code == 1 and "a folder without profiling files" in result.stderr


def test_inspect_knows_traces() -> None:
    rows = json.loads(etq_says("inspect", str(TRACES / "steps_12.pt.trace.json.gz"), "--format", "json").stdout)
    steps = [row for row in rows if row["event_name"].startswith("ProfilerStep#")]
    # In the file: "dur": 165.247, in microseconds.
    assert steps[0]["event_name"] == "ProfilerStep#9" and steps[0]["p50"] == 0.165247
