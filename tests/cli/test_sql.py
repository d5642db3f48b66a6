"""`etq sql QUERY FILE...`: questions about files of which nothing is stored."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.command_line import run_etq
from tests.conftest import CAPTURES

FLEET = CAPTURES / "fleet/mlp"


@pytest.mark.long
def test_files_are_captures_of_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    by_pattern = run_etq("sql", "SELECT name FROM captures", f"{FLEET}/0[0-2].etdp", "--format", "csv")
    assert (by_pattern.output, by_pattern.exit_code) == ("name\n00\n01\n02\n", 0)
    question = "SELECT sum(calls)::BIGINT AS calls FROM op_totals('mlp_100runs')"
    file = str(CAPTURES / "mlp/mlp_100runs.etdp")
    assert run_etq("ingest", file, "--db", "lab.duckdb").exit_code == 0
    stored = run_etq("sql", question, "--db", "lab.duckdb", "--format", "csv").output
    assert run_etq("sql", question, file, "--format", "csv").output == stored
    assert run_etq("sql", "--safe", question, file, "--format", "csv").output == stored
    assert [each.name for each in tmp_path.iterdir()] == ["lab.duckdb"]


def test_what_a_query_of_files_can_not(tmp_path: Path) -> None:
    file = str(CAPTURES / "mlp/mlp_100runs.etdp")
    other = tmp_path / "other.csv"
    other.write_text("x\n1\n")
    refused = run_etq("sql", f"FROM '{other}'", file)
    assert refused.exit_code == 1 and "allow it with --external-access" in refused.output
    assert "1" in run_etq("sql", f"FROM '{other}'", file, "--external-access", "--format", "csv").output
    unquoted = run_etq("sql", "FROM op_totals(mlp_100runs)", file)
    assert "mlp_100runs is a capture: write its name in single quotes, 'mlp_100runs'" in unquoted.output
    both = run_etq("sql", "FROM captures", file, "--db", "lab.duckdb")
    assert both.exit_code == 2 and "FILE can't be used with --db or --lake" in both.output


@pytest.mark.parametrize("query", ["SELECT 'é' AS x; -- ü", "SELECT '≥≥≥' AS x;", "SELECT 'é;' AS x -- ; é\n;;"])
def test_queries_with_letters_of_several_bytes(query: str) -> None:
    """As a subquery, without the semicolon and the comment."""
    text = re.findall("'(.*?)'", query)[0]
    capture = str(CAPTURES / "mlp/mlp.etdp")
    assert run_etq("sql", query, capture, "--columns", "x", "--format", "csv").stdout == f"x\n{text}\n"
