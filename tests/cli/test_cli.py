"""The command line from a user's view: output streams and statuses."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import etq
import etq.datasets
from etq import cli, processes
from tests.asserts import csv_rows
from tests.builders import dump, execute, kernel, run
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.docs.pages import ALL
from tests.sampling import thinned
from tests.warehouses import empty_warehouse

ROOT = Path(__file__).parents[2]
MLP = str(CAPTURES / "mlp/mlp.etdp")
BAD = str(CAPTURES / "malformed/mlp_trunc50.etdp")
BAD_MESSAGE = (
    f"Error: {BAD}: at byte 0: the ETDump is truncated: its size prefix is 17244 bytes, the file has 8620 of them; "
    "it breaks off at byte 8624\n"
)
COMMANDS = cli.main.list_commands(click.Context(cli.main))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse file of two captures; not to be written to."""
    path = tmp_path_factory.mktemp("lab") / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(MLP, name="run", labels={"device": "pixel8"})
        warehouse.ingest(CAPTURES / "mlp/mlp_method_only.etdp", name="untraced")
    return str(path)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(command: str) -> None:
    result = run_etq(command, "--help")
    assert result.exit_code == 0
    assert f"\n  etq {command}" in result.stdout


def test_every_command_is_in_the_documentation() -> None:
    """Each is in an example of a page, not only in the generated reference."""
    assert [command for command in COMMANDS if f"etq {command}" not in ALL] == []


def test_ingest_and_list(tmp_path: Path) -> None:
    db = str(tmp_path / "lab.duckdb")
    first = run_etq("ingest", MLP, "--db", db, "--label", "device=pixel8", "--label", "build=a=b", "--name", "run")
    assert (first.exit_code, first.stdout, first.stderr) == (0, "", "run: ingested\n")
    again = run_etq("ingest", MLP, "--db", db, "--captured-at", "2026-11-20")
    assert (again.exit_code, again.stderr) == (0, "run: known already, options applied\n")
    listed = run_etq("captures", "--db", db, "--format", "json")
    [row] = json.loads(listed.stdout)
    assert (row["name"], row["labels"], row["events"]) == ("run", "build=a=b, device=pixel8", 247)
    assert row["captured_at"] == "2026-11-20T00:00:00"


def test_one_bad_file_does_not_stop_the_rest(tmp_path: Path) -> None:
    db = str(tmp_path / "lab.duckdb")
    result = run_etq("ingest", BAD, MLP, "--db", db)
    assert result.exit_code == 1
    assert result.stderr == BAD_MESSAGE + "mlp: ingested\n1 of 2 files could not be ingested\n"
    assert result.stdout == ""
    assert run_etq("captures", "--db", db, "--format", "csv").stdout.count("\n") == 2


def test_inspect_prints_the_inspectors_table() -> None:
    result = run_etq("inspect", MLP)
    assert result.exit_code == 0 and result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0].split() == (
        "event_block_name event_name occurrence p10 p50 p90 avg min max unit delegate_debug_identifier".split()
    )
    assert lines[4].split()[:9] == (
        "Execute native_call_permute_copy.out 0 0.0378804 0.038908 0.0570546 0.0446604 0.037696 0.068191".split()
    )
    assert "OPERATOR_CALL" not in result.stdout
    assert "OPERATOR_CALL" in run_etq("inspect", MLP, "--all").stdout


def test_inspect_takes_scales_units_and_schedules() -> None:
    rows = csv_rows(run_etq("inspect", MLP, "--unit", "us", "--format", "csv").stdout)
    assert rows[2]["p50"] == "38.908" and rows[2]["unit"] == "us"
    rows = csv_rows(run_etq("inspect", MLP, "--time-scale", "cycles", "--format", "csv").stdout)
    assert rows[2]["p50"] == "38908.0" and rows[2]["unit"] == "cycles"
    skipped = run_etq("inspect", MLP, "--skip-first", "4", "--format", "csv").stdout
    assert [row["max"] for row in csv_rows(skipped)][0] == "0.037696"
    assert run_etq("inspect", MLP, "--active", "0").stderr.startswith("Error: a schedule needs")


def test_findings_of_a_file_go_to_stderr() -> None:
    result = run_etq("inspect", str(CAPTURES / "malformed/mlp_trailing.etdp"))
    assert result.exit_code == 0
    assert result.stderr == "Note: trailing bytes: 24 bytes after the last dump belong to none and are ignored\n"


@pytest.mark.parametrize(
    "command",
    thinned(
        ["events", "ops", "breakdown", "tax", "memory", "delegates", "percentiles", "advice"],
        ["ops", "memory", "advice"],
    ),
)
def test_views_of_a_capture_and_of_a_file_are_alike(command: str, lab: str) -> None:
    stored = run_etq(command, "run", "--db", lab, "--format", "csv")
    read = run_etq(command, MLP, "--format", "csv")
    assert stored.exit_code == read.exit_code == 0
    assert stored.stdout == read.stdout and stored.stdout.count("\n") >= (
        1 if command in ("memory", "delegates") else 3
    )


