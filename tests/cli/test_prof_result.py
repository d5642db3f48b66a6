"""The command line on a `prof_result.bin`, which is recognised without an option."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.asserts import csv_rows
from tests.command_line import run_etq
from tests.conftest import CAPTURES

BLOB = str(CAPTURES / "prof_result/iterations.prof_result.bin")


def test_inspect() -> None:
    result = run_etq("inspect", BLOB, "--format", "csv")
    assert (result.exit_code, result.stderr) == (0, "")
    rows = csv_rows(result.stdout)
    assert [(row["event_block_name"], row["event_name"]) for row in rows] == [
        ("run_model_loop", "Method::execute"),
        *[("run_model_loop", f"native_call_{op}.out") for op in ("conv", "relu", "add", "linear")],
    ]
    assert (rows[0]["min"], rows[0]["max"], rows[0]["unit"]) == ("1.449929", "2.340869", "ms")


def test_tax() -> None:
    result = run_etq("tax", BLOB, "--format", "json", "--unit", "ns")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [(row["execute"], row["kernels"]) for row in json.loads(result.stdout)] == [
        (2340869, 2340000),
        (2017902, 2017000),
        (1449929, 1449000),
        (1582896, 1582000),
        (1563928, 1563000),
    ]


def test_memory() -> None:
    result = run_etq("memory", BLOB, "--format", "csv")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1:] == ["planned_memory,5,5,5120,1024,1024", "method_allocator,5,10,480,64,96"]


def test_what_differs_is_noted() -> None:
    result = run_etq("inspect", str(CAPTURES / "prof_result/bad_lengths.prof_result.bin"))
    assert result.exit_code == 0
    assert result.stderr == (
        "Note: iterations of other lengths: block 'b', iteration 1: 3 entries, 5 in the iteration before; "
        "entry 3 is in one of them only\n"
    )


@pytest.mark.parametrize("command", ["inspect", "tax", "memory"])
def test_what_cannot_be_read_is_one_line(command: str) -> None:
    bad = str(CAPTURES / "prof_result/bad_version.prof_result.bin")
    result = run_etq(command, bad)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"Error: {bad}: at byte 32: a prof_result of version 2; expected version 1\n"


def test_ingested_it_has_the_name_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("prof_result.bin").write_bytes((CAPTURES / "prof_result/one_block.prof_result.bin").read_bytes())
    result = run_etq("ingest", BLOB, "prof_result.bin", "--db", "lab.duckdb")
    assert (result.exit_code, result.stderr) == (0, "iterations: ingested\nprof_result: ingested\n")
    listed = json.loads(run_etq("captures", "--db", "lab.duckdb", "--format", "json").stdout)
    assert [(row["name"], row["format"], row["runs"], row["events"]) for row in listed] == [
        ("iterations", "prof_result", 5, 25),
        ("prof_result", "prof_result", 1, 5),
    ]
    asked = run_etq(
        "sql", "SELECT tax_percent FROM prof_result_tax('iterations')", "--db", "lab.duckdb", "--format", "csv"
    )
    assert asked.stdout.split() == ["tax_percent", "0.04", "0.04", "0.06", "0.06", "0.06"]


def test_a_file_that_is_not_there() -> None:
    result = run_etq("tax", "nothing.prof_result.bin", "--db", "nowhere.duckdb")
    assert result.stderr == "Error: nothing.prof_result.bin: no such file\n"


def test_another_width_of_its_clock(tmp_path: Path) -> None:
    """The options of files apply to it, too."""
    db = str(tmp_path / "lab.duckdb")
    result = run_etq("ingest", BLOB, "--db", db, "--clock-bits", "32", "--time-scale", "cycles")
    assert result.exit_code == 0
    asked = run_etq("sql", "SELECT clock_bits, time_scale FROM captures", "--db", db, "--format", "csv")
    assert asked.stdout.split() == ["clock_bits,time_scale", "32,cycles"]
