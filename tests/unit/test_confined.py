"""Queries that end their process: who asks gets an error in one line, and nothing else ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import etq
from etq import agents, confined
from etq.errors import QueryError
from tests.conftest import CAPTURES

# Queries by what they do to DuckDB 2.0: see docs/operations.md.
CRASHES = "SELECT json_contains(repeat('[', 200000) || repeat(']', 200000), '1')"
ENDLESS = "SELECT parse_path(repeat('/', 10000000))"
LARGE = "SELECT length(repeat('x', 4000000000))"
INVALIDATES = "SELECT reservoir_quantile(i, 0.5, 2000000000) FROM range(10) AS t(i)"
ERRORS = {
    CRASHES: "the query ended its process", ENDLESS: "took longer than 2 s", LARGE: "memory", INVALIDATES: "emory",
}  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("confined") / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(CAPTURES / "mlp" / "mlp.etdp", name="run")
    return path


@pytest.mark.long
@pytest.mark.parametrize("query", ERRORS)
def test_a_command_ends_with_an_error_in_one_line(path: Path, query: str) -> None:
    seconds = "2" if query == ENDLESS else "60"
    command = [sys.executable, "-m", "etq", "sql", "--safe", query, "--db", str(path), "--seconds", seconds]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1), ended.stderr
    assert ERRORS[query] in ended.stderr


@pytest.mark.long
def test_an_agent_gets_an_error_and_then_answers(path: Path) -> None:
    pytest.importorskip("mcp", reason="the SDK isn't installed: pip install --group mcp-test")
    for query in (CRASHES, LARGE, INVALIDATES):
        assert agents.confined_answer(str(path), "query", {"sql": query}).error is not None, query
    answer = agents.confined_answer(str(path), "query", {"sql": "SELECT name FROM captures"})
    assert answer.error is None and json.loads(bytes(answer.result)) == {"columns": ["name"], "rows": [["run"]]}


def test_a_process_that_outlives_its_limit_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined, "_BESIDE", 0)
    with pytest.raises(QueryError, match=r"took longer than 0\.01 s"):
        confined.ask("this", [], "", seconds=0.01, megabytes=64)