def test_options_of_views(lab: str) -> None:
    result = run_etq("percentiles", "device=pixel8", "-q", "0.5", "-q", "0.99", "--unit", "ns", "--db", lab)
    assert result.stdout.splitlines()[0].split()[-3:] == ["p50", "p99", "unit"]
    result = run_etq("tax", "run", "--baseline", "untraced", "--db", lab, "--format", "json")
    assert {row["note"] for row in json.loads(result.stdout)} == {"work is slower when traced"}
    result = run_etq("ops", "run", "--by", "instance", "--db", lab, "--format", "json")
    assert {row["instruction_id"] for row in json.loads(result.stdout)} >= {0, 1, 23}


@pytest.mark.long
def test_advice_of_a_file_with_its_record() -> None:
    result = run_etq("advice", MLP, "--etrecord", MLP.replace(".etdp", ".etrecord"), "--unit", "ms", "--format", "json")
    rows = json.loads(result.stdout)
    assert [row["severity"] for row in rows] == ["high", "high", "medium", "low"]
    assert rows[0]["rule"] == "copies" and "export_models.py:" in rows[0]["evidence"] and rows[0]["unit"] == "ms"
    skipped = run_etq("advice", MLP, "--skip-first", "1", "--format", "json")
    assert "first run" not in {row["rule"] for row in json.loads(skipped.stdout)}


def test_sql_opens_for_reading_only(lab: str) -> None:
    result = run_etq("sql", "FROM op_totals('run', unit := 'us') LIMIT 1", "--db", lab, "--format", "json")
    assert json.loads(result.stdout)[0]["op"] == "permute_copy"
    refused = run_etq("sql", "DELETE FROM captures", "--db", lab)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("Error: Cannot execute statement of type") and "read-only" in refused.stderr


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("table", "name     one  two  three  four\n-------  ---  ---  -----  ----\na|b\\x1b    1  2.5  yes    \n"),
        ("csv", 'name,one,two,three,four\na|b\x1b,1,2.5,True,\n'),
        ("tsv", "name\tone\ttwo\tthree\tfour\na|b\x1b\t1\t2.5\tTrue\t\n"),
        ("markdown", "| name | one | two | three | four |\n| --- | --- | --- | --- | --- |\n| a\\|b\\\\x1b | 1 | 2.5 | yes |  |\n"),
    ],
)  # fmt: skip
def test_formats(format: str, expected: str, lab: str) -> None:
    query = "SELECT 'a|b' || chr(27) AS name, 1 AS one, 2.5::DOUBLE AS two, true AS three, NULL AS four"
    result = run_etq("sql", query, "--db", lab, "--format", format)
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines == [line.rstrip() for line in expected.splitlines()]


def test_parquet_and_files(lab: str, tmp_path: Path) -> None:
    for format, read in (("parquet", "read_parquet"), ("csv", "read_csv"), ("json", "read_json")):
        out = str(tmp_path / f"ops.{format}")
        assert run_etq("ops", "run", "--runs", "all", "--db", lab, "--format", format, "-o", out).exit_code == 0
        query = f"SELECT count(*), sum(total_ticks)::BIGINT FROM {read}('{out}')"
        counted = duckdb.execute(query).fetchall()
        assert counted == [(7, 1939813)]
    again = run_etq("ops", "run", "--db", lab, "--format", "csv", "-o", out)
    assert (again.exit_code, again.stderr) == (1, f"Error: {out}: exists; overwrite it with --force\n")
    assert run_etq("ops", "run", "--db", lab, "--format", "csv", "-o", out, "--force").exit_code == 0
    missing = str(tmp_path / "no/such/ops.csv")
    refused = run_etq("ops", "run", "--db", lab, "--format", "csv", "-o", missing)
    assert (refused.exit_code, refused.stderr) == (
        1,
        f"Error: {missing}: can't be written: no such file or directory\n",
    )


