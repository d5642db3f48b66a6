"""Options of all commands that print tables: --limit, --sort-by, --columns, -o; statements of files and stdin; time zones."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import etq
from etq import cli
from tests.asserts import csv_rows
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.sampling import thinned

MLP = str(CAPTURES / "mlp/mlp.etdp")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("tables") / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(MLP, name="run", labels={"device": "pixel8"})
        warehouse.ingest(CAPTURES / "mlp/mlp_method_only.etdp", name="untraced")
    return str(path)


def test_every_table_command_takes_them() -> None:
    for name in cli.main.list_commands(click.Context(cli.main)):
        command = cli.main.get_command(click.Context(cli.main), name)
        assert command is not None
        options = {option for parameter in command.params for option in parameter.opts}
        # Flame charts, graphs and the result of a benchmark are not tables.
        if "--format" in options and name not in ("flame", "export", "graph", "bench"):
            assert {"--limit", "--sort-by", "--columns", "--wide"} <= options, name


COMMANDS = ["ops run", "events run", "breakdown run", "captures", "views", "sql FROM\\ runs", "inspect FILE"]


@pytest.mark.parametrize("command", thinned(COMMANDS, COMMANDS[2:6]))
def test_limit(command: str, lab: str) -> None:
    words = [word.replace("\\", "") for word in command.replace("\\ ", "\0").split(" ")]
    words = [word.replace("\0", " ").replace("FILE", MLP) for word in words]
    db = [] if words[0] in ("inspect", "views") else ["--db", lab]
    whole = csv_rows(run_etq(*words, *db, "--format", "csv").stdout)
    for form in ("csv", "json", "table"):
        result = run_etq(*words, *db, "--format", form, "--limit", "2")
        assert result.exit_code == 0, result.stderr
        if form == "csv":
            assert csv_rows(result.stdout) == whole[:2] and len(whole) > 1
        if form == "json":
            assert len(json.loads(result.stdout)) == 2
    assert csv_rows(run_etq(*words, *db, "--format", "csv").stdout) == whole, "of the command alone"


def test_a_command_line_that_is_read_and_not_run_limits_no_other(lab: str) -> None:
    captures = cli.main.get_command(click.Context(cli.main), "captures")
    assert captures is not None
    captures.make_context("captures", ["--limit", "1", "--sort-by", "name", "--db", lab])
    assert [row["name"] for row in csv_rows(run_etq("captures", "--format", "csv", "--db", lab).stdout)] == [
        "run",
        "untraced",
    ]


def test_sort_by(lab: str) -> None:
    rows = csv_rows(run_etq("events", "run", "--sort-by", "p50", "--format", "csv", "--db", lab).stdout)
    values = [float(row["p50"]) for row in rows]
    assert values == sorted(values, reverse=True)
    rows = csv_rows(run_etq("views", "--sort-by", "kind", "--format", "csv").stdout)
    assert [row["kind"] for row in rows] == sorted(row["kind"] for row in rows)
    wrong = run_etq("events", "run", "--sort-by", "p51", "--db", lab)
    assert wrong.stderr.startswith("Error: no column 'p51' to sort by; the nearest are p50, p10; known are ")
    both = run_etq("compare", "run", "untraced", "--sort-by", "op", "--db", lab)
    assert (both.exit_code, "--sort-by goes with --what" in both.stderr) == (2, True)


def test_columns_are_named_as_tables_show_them(lab: str) -> None:
    shown = run_etq("ops", "run", "--columns", "op,per_call,share %", "--format", "csv", "--db", lab).stdout
    named = run_etq("ops", "run", "--columns", "op,avg,share_percent", "--format", "csv", "--db", lab).stdout
    assert shown == named.replace("op,avg,", "op,per_call,")
    by_head = run_etq("ops", "run", "--sort-by", "share %", "--db", lab).stdout
    assert by_head == run_etq("ops", "run", "--sort-by", "share_percent", "--db", lab).stdout
    assert run_etq("ops", "run", "--sort-by", "per_call", "--db", lab).stdout.splitlines()[2:]


@pytest.mark.parametrize("command", ["ops run", "captures", "flame run", "compare run untraced"])
def test_an_unknown_ending_is_refused(command: str, lab: str, tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    result = run_etq(*command.split(), "-o", str(path), "--db", lab)
    assert (result.exit_code, path.exists()) == (1, False)
    assert f"Error: {path}: no format has the ending .xlsx; use .csv, " in result.stderr
    assert run_etq("captures", "-o", str(path), "--format", "csv", "--db", lab).exit_code == 0
    assert run_etq("captures", "-o", str(tmp_path / "x.txt"), "--db", lab).exit_code == 0


def test_sql_of_stdin_and_of_a_file(lab: str, tmp_path: Path) -> None:
    script = "SELECT 1 AS one; -- a comment; with a semicolon\nCREATE TEMP TABLE t AS SELECT 'a;b' AS two;\nFROM t;"
    expected = "one\n1\n\nCount\n1\n\ntwo\na;b\n"
    file = tmp_path / "questions.sql"
    file.write_text(script)
    for arguments, text in (((), script), (("-",), script), (("-f", str(file)), ""), ((script,), "")):
        result = run_etq("sql", *arguments, "--format", "csv", "--db", lab, input=text)
        assert (result.stdout, result.exit_code) == (expected, 0), result.stderr
    assert run_etq("sql", "--db", lab, input="").stdout == ""
    refused = run_etq("sql", "-f", str(file), "--format", "parquet", "--db", lab)
    assert refused.stderr == "Error: parquet holds the result of one statement, and there are 3; take them apart\n"
    missing = run_etq("sql", "-f", str(tmp_path / "none.sql"), "--db", lab)
    assert missing.stderr == f"Error: {tmp_path}/none.sql: no such file\n"
    assert run_etq("sql", script, "-f", str(file), "--db", lab).exit_code == 2
    assert run_etq("sql", "SELECT 1; SELEKT 2", "--db", lab).stderr.startswith("Error: syntax error")


def test_a_long_list_is_shortened_for_people_alone(lab: str) -> None:
    query = "SELECT range(12) AS some, range(40) AS many, [1.5, 2e6] AS floats"
    first, _, line = run_etq("sql", query, "--db", lab).stdout.splitlines()
    assert first.split() == ["some", "many", "floats"]
    assert line.split("  ") == [
        "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]",
        "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... 30 more]",
        "[1.5, 2000000]",
    ]
    [row] = json.loads(run_etq("sql", query, "--db", lab, "--format", "json").stdout)
    assert row["many"] == [*range(40)]
    assert "38,39]" in run_etq("sql", query, "--db", lab, "--format", "csv").stdout


@pytest.mark.parametrize("form", ["table", "json", "markdown"])
def test_times_with_a_zone(form: str, lab: str) -> None:
    query = (
        "SELECT t, NULL::TIMESTAMPTZ AS n, 1 AS one FROM (VALUES (TIMESTAMPTZ '2026-05-01 14:00:00+02')) AS v (t);-- x"
    )
    result = run_etq("sql", f"SET TimeZone = 'UTC'; {query}", "--format", form, "--db", lab)
    assert result.exit_code == 0, result.stderr
    assert "2026-05-01" in result.stdout and "12:00:00+00:00" in result.stdout
    infinite = run_etq(
        "sql", "SELECT TIMESTAMPTZ 'infinity' AS t, [TIMESTAMPTZ '2026-05-01 14:00:00+02'] AS l", "--db", lab
    )
    assert "infinity" in infinite.stdout and "2026-05-01" in infinite.stdout


@pytest.mark.parametrize("closed", thinned(["<&-", ">&-", "2>&-", "<&- >&- 2>&-"], ["<&- >&- 2>&-"]))
def test_closed_streams(closed: str, lab: str) -> None:
    """The warehouse must not get the file descriptor of a stream to which the command writes."""
    command = f"exec {sys.executable} -m etq ops run --db {lab} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert bool(done.stdout) == (">&-" not in closed.replace("2>&-", ""))
    with etq.open(lab, read_only=True) as warehouse:
        assert len(warehouse.captures().fetchall()) == 2


def test_the_end_of_input_is_a_no(lab: str) -> None:
    """Ctrl-D at a prompt: nothing is removed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "etq", "remove", "run", "--db", lab]
    with subprocess.Popen(command, stdin=theirs, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "Remove 1 capture (run)?" in process.stderr.read(30)
        os.write(ours, b"\x04")
        message = process.stderr.read()
    os.close(ours)
    os.close(theirs)
    assert (process.returncode, "Traceback" in message) == (1, False)
    with etq.open(lab, read_only=True) as warehouse:
        assert len(warehouse.captures().fetchall()) == 2


@pytest.mark.parametrize("form", ["csv", "json", "markdown", "table"])
def test_columns_are_chosen_and_ordered(form: str) -> None:
    arguments = ("ops", MLP, "--columns", "calls, op", "--sort-by", "total", "--limit", "2", "--format", form)
    shown = run_etq(*arguments).stdout
    whole = json.loads(run_etq("ops", MLP, "--format", "json").stdout)
    rows = sorted(whole, key=lambda row: -row["total"])[:2]
    words = re.findall(r"[\w.()]+", shown)
    expected = [word for row in rows for word in (str(row["calls"]), row["op"])]
    if form == "json":
        expected = [word for row in rows for word in ("calls", str(row["calls"]), "op", row["op"])]
    assert [word for word in words if word in expected] == expected
    assert "share_percent" not in shown and shown.index("calls") < shown.index("op")


@pytest.mark.parametrize("command", ["inspect FILE", "ops FILE", "events FILE", "views", "show op_totals FILE"])
def test_an_unknown_column_is_an_error_that_names_those_there_are(command: str) -> None:
    result = run_etq(*command.replace("FILE", MLP).split(), "--columns", "unti,unit")
    assert result.exit_code == 1
    assert re.match(r"Error: no column 'unti'(; the nearest are .*unit.*)?; known are \w+", result.stderr)
