"""`etq show`: any table or view, its parameters as arguments and options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import etq
from etq import catalog
from tests.command_line import run_etq
from tests.conftest import CAPTURES

SHOWN = [each for each in catalog.public_objects() if each.kind != "scalar macro"]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("show") / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(CAPTURES / "mlp" / "mlp_100runs.etdp", name="run")
        warehouse.ingest(CAPTURES / "mlp" / "mlp.etdp", name="other")
        warehouse.ingest(CAPTURES / "torch" / "mlp_train.pt.trace.json.gz", name="trace")
    return str(path)


def shown(*arguments: str) -> list[dict[str, Any]]:
    done = run_etq("show", *arguments, "--format", "json")
    assert done.exit_code == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def asked(db: str, query: str) -> list[dict[str, Any]]:
    done = run_etq("sql", query, "--db", db, "--format", "json")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ("captures", "FROM captures"),
        ("labels", "FROM labels"),
        ("op_totals run --by instance --unit ms", "FROM op_totals('run', \"by\" := 'instance', unit := 'ms')"),
        ("percentiles run --quantiles [0.25,0.75]", "FROM percentiles('run', quantiles := [0.25, 0.75])"),
        ("critical_path trace --step-name aten::linear", "FROM critical_path('trace', step_name := 'aten::linear')"),
        (
            "key_averages trace --include-python-functions false",
            "FROM key_averages('trace', include_python_functions := false)",
        ),
        ("compare_captures run other", "FROM compare_captures('run', 'other')"),
    ],
)
def test_it_has_the_rows_of_the_view(db: str, arguments: str, query: str) -> None:
    assert shown(*arguments.split(), "--db", db) == asked(db, query)


def test_files_are_read(tmp_path: Path) -> None:
    file = CAPTURES / "mlp" / "mlp.etdp"
    with etq.open(tmp_path / "lab.duckdb") as warehouse:
        warehouse.ingest(file)
    rows = shown("framework_tax", str(file), "--time-scale", "us")
    assert [row["unit"] for row in rows] == ["us"] * len(rows) != []
    assert len(rows) == len(asked(str(tmp_path / "lab.duckdb"), "FROM framework_tax('mlp')"))


@pytest.mark.parametrize("each", SHOWN, ids=lambda each: each.name)
def test_each_has_a_help_with_its_parameters(each: catalog.SqlObject) -> None:
    done = run_etq("show", each.name, "--help")
    assert done.exit_code == 0
    words = done.stdout.split()
    for parameter in each.parameters:
        option = parameter.name.upper() if parameter.default is None else f"--{parameter.name.replace('_', '-')}"
        assert option in words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("op_total run", "no table, view or macro 'op_total'; the nearest are op_totals"),
        ("_launches run", "no table, view or macro '_launches'"),
        ("schedule 1", "schedule is a function: call it in etq sql, as etq views schedule describes"),
        ("op_totals none", "no capture matches none"),
        ("op_totals run --by colour", "by must be"),
        ("framework_tax run --baseline 12345678", "no capture matches 12345678"),
        ("op_totals run --method 5", "no run is of method '5'"),
    ],
)
def test_wrong_names(db: str, arguments: str, message: str) -> None:
    done = run_etq("show", *arguments.split(), *(["--db", db] if " run" in arguments or " none" in arguments else []))
    assert done.exit_code == 1 and message in done.stderr
