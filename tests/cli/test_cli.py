"""The command line from a user's view: output streams, statuses, help, versions and imports."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import duckdb
import pytest

import etq
import etq.datasets
from etq import catalog, cli, processes
from etq.cli.commands import ALIASES, FIRST, FOREMOST, GROUPS, NAMED_HERE
from etq.database.limits import Limits, limits
from tests.asserts import csv_rows
from tests.cli.asked import rows
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.docs.pages import ALL
from tests.processes import process
from tests.warehouses import empty_warehouse

ROOT = Path(__file__).parents[2]
MLP = str(CAPTURES / "mlp/mlp.etdp")
BAD = str(CAPTURES / "malformed/mlp_trunc50.etdp")
BAD_MESSAGE = (
    f"Error: {BAD}: at byte 0: the ETDump is truncated: its size prefix is 17244 bytes, the file has 8620 of them; "
    "it breaks off at byte 8624; copy it again\n"
)
CONTEXT = click.Context(cli.main)
COMMANDS = cli.main.list_commands(CONTEXT)


def test_every_command_has_an_example_in_its_help_and_in_a_page() -> None:
    """Not only in the generated reference."""
    assert [name for name in COMMANDS if f"\n  etq {name}" not in run_etq(name, "--help").stdout] == []
    assert [name for name in COMMANDS if f"etq {name}" not in ALL] == []


def test_the_list_of_commands_has_whole_sentences() -> None:
    """In a terminal of 80 columns, no summary is cut off."""
    assert len(COMMANDS) <= 41 and len(FOREMOST) == 16
    texts = [run_etq("help", *words, terminal_width=80).output for words in ((), *((group,) for group in GROUPS))]
    assert "Show where the time of an execute went, op by op.\n" in texts[0]
    assert texts[0] == run_etq("--help", terminal_width=80).output
    assert [name for name in COMMANDS if not re.search(rf"  {name} |[:,] {name}\b", texts[0])] == []
    for text in texts:
        lines = text.splitlines()
        assert len(lines) <= 40 and max(map(len, lines)) <= 80
        assert [line for line in lines if line.endswith("...")] in ([], ["Usage: main [OPTIONS] COMMAND [ARGS]..."])
    listed = [line.split()[0] for text in texts[1:] for line in text.splitlines() if line.startswith("  ")]
    assert sorted(listed) == COMMANDS


def test_limits_end_with_the_command(tmp_path: Path) -> None:
    """Where a program runs a command, what it opens later has no limits."""
    lab, options = str(tmp_path / "lab.duckdb"), ("--seconds", "5", "--megabytes", "500")
    assert run_etq("ingest", MLP, "--db", lab).exit_code == 0
    query = "SELECT current_setting('memory_limit') FROM captures"
    found = run_etq("--wait", "5", "sql", query, "--db", lab, "--format", "csv", *options)
    assert found.stdout.splitlines()[1:] == ["500.0 MiB"], found.output
    assert limits() == Limits()


def test_common_options_are_described_once() -> None:
    common = run_etq("help", "options").stdout
    for words in (("ops",), ("roofline",), ("db", "merge"), ("show", "stragglers"), ("diff",)):
        text = run_etq("help", *words).stdout
        assert text.splitlines()[1:] == run_etq(*words, "--help").stdout.splitlines()[1:]
        own, _, named = text.partition("\nOptions:")[2].partition("Common options (etq help options):")
        options = [word.strip(",") for word in named.split()]
        assert "--megabytes" in options
        # `common_options` in etq/cli/help.py describes them.
        assert [option for option in options if f"  {option}" not in common] == []
        assert not any(f"\n  {option}" in own for option in options)
    assert "No such command 'nix'" in run_etq("help", "nix").stderr
    assert "'hotspots'; try: etq ops FILE" in run_etq("hotspots", "run.etdp").stderr
    assert "outliers is a view: etq show outliers" in run_etq("outliers").stderr
    assert {line.split()[0] for line in NAMED_HERE.values()} <= {*COMMANDS, "--version"}
    assert not {*NAMED_HERE} & {*COMMANDS, *ALIASES}
    assert "traces is a group of commands: etq help traces" in run_etq("traces").stderr


def test_etq_alone_prints_the_first_commands() -> None:
    result = run_etq()
    assert result.exit_code == 0 and len(FIRST) == 8
    assert all(f"  {command}  " in result.stdout and text in result.stdout for command, text in FIRST.items())
    assert "etq --help" in result.stdout and all(len(line) <= 100 for line in result.stdout.splitlines())
    helps = [run_etq(name, "--help").stdout.split("\n", 1)[1] for name in ("ls", "captures")]
    assert helps[0] == helps[1]


def test_commands_are_found_by_the_module_that_defines_them() -> None:
    """Importing each file of etq/cli shows that the table of lazy imports lacks no command."""
    for path in sorted((ROOT / "etq/cli").glob("*.py")):
        import_module(f"etq.cli.{path.stem}" if path.stem != "__init__" else "etq.cli")
    assert sorted(cli.main.commands) == COMMANDS
    assert all(cli.main.get_command(CONTEXT, name) is cli.main.commands[name] for name in COMMANDS)
    assert cli.main.get_command(CONTEXT, "no such command") is None


def test_tables_have_the_options_of_tables() -> None:
    for name in COMMANDS:
        command = cli.main.get_command(CONTEXT, name)
        assert command is not None
        options = {option for parameter in command.params for option in parameter.opts}
        # Flame charts, graphs, verdicts, summaries and the result of a benchmark are not tables.
        if "--format" in options and name not in ("flame", "export", "graph", "bench", "gate", "summary"):
            assert {"--limit", "--sort-by", "--columns", "--wide"} <= options, name


def test_show_has_a_help_with_the_parameters_of_each_view() -> None:
    missing = []
    for each in catalog.public_objects():
        if each.kind != "scalar macro":
            words = run_etq("show", each.name, "--help").stdout.split()
            options = {p.name: f"--{p.name.replace('_', '-')}" for p in each.parameters if p.default is not None}
            named = {options.get(p.name, p.name.upper()) for p in each.parameters if p.name != "selector"}
            missing += [(each.name, option) for option in named - {*words}]
    assert missing == []


@pytest.mark.long
def test_ingest_and_list(tmp_path: Path) -> None:
    db = str(tmp_path / "lab.duckdb")
    first = run_etq("ingest", MLP, "--db", db, "--label", "device=pixel8", "--label", "build=a=b", "--name", "run")
    assert (first.exit_code, first.stdout, first.stderr) == (0, "", "run: ingested\n")
    again = run_etq("ingest", MLP, "--db", db, "--captured-at", "2026-11-20T02:00+02:00")
    text = f"{MLP}: known already as run, options applied; --name renames it\n"
    assert (again.exit_code, again.stderr) == (0, text)
    assert run_etq("ingest", MLP, "--db", db, "--name", "run").stderr == "run: known already, options applied\n"
    for name in ("other", "run"):  # a known file is renamed if asked for
        renamed = run_etq("ingest", MLP, "--db", db, "--name", name)
        assert renamed.stderr == f"{MLP}: known already as {'run' if name == 'other' else 'other'}, renamed to {name}\n"
    [row] = json.loads(run_etq("captures", "--format", "json", env={"ETQ_DB": db}).stdout)
    assert (row["name"], row["labels"], row["events"]) == ("run", "build=a=b, device=pixel8", 247)
    assert row["captured_at"] == "2026-11-20T00:00:00"


def test_one_bad_file_does_not_stop_the_rest(tmp_path: Path) -> None:
    db, record, empty = str(tmp_path / "lab.duckdb"), str(CAPTURES / "mlp/mlp.etrecord"), tmp_path / "empty.etdp"
    empty.write_bytes(b"")
    other = str(CAPTURES / "fleet/mlp/01.etdp")
    result = run_etq("ingest", BAD, MLP, str(empty), other, MLP, "--etrecord", record, "--db", db)
    assert (result.exit_code, result.stdout) == (1, "")
    assert [line for line in result.stderr.splitlines(keepends=True) if not line.startswith("Note")] == [
        BAD_MESSAGE, "mlp: ingested\n", f"Error: {empty}: the file is empty; copy or record it again\n", "01: ingested\n",
        "mlp: known already, options applied\n", "2 of 5 files could not be ingested\n",
    ]  # fmt: skip
    with etq.open(db, read_only=True) as warehouse:
        assert warehouse.rows("SELECT c.record_id FROM captures AS c")[1] == [(1,), (1,)]


def test_inspect_takes_scales_units_and_schedules() -> None:
    for options, place, name, value, unit in (
        (("--unit", "us"), 2, "p50", "38.908", "us"),
        (("--time-scale", "cycles"), 2, "p50", "38908.0", "cycles"),
        (("--skip-first", "4"), 0, "max", "0.037696", "ms"),
    ):
        row = csv_rows(run_etq("inspect", MLP, *options, "--format", "csv").stdout)[place]
        assert (row[name], row["unit"]) == (value, unit)
    trailing = run_etq("inspect", str(CAPTURES / "malformed/mlp_trailing.etdp"))
    assert trailing.exit_code == 0
    assert trailing.stderr == "Note: trailing bytes: 24 bytes after the last dump belong to none and are ignored\n"


@pytest.mark.long
def test_sql_opens_for_reading_only(lab: str, tmp_path: Path) -> None:
    assert rows("sql", "FROM op_totals('run', unit := 'us') LIMIT 1", "--db", lab)[0]["op"] == "permute_copy"
    etq.open(tmp_path / "etq.duckdb").close()  # of the name of the library
    for db in (lab, str(tmp_path / "etq.duckdb")):
        refused = run_etq("sql", "DELETE FROM captures", "--db", db)
        assert refused.exit_code == 1 and "the warehouse is open for reading only" in refused.stderr


def test_debug_shows_the_traceback() -> None:
    assert isinstance(run_etq("--debug", "inspect", BAD).exception, etq.FormatError)
    assert isinstance(run_etq("inspect", BAD).exception, SystemExit)


@pytest.mark.long
def test_demo(tmp_path: Path) -> None:
    """It doesn't change a capture with the content of a file of the demo."""
    kept = str(tmp_path / "demo.duckdb")
    for _ in range(2):
        result = run_etq("demo", "--db", kept)
        assert result.exit_code == 0 and "convolution                           kernel" in result.stdout
    assert "mlp_xnn" in run_etq("captures", "--db", kept).stdout
    other = str(tmp_path / "other.duckdb")
    with etq.open(other) as warehouse:
        warehouse.ingest(Path(etq.datasets.__path__[0]) / "mlp_100runs.etdp", name="mine")
    result = run_etq("demo", "--db", other)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "its capture mine has the name or the content" in result.stderr
    assert [row["name"] for row in rows("captures", "--db", other)] == ["mine"]


