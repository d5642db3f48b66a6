"""The dbt project of the documentation runs on a warehouse, and its models have the rows of etq's views."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import median

import duckdb
import pytest

import etq
from tests.conftest import CAPTURES
from tests.docs.pages import ROOT

DBT = os.environ.get("ETQ_DBT")
FLEET = sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))[:6]


@pytest.mark.long
@pytest.mark.skipif(DBT is None, reason="$ETQ_DBT names no dbt with the adapter dbt-duckdb")
def test_models(tmp_path: Path) -> None:
    assert DBT is not None
    project, lab = ROOT / "docs/dbt", tmp_path / "lab.duckdb"
    builds = {str(number): FLEET[2 * number : 2 * number + 2] for number in range(3)}
    with etq.open(lab) as warehouse:
        for build, paths in builds.items():
            warehouse.ingest_many(paths, labels={"model": "mlp", "device": "watch", "build": build})
        names = warehouse.rows(
            "SELECT l.value, c.name FROM captures AS c JOIN labels AS l USING (capture_id) WHERE l.key = 'build'"
        )[1]
        executes, ops = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
        for build, name in names:
            [(value,)] = warehouse.rows("SELECT value FROM headline($name) WHERE number = 'execute'", name=name)[1]
            executes[build].append(value)
            [(value,)] = warehouse.rows("SELECT per_execute FROM op_totals($name) WHERE op = 'addmm'", name=name)[1]
            ops[build].append(value)
    times = [median(executes[build]) for build in sorted(builds)]
    command = [
        DBT, "build", "--project-dir", str(project), "--profiles-dir", str(project), "--target-path",
        str(tmp_path / "target"), "--log-path", str(tmp_path / "logs"),
    ]  # fmt: skip
    mart = tmp_path / "mart.duckdb"
    ran = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "ETQ_WAREHOUSE": str(lab), "DBT_MART": str(mart)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    with duckdb.connect(mart, read_only=True) as stock:
        assert stock.sql("SELECT count(*) FROM builds").fetchall() == [(6,)]
        found = stock.sql("SELECT execute, change_percent FROM execute_times ORDER BY build").fetchall()
        assert [value for value, _ in found] == times
        changes = [100 * (new / base - 1) for base, new in pairwise(times)]
        assert [change for *_, change in found] == [None, *map(pytest.approx, changes)]
        query = "SELECT per_execute FROM op_times WHERE op = 'addmm' ORDER BY build"
        assert [value for (value,) in stock.sql(query).fetchall()] == [median(ops[build]) for build in sorted(builds)]
