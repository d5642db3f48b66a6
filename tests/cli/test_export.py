"""`etq export`, and tables in the formats that other tools read: each is read again by its own reader."""

from __future__ import annotations

import csv
import gzip
import io
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest

import etq
from etq import catalog
from etq.catalog import quoted
from etq.export import FORMATS
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump, execute, kernel, run
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.sampling import thinned
from tests.trace_checker import checked
from tests.warehouses import empty_warehouse

XNN = str(CAPTURES / "mlp_xnn" / "mlp_xnn.etdp")
RECORD = str(CAPTURES / "mlp_xnn" / "mlp_xnn.etrecord")
# A spreadsheet takes a text that begins like these for a formula. The last two of TEXTS don't.
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(A1)"]
TEXTS = [*FORMULAS, "a=1", "'quoted"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse file of a capture and its record; not to be written to."""
    path = tmp_path_factory.mktemp("lab") / "lab.duckdb"
    with etq.open(path) as warehouse:
        capture = warehouse.ingest(XNN, name="run", labels={"model": "mlp", "device": "pixel8"})
        warehouse.link(capture, warehouse.ingest_record(RECORD))
    return str(path)


@pytest.mark.long
@pytest.mark.parametrize("to", FORMATS)
def test_a_file_gives_what_a_warehouse_gives(to: str, lab: str, tmp_path: Path) -> None:
    stored = run_etq("export", "model=mlp", "--to", to, "--db", lab)
    assert stored.exit_code == 0 and stored.stderr == ""
    out = tmp_path / "out.json"
    file = run_etq("export", XNN, "--etrecord", RECORD, "--to", to, "-o", str(out))
    assert (file.exit_code, file.stdout) == (0, "")
    given, found = json.loads(stored.stdout), json.loads(out.read_text())
    if to == "chrome":
        checked(stored.stdout)
        assert found["traceEvents"][:-5] == given["traceEvents"][:-5], "all but the capture's name"
    elif to == "speedscope":
        assert found["profiles"] == given["profiles"] and found["shared"] == given["shared"]
    elif to == "hud":
        assert [each["metric"] for each in found] == [each["metric"] for each in given]
        assert given[0]["runners"] == [{"name": "pixel8"}] and given[0]["model"]["name"] == "mlp"
    else:
        assert found["graph"]["results"] == given["graph"]["results"]


@pytest.mark.long
def test_output_goes_to_stdout_or_a_file(lab: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = str(tmp_path / "run.trace.json.gz")
    assert run_etq("export", "run", "--to", "chrome", "--db", lab, "-o", out).exit_code == 0
    piped = run_etq("export", "run", "--to", "chrome", "--db", lab, "-o", "-")
    assert gzip.decompress(Path(out).read_bytes()).decode() == piped.stdout
    again = run_etq("export", "run", "--to", "chrome", "--db", lab, "-o", out)
    assert (again.exit_code, again.stderr) == (1, f"Error: {out}: exists; overwrite it with --force\n")
    assert run_etq("export", "run", "--to", "chrome", "--db", lab, "-o", out, "--force").exit_code == 0
    missing = str(tmp_path / "no" / "such.json")
    refused = run_etq("export", "run", "--to", "hud", "--db", lab, "-o", missing)
    assert refused.stderr == f"Error: {missing}: can't be written: no such file or directory\n"


def test_a_terminal_is_spared(lab: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from etq.cli import export

    class Terminal:
        def isatty(self) -> bool:
            return True

    class System:
        stdout = Terminal()

    monkeypatch.setattr(export, "sys", System)
    refused = run_etq("export", "run", "--to", "chrome", "--db", lab)
    assert (refused.exit_code, refused.stderr) == (
        1,
        "Error: chrome can't be shown in a terminal; name a file with -o\n",
    )
    assert run_etq("export", "run", "--to", "hud", "--db", lab, "-o", "-").exit_code == 0


def test_errors_are_one_line(lab: str, tmp_path: Path) -> None:
    for arguments, message in (
        (("run", "--to", "hud", "--run", "1"), "hud takes no runs; it takes by, steps"),
        (("nur", "--to", "chrome"), "no capture matches nur; the nearest are run"),
        (("run", "--to", "chrome", "--unit", "us"), "chrome takes no unit"),
        (("run", "--to", "model-explorer", "--method", "x"), "no times of a method 'x'"),
    ):
        result = run_etq("export", *arguments, "--db", lab, "-o", str(tmp_path / "x.json"))
        assert result.exit_code == 1 and message in result.stderr and result.stderr.count("\n") == 1
        assert not [*tmp_path.glob("x.json*")]
    assert run_etq("export", "run", "--db", lab).exit_code == 2
    assert run_etq("export", "run", "--to", "hud", "--by", "colour", "--db", lab).exit_code == 2
    unlinked = run_etq("export", XNN, "--to", "model-explorer", "-o", "-")
    assert "mlp_xnn has no record" in unlinked.stderr


def test_runs_and_methods(lab: str) -> None:
    one = run_etq("export", "run", "--to", "speedscope", "--run", "2", "--db", lab)
    assert [each["name"] for each in json.loads(one.stdout)["profiles"]] == ["Execute #1 (forward)"]
    chosen = run_etq("export", "run", "--to", "hud", "--skip-first", "3", "--db", lab)
    assert [len(each["metric"]["benchmark_values"]) for each in json.loads(chosen.stdout)] == [1, 2, 1]
    method = run_etq("export", "run", "--to", "model-explorer", "--method", "forward", "--unit", "ns", "--db", lab)
    assert json.loads(method.stdout)["graph"]["name"] == "run: self time (ns)"


WIDE = pa.decimal128(38, 0)
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


@pytest.mark.parametrize("format", ["parquet", "arrow"])
@pytest.mark.parametrize("is_piped", [False, True])
def test_binary_formats_keep_types_and_nulls(format: str, is_piped: bool, lab: str, tmp_path: Path) -> None:
    out = tmp_path / f"out.{format}"
    if is_piped:
        out.write_bytes(run_etq("sql", QUERY, "--db", lab, "--format", format).stdout_bytes)
    else:
        assert run_etq("sql", QUERY, "--db", lab, "-o", str(out)).exit_code == 0
    table = pa.parquet.read_table(out) if format == "parquet" else pa.ipc.open_file(out.read_bytes()).read_all()
    assert [tuple(row.values()) for row in table.to_pylist()] == ROWS
    types = {name: str(kind) for name, kind in zip(table.schema.names, table.schema.types, strict=True)}
    assert {name: types[name] for name in ("small", "large", "mean", "flag", "name")} == {
        "small": "int32", "large": "int64", "mean": "double", "flag": "bool", "name": "string",
    }  # fmt: skip
    source = f"read_parquet('{out}')" if format == "parquet" else "table_"
    connection = duckdb.connect()
    if format == "arrow":
        connection.register("table_", table)
    assert connection.execute(f"SELECT * FROM {source}").fetchall() == ROWS


@pytest.mark.parametrize(("format", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_text_formats_are_read_again(format: str, delimiter: str, lab: str, tmp_path: Path) -> None:
    """CSV has no types, and NULL is an empty text: readers get the types, and find each NULL."""
    out = tmp_path / f"out.{format}"
    assert run_etq("sql", QUERY, "--db", lab, "-o", str(out)).exit_code == 0
    with out.open(newline="") as file:
        rows = list(csv.reader(file, delimiter=delimiter))
    assert rows[0] == ["small", "large", "mean", "flag", "name", "moment", "numbers", "words"]
    assert rows[2] == [""] * 8 and rows[1][4] == 'a,"b"\nc'
    read = duckdb.execute(
        f"""SELECT small, "large", mean, flag, name, moment FROM read_csv('{out}', delim = '{delimiter}', header = true,
        columns = {{'small': 'INTEGER', 'large': 'BIGINT', 'mean': 'DOUBLE', 'flag': 'BOOLEAN', 'name': 'VARCHAR',
        'moment': 'TIMESTAMP', 'numbers': 'VARCHAR', 'words': 'VARCHAR'}})"""
    ).fetchall()
    assert read == [row[:6] for row in ROWS]


def test_whole_numbers_of_128_bits_keep_their_digits(lab: str, tmp_path: Path) -> None:
    for format in ("parquet", "arrow"):
        out = tmp_path / f"out.{format}"
        query = (
            'SELECT 2::HUGEINT ** 62 AS real, (2**53)::HUGEINT * 1024 + 1 AS "a ""b""", NULL::HUGEINT AS none, 1 AS one'
        )
        assert run_etq("sql", query, "--db", lab, "-o", str(out)).exit_code == 0
        table = pa.parquet.read_table(out) if format == "parquet" else pa.ipc.open_file(out.read_bytes()).read_all()
        assert table.schema.names == ["real", 'a "b"', "none", "one"]
        assert list(table.to_pylist()[0].values())[1:] == [2**63 + 1, None, 1]


