"""Tables: formats, each read again by its own reader; options that all of them take; `etq sql` and `etq export`."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import pty
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest

import etq
from etq import cli
from etq.catalog import quoted
from etq.render.writers import FORMATS, SUFFIXES
from tests.cli.asked import rows
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.processes import process
from tests.trace_checker import checked

NET, RECORD = (str(CAPTURES / f"convnet/convnet.{ending}") for ending in ("etdp", "etrecord"))
# A spreadsheet takes a text that begins like these for a formula. The last two of TEXTS don't.
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(A1)"]
TEXTS = [*FORMULAS, "a=1", "'quoted"]


def sql(lab: str, query: str, *options: str, **given: Any) -> str:
    result = run_etq("sql", query, "--db", lab, *options, **given)
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("table", "name     one  two  three  four\n-------  ---  ---  -----  ----\na|b\\x1b    1  2.5  yes    \n"),
        ("csv", 'name,one,two,three,four\na|b\x1b,1,2.5,True,\n'),
        ("tsv", "name\tone\ttwo\tthree\tfour\na|b\x1b\t1\t2.5\tTrue\t\n"),
        ("markdown", "| name | one | two | three | four |\n| --- | --- | --- | --- | --- |\n| a\\|b\\\\x1b | 1 | 2.5 | yes |  |\n"),
    ],
)  # fmt: skip
def test_texts(format: str, expected: str, lab: str) -> None:
    query = "SELECT 'a|b' || chr(27) AS name, 1 AS one, 2.5::DOUBLE AS two, true AS three, NULL AS four"
    printed = sql(lab, query, "--format", format)
    assert [line.rstrip() for line in printed.splitlines()] == [line.rstrip() for line in expected.splitlines()]


# One value of each type that views return, and how readers read it.
QUERY = """
    SELECT * FROM (
        VALUES
            (1::INTEGER, 2::BIGINT, 0.1::DOUBLE, true, 'a,"b"' || chr(10) || 'c', TIMESTAMP '2026-05-01 12:00:00',
             [1, 2], ['x', NULL]),
            (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
            (-1, 9007199254740993, 'nan'::DOUBLE, false, '\N{PILE OF POO}', TIMESTAMP '1970-01-01 00:00:00', [], [''])
    ) AS t(small, large, mean, flag, name, moment, numbers, words)
"""
ROWS = [
    (1, 2, 0.1, True, 'a,"b"\nc', datetime(2026, 5, 1, 12), [1, 2], ["x", None]),
    (None,) * 8,
    (-1, 2**53 + 1, pytest.approx(float("nan"), nan_ok=True), False, "\N{PILE OF POO}", datetime(1970, 1, 1), [], [""]),
]
# Wider than 64 bits, and a name with quotes.
WIDE = 'SELECT 2::HUGEINT ** 62 AS real, (2**53)::HUGEINT * 1024 + 1 AS "a ""b""", NULL::HUGEINT AS none, 1 AS one'


def test_each_format_has_an_ending_and_a_writer(lab: str, tmp_path: Path) -> None:
    assert {*SUFFIXES.values()} == {*FORMATS} - {"table"}
    for ending, format in SUFFIXES.items():
        by_ending, by_name = tmp_path / f"a{ending}", tmp_path / format
        sql(lab, "SELECT 1 AS one", "-o", str(by_ending))
        sql(lab, "SELECT 1 AS one", "--format", format, "-o", str(by_name))
        assert by_ending.read_bytes() == by_name.read_bytes() != b""


def read_binary(path: Path) -> pa.Table:
    return pa.parquet.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path.read_bytes()).read_all()


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_binary_formats_keep_types_and_nulls(format: str, lab: str, tmp_path: Path) -> None:
    piped, written, wide = (tmp_path / f"{name}.{format}" for name in ("piped", "written", "wide"))
    piped.write_bytes(run_etq("sql", QUERY, "--db", lab, "--format", format).stdout_bytes)
    sql(lab, QUERY, "-o", str(written))
    for path in (piped, written):
        table = read_binary(path)
        assert [tuple(row.values()) for row in table.to_pylist()] == ROWS
        types = {name: str(kind) for name, kind in zip(table.schema.names, table.schema.types, strict=True)}
        assert [types[name] for name in ("small", "large", "mean", "flag", "name")] == [
            "int32", "int64", "double", "bool", "string",
        ]  # fmt: skip
    if format == "parquet":
        assert duckdb.execute(f"SELECT * FROM read_parquet('{written}')").fetchall() == ROWS
    sql(lab, WIDE, "-o", str(wide))
    table = read_binary(wide)
    assert table.schema.names == ["real", 'a "b"', "none", "one"]
    assert list(table.to_pylist()[0].values())[1:] == [2**63 + 1, None, 1]