def test_parquet_into_a_pipe(lab: str) -> None:
    result = run_etq("sql", "SELECT 1 AS one", "--db", lab, "--format", "parquet")
    assert result.stdout_bytes[:4] == b"PAR1" == result.stdout_bytes[-4:]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "nothing.etdp"], "nothing.etdp: no such file"),
        (["inspect", "."], ".: can't be read: is a directory"),
        (["ops", str(MLP), "-o", "."], ".: is a directory; name a file in it"),
        (["report", str(MLP), "-o", ".", "--force"], ".: is a directory; name a file in it"),
        (["ops", "nothing.etdp"], "nothing.etdp: no such file"),
        (["ops", "nothing.json"], "nothing.json: no such file"),
        (["map", "nothing.etdp", "trace.json"], "nothing.etdp: no such file"),
        (["map", "run", "trace.json"], "trace.json: no such file"),
        (["ops", "nothing.pt.trace.json.gz"], "nothing.pt.trace.json.gz: no such file"),
        (["steps", "nothing.json"], "nothing.json: no such file"),
        (["ops", "run"], "etq.duckdb: no such file; make a warehouse with: etq ingest FILE... --db etq.duckdb"),
        (["captures"], "etq.duckdb: no such file; make a warehouse with: etq ingest FILE... --db etq.duckdb"),
        (["views", "op_total"], "no table, view or macro 'op_total'; the nearest are op_totals"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ETQ_DB", raising=False)
    result = run_etq(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: {message}") and result.stderr.count("\n") == 1


def test_errors_about_captures(lab: str) -> None:
    result = run_etq("ops", "rnu", "--db", lab)
    assert (result.exit_code, result.stderr) == (1, "Error: no capture matches rnu; the nearest are run, untraced\n")
    result = run_etq("ops", "run", "--unit", "cycles", "--db", lab)
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: run counts ns, which cannot be converted to cycles; ingest it with its true time scale, or request a unit of "
        "time\n",
    )


def test_wrong_usage_is_2(lab: str) -> None:
    assert run_etq("ops").exit_code == 2
    assert run_etq("ops", "run", "--unit", "sec", "--db", lab).exit_code == 2
    assert run_etq("ingest", MLP, MLP, "--name", "x", "--db", lab).exit_code == 2
    refused = run_etq("ingest", MLP, "--label", "device", "--db", lab)
    assert refused.exit_code == 2 and "'device' is not of the form KEY=VALUE" in refused.stderr


def test_debug_shows_the_traceback() -> None:
    result = run_etq("--debug", "inspect", BAD)
    assert isinstance(result.exception, etq.FormatError)
    assert isinstance(run_etq("inspect", BAD).exception, SystemExit)


def test_the_warehouse_comes_from_the_environment(lab: str) -> None:
    result = run_etq("captures", "--format", "csv", env={"ETQ_DB": lab})
    assert result.stdout.count("\n") == 3


def test_views_documents_everything() -> None:
    listed = run_etq("views").stdout
    for name in ("events", "op_totals", "captures", "schedule"):
        assert f"\n{name} " in listed
        shown = run_etq("views", name)
        assert shown.exit_code == 0 and shown.stdout.startswith(f"{name} (")
    assert "start_ticks" in run_etq("views", "event_ticks").stdout
    assert run_etq("views", "_capture_id").exit_code == 1
    rows = csv_rows(run_etq("views", "percentiles", "--format", "csv").stdout)
    assert ("parameter", "quantiles", "[0.1, 0.5, 0.9]") in [tuple(row.values())[:3] for row in rows]
    assert run_etq("views", "--format", "parquet").stdout_bytes[:4] == b"PAR1"


def test_demo(tmp_path: Path) -> None:
    result = run_etq("demo")
    assert result.exit_code == 0
    assert "convolution                           kernel" in result.stdout
    kept = str(tmp_path / "demo.duckdb")
    assert run_etq("demo", "--db", kept).exit_code == 0
    assert "mlp_xnn" in run_etq("captures", "--db", kept).stdout
    assert run_etq("demo", "--db", kept).exit_code == 0


@pytest.mark.parametrize(("file", "name"), [("convnet_100runs", "mlp_xnn"), ("mlp_100runs", "mine")])
def test_demo_changes_nothing_of_other_captures(tmp_path: Path, file: str, name: str) -> None:
    """Neither a capture with a name of the demo, nor one with its content by another name."""
    kept = str(tmp_path / "lab.duckdb")
    with etq.open(kept) as warehouse:
        warehouse.ingest(Path(etq.datasets.__path__[0]) / f"{file}.etdp", name=name)
    before = run_etq("captures", "--db", kept, "--format", "csv").stdout
    result = run_etq("demo", "--db", kept)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"its capture {name} has the name or the content" in result.stderr and "--db demo.duckdb" in result.stderr
    assert run_etq("captures", "--db", kept, "--format", "csv").stdout == before


def test_a_real_process_and_a_closed_pipe(lab: str) -> None:
    command = [sys.executable, "-m", "etq", "sql", "SELECT * FROM range(200000)", "--db", lab]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    version = subprocess.run([sys.executable, "-m", "etq", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith(f"etq, version {etq.__version__}\n")


def test_version_lists_the_versions_of_libraries() -> None:
    """Each library's version as the library reports it, and the schema version of a warehouse."""
    lines = CliRunner().invoke(cli.main, ["--version"]).stdout.splitlines()
    with empty_warehouse() as warehouse:
        [(schema,)] = warehouse.rows("SELECT schema_version FROM warehouse")[1]
    versions = dict(line.split(maxsplit=1) for line in lines[1:])
    expected = {
        "schema": str(schema), "Python": platform.python_version(), "duckdb": duckdb.__version__,
        "pyarrow": pa.__version__, "numpy": np.__version__, "msgspec": msgspec.__version__,
    }  # fmt: skip
    assert lines[0] == f"etq, version {etq.__version__}"
    assert expected.items() <= versions.items()
    assert platform.system() in versions["platform"]


def test_start_up_imports_only_what_a_command_uses() -> None:
    heavy = {"duckdb", "numpy", "pyarrow", "pandas", "sqlglot", "torch"}

    def imported(*arguments: str) -> set[str]:
        script = (
            "import sys\nfrom click.testing import CliRunner\nfrom etq.cli import main\n"
            f"CliRunner().invoke(main, {list(arguments)!r}, catch_exceptions=False)\n"
            f"print(' '.join(sorted({heavy!r} & set(sys.modules))))"
        )
        environment = processes.environment()
        ran = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
        )
        return set(ran.stdout.split())

    assert imported("--help") == imported("views") == imported("--version") == set()
    assert imported("inspect", MLP) == {"duckdb", "numpy", "pyarrow"}
    assert imported("captures") == {"duckdb"}


def test_hostile_names_reach_a_terminal_as_text(tmp_path: Path) -> None:
    path = tmp_path / "run.etdp"
    path.write_bytes(dump(run("Exe\x1b[2Jcute", kernel("a\rdd\x07\u202e", 1, 2), execute(0, 3))))
    shown = run_etq("inspect", str(path)).stdout
    assert not any(character in shown for character in "\x1b\r\x07\u202e")
    assert "Exe\\x1b[2Jcute" in shown


def test_commands_are_found_by_the_module_that_defines_them() -> None:
    """Importing each file of etq/cli shows that the table of lazy imports lacks no command."""
    for path in sorted((ROOT / "etq/cli").glob("*.py")):
        import_module(f"etq.cli.{path.stem}" if path.stem != "__init__" else "etq.cli")
    assert sorted(cli.main.commands) == COMMANDS
    context = click.Context(cli.main)
    for name in COMMANDS:
        command = cli.main.get_command(context, name)
        assert command is not None and command is cli.main.commands[name]
    assert cli.main.get_command(context, "no such command") is None


def test_a_command_imports_its_own_module_alone() -> None:
    code = f"import sys, etq.cli; etq.cli.main(['inspect', {MLP!r}], standalone_mode=False); print('etq.cli.lake' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.endswith("False\n")


def test_a_dash_is_standard_output(lab: str) -> None:
    asked = ("ops", "run", "--db", lab, "--format", "csv")
    assert run_etq(*asked, "-o", "-").stdout == run_etq(*asked).stdout
    refused = run_etq("ops", "run", "--db", lab, "-o", "ops.csv.gz")
    assert refused.exit_code == 1 and "ops.csv.gz: tables are not compressed" in refused.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("sql", "SELECT 1", "--seconds", "1", "--engine", "spark", "--lake", "fleet"),
        ("sql", "SELECT 1", "--captures", "run"),
        ("sql", "SELECT 1", "--engine", "spark"),
        ("sql", "SELECT 1", "--lake", "fleet"),
        ("ops", "run", "--skip-first", "-1"),
    ],
)
def test_options_that_have_no_effect_are_wrong_usage(arguments: tuple[str, ...], lab: str) -> None:
    assert run_etq(*arguments, "--db", lab).exit_code == 2


def test_a_view_without_rows_has_a_note(lab: str) -> None:
    result = run_etq("steps", "run", "--db", lab)
    assert result.stderr == "Note: etq steps has no rows for run, of format etdump; for that there is etq breakdown\n"
    assert run_etq("steps", "run", "--db", lab, "--format", "json").stdout == "[]\n"


def test_wide_characters_take_two_columns(lab: str) -> None:
    query = "SELECT '日本語' AS text, 5 AS number UNION ALL SELECT 'e\u0301 a', 6 ORDER BY number"
    lines = run_etq("sql", query, "--db", lab).stdout.splitlines()
    assert lines == ["text    number", "------  ------", "日本語       5", "e\u0301 a          6"]


def test_limits_of_nothing_are_refused(lab: str) -> None:
    """Zero is a limit, unlike a missing limit."""
    for limit in ("--seconds", "--megabytes"):
        refused = run_etq("sql", "--safe", "SELECT 1", limit, "0", "--db", lab)
        assert refused.exit_code == 2 and "0 is not in the range" in refused.stderr