def test_json_is_read_again(lab: str, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert run_etq("sql", QUERY, "--db", lab, "-o", str(out)).exit_code == 0
    rows = json.loads(out.read_text())
    assert rows[0] == {
        "small": 1, "large": 2, "mean": 0.1, "flag": True, "name": 'a,"b"\nc', "moment": "2026-05-01T12:00:00",
        "numbers": [1, 2], "words": ["x", None],
    }  # fmt: skip
    assert set(rows[1].values()) == {None}
    assert rows[2]["large"] == 2**53 + 1 and rows[2]["mean"] is None, "JSON has no NaN"
    assert duckdb.execute(f"SELECT small, \"large\" FROM read_json('{out}')").fetchall() == [row[:2] for row in ROWS]


@pytest.fixture(scope="module")
def stored() -> Any:
    with empty_warehouse() as warehouse:
        capture = warehouse.ingest(XNN, name="run", labels={"model": "mlp"})
        warehouse.link(capture, warehouse.ingest_record(RECORD))
        warehouse.phase("run", "decode", runs="2-")
        warehouse.ingest(CAPTURES / "torch" / "steps_7.pt.trace.json.gz", name="trace")
        warehouse.ingest(CAPTURES / "prof_result" / "iterations.prof_result.bin", name="old")
        yield warehouse


OF_CAPTURES = [
    each.name
    for each in catalog.public_objects()
    if each.kind == "table macro" and [p.name for p in each.parameters if p.default is None] == ["capture"]
]


@pytest.mark.parametrize("view", thinned(OF_CAPTURES, [*OF_CAPTURES[::20], "prof_result_profile"]))
def test_any_view_as_arrow_and_parquet(view: str, stored: Warehouse, tmp_path: Path) -> None:
    """The same rows are read back, in types that readers know: only one view has numbers wider than 64 bits."""
    from etq.render.writers import write

    trace = {"step_breakdown", "average_step", "module_tree", "memory_timeline", "trace_memory_stats"}
    query = f"FROM {view}('{'trace' if view in trace else 'old' if view.startswith('prof_result') else 'run'}')"
    rows = stored.rows(query)[1]
    for format in ("arrow", "parquet"):
        path = tmp_path / f"view.{format}"
        write(stored, query, None, str(path))
        table = pa.parquet.read_table(path) if format == "parquet" else pa.ipc.open_file(path.read_bytes()).read_all()
        wide = [name for name, kind in zip(table.schema.names, table.schema.types, strict=True) if kind == WIDE]
        assert wide == (["start_ticks", "elapsed_ticks"] if view == "prof_result_profile" else [])
        assert [tuple(row.values()) for row in table.to_pylist()] == rows


@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_no_formula_reaches_a_spreadsheet(format: str, lab: str) -> None:
    query = f"SELECT unnest([{', '.join(map(quoted, TEXTS))}]) AS name, -1 AS number, '=x' AS \"=head\""
    delimiter = "," if format == "csv" else "\t"
    for flag, mark in (([], ""), (["--escape-formulas"], "'")):
        result = run_etq("sql", query, "--db", lab, "--format", format, *flag)
        rows = list(csv.reader(io.StringIO(result.stdout_bytes.decode(), newline=""), delimiter=delimiter))
        assert rows[0] == ["name", "number", f"{mark}=head"]
        names = [row[0] for row in rows[1:]]
        assert names == [mark + text for text in FORMULAS] + TEXTS[len(FORMULAS) :]
        assert {tuple(row[1:]) for row in rows[1:]} == {("-1", f"{mark}=x")}, "numbers stay numbers"
    refused = run_etq("sql", query, "--db", lab, "--format", "json", "--escape-formulas")
    assert refused.stderr == "Error: --escape-formulas only applies to csv and tsv, not to json\n"


def test_no_escape_reaches_a_terminal(tmp_path: Path) -> None:
    """Neither names of events nor names of columns contain escapes."""
    evil = "\x1b]0;hit\x07\x9b2J\u202e"
    path = tmp_path / "evil.etdp"
    path.write_bytes(dump(run(evil, kernel(evil, 1, 2), execute(0, 3))))
    db = str(tmp_path / "lab.duckdb")
    assert run_etq("ingest", str(path), "--db", db).exit_code == 0
    shown = run_etq(
        "sql", f"SELECT e.label, [e.label] AS l, {{'a': e.label}} AS s, 1 AS \"{evil}\" FROM events AS e", "--db", db
    )
    for text in (run_etq("ops", str(path)).stdout, run_etq("inspect", str(path)).stdout, shown.stdout):
        assert "hit" in text and not set(text) & set("\x1b\x07\x9b\u202e")
