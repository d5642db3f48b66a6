"""Errors name the nearest name of the same kind, missing files, and the view that applies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import etq
from etq import cli
from etq.warehouse.warehouse import Warehouse
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.warehouses import empty_warehouse

MLP = str(CAPTURES / "mlp/mlp.etdp")
TRACE = str(CAPTURES / "torch/steps_7.pt.trace.json.gz")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("words") / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(MLP, name="run", labels={"device": "pixel8", "model": "mlp", "build": "1"})
        warehouse.ingest(CAPTURES / "mlp/mlp_method_only.etdp", name="untraced", labels={"device": "watch"})
    return str(path)


@pytest.fixture(scope="module")
def stored() -> Iterator[Warehouse]:
    with empty_warehouse() as warehouse:
        warehouse.ingest(MLP, name="run")
        yield warehouse


def test_each_selector_that_matches_nothing_is_named(lab: str) -> None:
    for command in ("captures", "prune --keep-last 9"):
        done = run_etq(*command.split(), "device=pixel8", "devise=pixel8", "--db", lab)
        note = "Note: no capture matches devise=pixel8: no label is named 'devise'; the nearest are device\n"
        assert done.exit_code == 0 and done.stderr.startswith(note) and done.stderr.count("Note") == 1


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ops devise=pixel8", "no capture matches devise=pixel8: no label is named 'devise'; the nearest are device"),
        ("ops device=pixel9", "no capture matches device=pixel9: none has device=pixel9; the nearest are pixel8"),
        ("ops device=watch,model=mlp", "no capture matches device=watch,model=mlp: none has all of these labels"),
        ("ops rum", "no capture matches rum; the nearest are run, untraced"),
        ("captures --sort modle", "no capture has a label 'modle'; the nearest are model; "),
        ("ops run --sort-by totl", "no column 'totl' to sort by; the nearest are total; known are "),
        ("events run --sort-by event_nam", "no column 'event_nam' to sort by; the nearest are event_name, event_block_name; known are "),
        ("regressions --by devise", "no capture has a label 'devise'; the nearest are device; "),
        ("trend --over bild", "no capture has a label 'bild'; the nearest are build; "),
        ("link run nosuch/x.etrecord", "nosuch/x.etrecord: no such file, and no record of that name"),
        ("label nosuch.etdp", "nosuch.etdp: no such file, and no capture of that name; there are "),
        ("ops no/such.etdp", "no/such.etdp: no such file, and no capture of that name; there are "),
        ("program nosuch.pte", "nosuch.pte: no such file, and no program of that name"),
        (f"label {MLP}", f"{MLP}: this command takes a capture of the warehouse, not a file; ingest the file first"),
        ("flame run --skip-first 1000", "no time to draw: no selected run has an execute (skip_first=1000)"),
    ],
)  # fmt: skip
def test_errors(command: str, expected: str, lab: str) -> None:
    result = run_etq(*command.split(), "--db", lab)
    [line] = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert line.startswith(f"Error: {expected}"), line
    assert result.exit_code == 1


def test_the_list_of_commands_has_whole_sentences() -> None:
    """In a terminal of 80 columns, no summary is cut off."""
    text = CliRunner().invoke(cli.main, ["--help"], terminal_width=80).output
    assert "Show where the time of an execute went, op by op.\n" in text
    assert [line for line in text.splitlines() if line.endswith("...")] == ["Usage: main [OPTIONS] COMMAND [ARGS]..."]


@pytest.mark.parametrize("command", ["device-idle", "key_averages"])
def test_a_view_without_a_command(command: str) -> None:
    output = run_etq(command).output
    view = command.replace("-", "_")
    assert f"No such command '{command}'; {view} is a view: etq show {view}" in " ".join(output.split())
    assert run_etq("views", view).exit_code == 0


def test_mistyped_commands() -> None:
    assert "'ops'" in run_etq("opps").stderr and "'ingest'" in run_etq("ingset").stderr
    assert "'compact'" in run_etq("lake", "compcat").stderr


@pytest.mark.parametrize("command", ["ops run", "events run", "breakdown run", "percentiles run", f"inspect {MLP}"])
def test_a_schedule_that_leaves_no_run(command: str, lab: str) -> None:
    db = [] if command.startswith("inspect") else ["--db", lab]
    result = run_etq(*command.split(), "--skip-first", "1000", *db)
    assert f"Note: no run of {command.split()[1]} is left: skip_first=1000 leaves out all 6\n" in result.stderr


@pytest.mark.parametrize(
    ("command", "other"),
    [
        ("breakdown", "etq steps"),
        ("modules", "etq ops --by module"),
        ("coverage", "etq kernels"),
    ],
)
def test_the_view_of_the_other_format_is_named(command: str, other: str) -> None:
    assert other in run_etq(command, TRACE).stderr


def test_the_command_of_etdumps_is_named(lab: str) -> None:
    assert "; for that there is etq breakdown\n" in run_etq("steps", "run", "--db", lab).stderr


@pytest.mark.parametrize(
    "view",
    ["op_totals", "inspector_events", "percentiles", "event_times", "framework_tax", "time_tree", "typical_runs",
     "execute_breakdown", "timeline", "event_histogram", "iterations", "headline", "advice", "slow_runs", "run_times"],
)  # fmt: skip
def test_an_unknown_method_is_an_error_in_sql(view: str, stored: Warehouse) -> None:
    with pytest.raises(etq.QueryError, match="^no run is of method 'typo'; the methods are Default, Execute$"):
        stored.rows(f"FROM {view}('run', method := 'typo')")
    assert stored.rows(f"FROM {view}('run', method := 'Execute')")[0]


@pytest.mark.parametrize("quantiles", ["[1.5]", "[0.5, NULL]", "[-0.1]", "[]", "NULL", "['nan'::DOUBLE]"])
def test_quantiles_out_of_range(quantiles: str, stored: Warehouse) -> None:
    with pytest.raises(etq.QueryError, match="^quantiles must be a list of numbers between 0 and 1, not "):
        stored.rows(f"FROM percentiles('run', quantiles := {quantiles})")


def test_paths_of_files_that_exist_are_read(tmp_path: Path) -> None:
    path = tmp_path / "run.etdp"
    path.write_bytes(Path(MLP).read_bytes())
    assert run_etq("ops", str(path)).exit_code == 0