@pytest.mark.parametrize(("format", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_text_formats_are_read_again(format: str, delimiter: str, lab: str, tmp_path: Path) -> None:
    """CSV has no types, and NULL is an empty text: readers get the types, and find each NULL."""
    out = tmp_path / f"out.{format}"
    sql(lab, QUERY, "-o", str(out))
    with out.open(newline="") as file:
        lines = list(csv.reader(file, delimiter=delimiter))
    assert lines[0] == ["small", "large", "mean", "flag", "name", "moment", "numbers", "words"]
    assert lines[2] == [""] * 8 and lines[1][4] == 'a,"b"\nc'
    read = duckdb.execute(
        f"""SELECT small, "large", mean, flag, name, moment FROM read_csv('{out}', delim = '{delimiter}', header = true,
        columns = {{'small': 'INTEGER', 'large': 'BIGINT', 'mean': 'DOUBLE', 'flag': 'BOOLEAN', 'name': 'VARCHAR',
        'moment': 'TIMESTAMP', 'numbers': 'VARCHAR', 'words': 'VARCHAR'}})"""
    ).fetchall()
    assert read == [row[:6] for row in ROWS]


def test_json_is_read_again(lab: str, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    sql(lab, QUERY, "-o", str(out))
    found = json.loads(out.read_text())
    assert found[0] == {
        "small": 1, "large": 2, "mean": 0.1, "flag": True, "name": 'a,"b"\nc', "moment": "2026-05-01T12:00:00",
        "numbers": [1, 2], "words": ["x", None],
    }  # fmt: skip
    assert set(found[1].values()) == {None}
    assert found[2]["large"] == 2**53 + 1 and found[2]["mean"] is None, "JSON has no NaN"
    assert duckdb.execute(f"SELECT small, \"large\" FROM read_json('{out}')").fetchall() == [row[:2] for row in ROWS]


@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_no_formula_reaches_a_spreadsheet(format: str, lab: str) -> None:
    query = f"SELECT unnest([{', '.join(map(quoted, TEXTS))}]) AS name, -1 AS number, '=x' AS \"=head\""
    delimiter = "," if format == "csv" else "\t"
    for flag, mark in (([], ""), (["--escape-formulas"], "'")):
        text = run_etq("sql", query, "--db", lab, "--format", format, *flag).stdout_bytes.decode()
        head, *lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        assert head == ["name", "number", f"{mark}=head"]
        assert [line[0] for line in lines] == [mark + text for text in FORMULAS] + TEXTS[len(FORMULAS) :]
        assert {tuple(line[1:]) for line in lines} == {("-1", f"{mark}=x")}, "numbers stay numbers"


def test_times_with_a_zone(lab: str) -> None:
    zoned = "TIMESTAMPTZ '2026-05-01 14:00:00+02'"
    for form in ("table", "json"):
        shown = sql(lab, f"SET TimeZone = 'UTC'; SELECT {zoned} AS t, NULL::TIMESTAMPTZ AS n;-- x", "--format", form)
        assert "2026-05-01" in shown and "12:00:00+00:00" in shown
    assert "infinity" in sql(lab, "SELECT TIMESTAMPTZ 'infinity' AS t")


def test_widths_and_lists_for_people(lab: str) -> None:
    query = "SELECT '日本語' AS text, 5 AS number UNION ALL SELECT 'e\u0301 a', 6 ORDER BY number"
    lines = sql(lab, query).splitlines()
    assert lines == ["text    number", "------  ------", "日本語       5", "e\u0301 a          6"]
    query = "SELECT range(12) AS some, range(40) AS many, [1.5, 2e6] AS floats"
    assert sql(lab, query).splitlines()[2].split("  ") == [
        "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... 30 more]", "[1.5, 2000000]",
    ]  # fmt: skip
    assert rows("sql", query, "--db", lab)[0]["many"] == [*range(40)]
    assert "38,39]" in sql(lab, query, "--format", "csv")


@pytest.mark.long
def test_files_and_standard_output(lab: str, tmp_path: Path) -> None:
    for format, read in (("parquet", "read_parquet"), ("csv", "read_csv"), ("json", "read_json")):
        out = str(tmp_path / f"ops.{format}")
        assert run_etq("ops", "run", "--runs", "all", "--db", lab, "-o", out).exit_code == 0
        query = f"SELECT count(*), sum(total_ticks)::BIGINT FROM {read}('{out}')"
        assert duckdb.execute(query).fetchall() == [(7, 1939813)]
    again = run_etq("captures", "--db", lab, "-o", out)
    assert (again.exit_code, again.stderr) == (1, f"Error: {out}: exists; overwrite it with --force\n")
    assert run_etq("captures", "--db", lab, "-o", out, "--force").exit_code == 0
    asked = ("captures", "--db", lab, "--format", "csv")
    assert run_etq(*asked, "-o", "-").stdout == run_etq(*asked).stdout
    path = tmp_path / "x.xlsx"
    for command in ("captures", "flame run", "compare run untraced"):
        result = run_etq(*command.split(), "-o", str(path), "--db", lab)
        assert (result.exit_code, path.exists()) == (1, False)
        assert f"Error: {path}: no format has the ending .xlsx; use .csv, " in result.stderr
    assert run_etq(*asked, "-o", str(path)).exit_code == 0


def test_a_command_line_that_is_read_and_not_run_limits_no_other(lab: str) -> None:
    captures = cli.main.get_command(click.Context(cli.main), "captures")
    assert captures is not None
    captures.make_context("captures", ["--limit", "1", "--sort-by", "name", "--db", lab])
    assert [row["name"] for row in rows("captures", "--db", lab)] == ["run", "llm", "untraced", "net", "trace"]
    # A command without these options.
    assert len(rows("summary", "run", "--db", lab)) > 1


@pytest.mark.long
def test_sorting_and_columns(lab: str) -> None:
    # Columns have the names that tables show, too.
    ops = ("ops", "run", "--db", lab)
    shown, named = (
        run_etq(*ops, "--columns", names, "--format", "csv").stdout for names in ("op,share %", "op,share_percent")
    )
    assert shown == named
    by_head, by_name = (run_etq(*ops, "--sort-by", name).stdout for name in ("share %", "share_percent"))
    assert by_head == by_name
    whole = rows(*ops)
    expected = [[str(row["calls"]), row["op"]] for row in sorted(whole, key=lambda row: -row["total"])[:2]]
    chosen = (*ops, "--columns", "calls, op", "--sort-by", "total", "--limit", "2", "--format")
    assert [list(map(str, row.values())) for row in json.loads(run_etq(*chosen, "json").stdout)] == expected
    for form in ("csv", "markdown", "table"):
        text = run_etq(*chosen, form).stdout
        assert "share_percent" not in text and text.index("calls") < text.index("op")
        cells = [word for row in expected for word in row]
        assert [word for word in re.findall(r"[\w.()]+", text) if word in cells] == cells


@pytest.mark.long
def test_sql_of_stdin_and_of_a_file(lab: str, tmp_path: Path) -> None:
    script = "SELECT 1 AS one; -- a comment; with a semicolon\nCREATE TEMP TABLE t AS SELECT 'a;b' AS two;\nFROM t;"
    file = tmp_path / "questions.sql"
    file.write_text(script)
    for arguments, text in (((), script), (("-",), script), (("-f", str(file)), ""), ((script,), "")):
        result = run_etq("sql", *arguments, "--format", "csv", "--db", lab, input=text)
        assert (result.stdout, result.exit_code) == ("one\n1\n\nCount\n1\n\ntwo\na;b\n", 0), result.stderr
    assert run_etq("sql", "--db", lab, input="").stdout == ""
    refused = run_etq("sql", "-f", str(file), "--format", "parquet", "--db", lab)
    assert refused.stderr == "Error: parquet holds the result of one statement, and there are 3; run them one by one\n"
    missing = run_etq("sql", "-f", str(tmp_path / "none.sql"), "--db", lab)
    assert missing.stderr == f"Error: {tmp_path}/none.sql: no such file\n"


def test_errors_of_sql_point_at_the_place_of_the_statement_alone(lab: str) -> None:
    result = run_etq("sql", "SELECT 1\nFROMM x WHERE", "--db", lab)
    error, line, pointer = result.stderr.splitlines()[:3]
    assert error.startswith("Error: syntax error") and line.startswith("LINE 2: ") and pointer.strip().startswith("^")
    in_a_view = run_etq("sql", "SELECT 1; FROM op_totals('no run')", "--db", lab)
    assert "no capture matches" in in_a_view.stderr and "LINE" not in in_a_view.stderr


@pytest.mark.long
def test_closed_streams(lab: str) -> None:
    """The warehouse must not get the file descriptor of a stream to which the command writes."""
    for closed, is_shown in (("<&- >&- 2>&-", False), ("2>&-", True)):
        command = f"exec {sys.executable} -m etq label run --db {lab} {closed}"
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert (done.returncode, bool(done.stdout), "Traceback" in done.stderr) == (0, is_shown, False)
    with etq.open(lab, read_only=True) as warehouse:
        assert len(warehouse.captures().fetchall()) == 5


def test_the_end_of_input_is_a_no(lab: str) -> None:
    """Ctrl-D at a prompt: nothing is removed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "etq", "db", "remove", "run", "--db", lab]
    with process(command, stdin=theirs, stderr=subprocess.PIPE, text=True) as started:
        assert started.stderr is not None
        assert "Remove 1 capture (run)?" in started.stderr.read(30)
        os.write(ours, b"\x04")
        message = started.stderr.read()
    os.close(ours)
    os.close(theirs)
    assert (started.returncode, "Traceback" in message) == (1, False)
    with etq.open(lab, read_only=True) as warehouse:
        assert len(warehouse.captures().fetchall()) == 5


@pytest.mark.long
def test_exports_of_a_file_and_of_a_warehouse(lab: str, tmp_path: Path) -> None:
    stored = run_etq("export", "net", "--to", "chrome", "--db", lab).stdout
    out, packed = tmp_path / "out.json", str(tmp_path / "net.json.gz")
    assert run_etq("export", NET, "--etrecord", RECORD, "--to", "chrome", "-o", str(out)).exit_code == 0
    checked(stored)
    given, found = json.loads(stored), json.loads(out.read_text())
    assert found["traceEvents"][:-5] == given["traceEvents"][:-5], "all but the capture's name"
    assert run_etq("export", "net", "--to", "chrome", "--db", lab, "-o", packed).exit_code == 0
    assert gzip.decompress(Path(packed).read_bytes()).decode() == stored
    one = json.loads(run_etq("export", "net", "--db", lab, "--to", "speedscope", "--run", "2").stdout)
    assert [each["name"] for each in one["profiles"]] == ["Execute #1 (forward)"]
    chosen = json.loads(run_etq("export", "run", "--db", lab, "--to", "hud", "--skip-first", "3").stdout)
    assert [len(each["metric"]["benchmark_values"]) for each in chosen] == [1, 2, 1]


def test_a_terminal_is_spared(lab: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from etq.cli import export

    monkeypatch.setattr(export, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    refused = run_etq("export", "run", "--to", "chrome", "--db", lab)
    message = "Error: chrome can't be shown in a terminal; name a file with -o\n"
    assert (refused.exit_code, refused.stderr) == (1, message)
    assert run_etq("export", "run", "--to", "hud", "--db", lab, "-o", "-").exit_code == 0