def test_a_real_process_and_a_closed_pipe(lab: str) -> None:
    command = [sys.executable, "-m", "etq", "sql", "SELECT * FROM range(200000)", "--db", lab]
    with process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout is not None and started.stderr is not None
        started.stdout.readline()
        started.stdout.close()
        assert started.stderr.read() == b""


def test_version_lists_the_versions_of_libraries() -> None:
    """Each library's version as the library reports it, and the schema version of a warehouse."""
    lines = run_etq("--version").stdout.splitlines()
    with empty_warehouse() as warehouse:
        [(schema,)] = warehouse.rows("SELECT schema_version FROM warehouse")[1]
    versions = dict(line.split(maxsplit=1) for line in lines[1:])
    expected = {"schema": str(schema), "Python": platform.python_version(), "duckdb": duckdb.__version__}
    assert lines[0] == f"etq, version {etq.__version__}" and expected.items() <= versions.items()
    assert platform.system() in versions["platform"]


@pytest.mark.long
def test_start_up_imports_only_what_a_command_uses() -> None:
    heavy = {
        *("duckdb", "numpy", "pyarrow", "pyarrow.compute", "pandas", "sqlglot", "torch", "etq.cli.lake"),
        "etq.inspector",
    }

    def imported(*arguments: str) -> set[str]:
        script = (
            "import sys\nfrom click.testing import CliRunner\nfrom etq.cli import main\n"
            f"CliRunner().invoke(main, {list(arguments)!r}, catch_exceptions=False)\n"
            f"print(' '.join(sorted({heavy!r} & set(sys.modules))))"
        )
        command, environment = [sys.executable, "-c", script], processes.environment()
        return {*subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split()}

    assert imported("--help") - {"etq.cli.lake"} == imported("views") == imported("--version") == set()
    # The first screen asks most of ingest and advice. Libraries look for pandas by themselves, where it is installed.
    for arguments in (("inspect", MLP), (MLP,), (str(CAPTURES / "torch_gpu" / "rank0.pt.trace.json.gz"),)):
        assert imported(*arguments) == {"duckdb", "numpy", "pyarrow"}, arguments
    assert imported("captures") == {"duckdb"}
