"""`etq program` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import etq
from tests.asserts import csv_rows
from tests.command_line import run_etq
from tests.conftest import CAPTURES

NET = CAPTURES / "multimethod/multimethod.pte"


@pytest.mark.long
def test_a_program_stored_and_one_read_are_alike(tmp_path: Path) -> None:
    db = str(tmp_path / "lab.duckdb")
    with etq.open(db) as warehouse:
        warehouse.ingest_program(NET, name="net")
    for options in ([], ["--memory"], ["--memory", "--method", "encode"]):
        stored = run_etq("program", "net", *options, "--db", db, "--format", "csv")
        read = run_etq("program", str(NET), *options, "--format", "csv")
        assert stored.exit_code == read.exit_code == 0, stored.stderr + read.stderr
        assert stored.stdout == read.stdout


def test_printed_output() -> None:
    rows = json.loads(run_etq("program", str(NET), "--format", "json").stdout)
    assert [row["part"] for row in rows] == ["program", "constants", "padding"]
    assert sum(row["bytes"] for row in rows) == 9760
    lines = csv_rows(run_etq("program", str(NET), "--memory", "--format", "csv").stdout)
    assert {row["method"]: row["planned_bytes"] for row in lines} == {"decode": "2432", "encode": "2432"}


def test_errors_are_reported_in_one_line(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.duckdb")
    for arguments, message in (
        ([str(CAPTURES / "mlp/mlp.etdp")], "this is an ETDump, not a program; give the .pte that was run"),
        (["nowhere.pte", "--db", missing], "Error: nowhere.pte: no such file\n"),
        (["net", "--db", missing], "no such file; make a warehouse"),
        ([str(NET), "--memory", "--method", "x"], "Error: unknown method x; there are decode, encode\n"),
    ):
        result = run_etq("program", *arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert message in result.stderr and result.stderr.count("\n") == 1
    assert run_etq("program", str(NET), "--method", "encode").exit_code == 2
