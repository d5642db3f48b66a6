"""`etq graphs`: two op graphs, of files and of a warehouse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import etq
from etq.cli import main
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.warehouses import empty_warehouse

MLP, DELEGATED = (str(CAPTURES / f"{name}/{name}.etrecord") for name in ("mlp", "mlp_xnn"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> str:
    db = str(tmp_path_factory.mktemp("lab") / "lab.duckdb")
    with etq.open(db) as warehouse:
        warehouse.ingest(CAPTURES / "mlp/mlp.etdp", name="run", etrecord=MLP)
    return db


def graphs(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(main, ["graphs", *arguments])
    assert result.exit_code == status, result.output
    return result.output


@pytest.mark.long
def test_files(lab: str) -> None:
    rows = json.loads(graphs(MLP, DELEGATED, "--all", "--format", "json", "--db", lab))
    with empty_warehouse() as warehouse:
        names = [warehouse.ingest_record(path).name for path in (MLP, DELEGATED)]
        columns, expected = warehouse.rows("FROM compare_graphs($base, $new)", base=names[0], new=names[1])
        assert rows == [dict(zip(columns, row, strict=True)) for row in expected]
    assert "name two files" in graphs(MLP, "run", "--db", lab, status=1)
    assert "its stages are" in graphs(MLP, DELEGATED, "--new-stage", "nix", "--db", lab, status=1)
    assert "no capture or record matches nix; there are mlp" in graphs("nix", "run", "--db", lab, status=1)


@pytest.mark.long
def test_a_page(lab: str, tmp_path: Path) -> None:
    path = tmp_path / "graphs.html"
    text = graphs("run", "mlp", "--html", str(path), "--db", lab)
    assert text == f"{path}: the graphs of run and mlp\n" and "<title>run and mlp</title>" in path.read_text()
    assert "exists; overwrite it with --force" in graphs("run", "mlp", "--html", str(path), "--db", lab, status=1)
    text = graphs("run", "run", "--base-stage", "exported", "--html", "-", "--db", lab)
    assert "<title>run (exported) and run (delegated)</title>" in text
    assert "--html is a form of its own" in graphs("run", "mlp", "--html", "-", "--all", "--db", lab, status=2)
    assert graphs(MLP, DELEGATED, "--html", "-", "--db", lab).startswith("<!DOCTYPE html>")


def test_an_output_is_refused_before_it_is_computed(lab: str, tmp_path: Path) -> None:
    """No capture has this name. The error about the output comes first."""
    path = tmp_path / "there"
    path.write_text("kept", encoding="utf-8")
    result = {}
    for command in (("graph", "nix"), ("graphs", "nix", "nix")):
        for option in (("--html", str(path)), ("--format", "json", "-o", str(path))):
            result[command, option] = CliRunner().invoke(main, [*command, *option, "--db", lab])
        for option in (("--html", ""), ("--format", "json", "-o", "")):
            empty = CliRunner().invoke(main, [*command, *option, "--db", lab])
            assert empty.output == "Error: the name of the output is empty; name a file, or - for stdout\n"
            assert empty.exit_code == 1
    for each in result.values():
        assert each.exit_code == 1 and each.output == f"Error: {path}: exists; overwrite it with --force\n"
    assert path.read_text(encoding="utf-8") == "kept"


def test_stdout_is_never_refused(lab: str) -> None:
    for options in (("-o", "-", "--force"), ("-o", "-"), ()):
        result = CliRunner().invoke(main, ["graph", "run", "--format", "dot", *options, "--db", lab])
        assert result.exit_code == 0 and result.stdout.startswith("digraph")


def test_an_overlay_for_model_explorer(lab: str, tmp_path: Path) -> None:
    path = tmp_path / "calls.json"
    command = ["graph", "run", "--format", "model-explorer", "--overlay", "calls", "-o", str(path), "--db", lab]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0 and f"{path}: the graph of run" in result.output
    data = json.loads(path.read_text(encoding="utf-8"))["graph"]
    assert data["name"] == "run: calls" and len(data["results"]) == 24
    result = CliRunner().invoke(main, ["graph", "run", "--format", "json", "--overlay", "calls", "--db", lab])
    assert result.exit_code == 2 and "--overlay only applies to --format model-explorer" in result.output


@pytest.mark.long
def test_tables_and_captures(lab: str) -> None:
    text = graphs(MLP, DELEGATED, "--limit", "2", "--db", lab)
    assert "op, backend" in text and "XnnpackBackend" in text and "base_dtypes" not in text
    alike = graphs("run", "mlp", "--base-stage", "edge", "--new-stage", "edge", "--db", lab)
    assert "all nodes are the same" in alike
    timed = json.loads(graphs("run", "run", "--unit", "ns", "--format", "json", "--db", lab))
    assert {row["unit"] for row in timed} == {"ns"} and any(row["new_time"] > 0 for row in timed if row["new_time"])


@pytest.mark.parametrize("options", [("--limit", "3"), ("--sort-by", "new_time")])
def test_a_page_has_no_rows_to_select(options: tuple[str, ...]) -> None:
    text = graphs("run", "mlp", "--html", "-", *options, "--db", "none.duckdb", status=2)
    assert "--limit, --sort-by and --columns only apply to tables" in text


def test_modules_of_a_graph_without_a_run_have_the_costs_of_their_ops() -> None:
    graph = json.loads(run_etq("graph", MLP, "--format", "json").stdout)
    for cost in ("flops", "bytes"):
        whole = next(group for group in graph["groups"] if group["parent"] is None)
        assert whole[cost] == sum(node[cost] or 0 for node in graph["nodes"]) > 0
        ops = [node for node in graph["nodes"] if node["module_path"] == "block1.up.linear"]
        module = next(group for group in graph["groups"] if group["module_path"] == "block1.up.linear")
        assert ops and module[cost] == sum(node[cost] or 0 for node in ops)


def test_files_that_are_not_records(lab: str, tmp_path: Path) -> None:
    dump, program = str(CAPTURES / "mlp/mlp.etdp"), str(CAPTURES / "multimethod/multimethod.pte")
    for db in (lab, str(tmp_path / "none.duckdb")):
        assert graphs(MLP, "missing.etrecord", "--db", db, status=1) == "Error: missing.etrecord: no such file\n"
        for sides in ((dump, dump), (program, "run"), (program, MLP)):
            expected = f"Error: {sides[0]}: not an ETRecord; name two ETRecords, or two captures of a warehouse\n"
            assert graphs(*sides, "--db", db, status=1) == expected


def test_what_delegate_graph_lacks() -> None:
    """A program without XNNPACK, no program, a trace."""
    folder = CAPTURES / "demo_int"
    dump, program = str(folder / "demo_int.etdp"), str(folder / "demo_int.pte")
    result = CliRunner().invoke(main, ["delegate-ops", dump, "--pte", program, "--runs", "all"])
    assert result.exit_code == 0
    assert f"{dump} ran no delegate whose graphs etq reads: those of XNNPACK and Vulkan" in result.stderr
    result = CliRunner().invoke(main, ["delegate-ops", dump])
    assert (
        result.exit_code,
        "demo_int: link its program (.pte), which has the delegates' graphs: etq link" in result.stderr,
    ) == (
        1,
        True,
    )
    trace = str(sorted((CAPTURES / "torch").glob("*.pt.trace.json.gz"))[0])
    result = CliRunner().invoke(main, ["delegate-ops", trace])
    assert result.exit_code == 1
    assert (
        "etq delegate-ops is for ETDumps, and this is a PyTorch trace; for that there is etq kernels" in result.stderr
    )


def test_a_program_that_did_not_run() -> None:
    """Its graph is shown, with a note that no event belongs to it; without one for the program that ran."""
    folder = CAPTURES / "convnet_xnn"
    dump, record = str(folder / "convnet_xnn_100runs.etdp"), str(folder / "convnet_xnn.etrecord")
    note = f"Note: no event of {dump} matches the graphs of this program's delegates: is it the program that ran?"
    for program, is_noted in ((CAPTURES / "mlp_xnn/mlp_xnn.pte", True), (folder / "convnet_xnn.pte", False)):
        files = ["--etrecord", record, "--pte", str(program)]
        result = CliRunner().invoke(main, ["delegate-ops", dump, *files, "--format", "json"])
        assert {row["calls"] is not None for row in json.loads(result.stdout)} == {not is_noted}
        assert (note in result.stderr) == is_noted


def test_the_list_of_commands_has_the_whole_help_of_delegate_ops() -> None:
    lines = CliRunner().invoke(main, ["--help"], terminal_width=80).stdout.splitlines()
    [line] = [line for line in lines if line.split()[:1] == ["delegate-ops"]]
    assert line.endswith("Show the ops of delegates' graphs, their nodes and times.")


def test_the_ops_of_a_delegate() -> None:
    folder = CAPTURES / "mlp_xnn"
    files = ["--etrecord", str(folder / "mlp_xnn.etrecord"), "--pte", str(folder / "mlp_xnn.pte")]
    result = CliRunner().invoke(main, ["delegate-ops", str(folder / "mlp_xnn.etdp"), *files, "--format", "json"])
    rows = json.loads(result.stdout)
    assert [row["op"] for row in rows] == ["FullyConnected", "FullyConnected", "Add"] * 3 + ["FullyConnected"]
    assert [row["node_name"] for row in rows[:3]] == ["aten_linear_default", "aten_linear_default_1", "aten_add_tensor"]


def test_times_of_delegates_below_the_clocks_resolution_have_a_note() -> None:
    """XNNPACK's clock counts microseconds: of 11 ops, 6 take less on average. By the file: sum below 1000 ns a call."""
    dump = str(CAPTURES / "convnet_xnn/convnet_xnn_100runs.etdp")
    with empty_warehouse() as warehouse:
        warehouse.ingest(dump, name="run")
        query = """
            SELECT e.signature_index, e.end_ticks - e.start_ticks
            FROM events AS e JOIN signatures AS s USING (capture_id, signature_index) WHERE s.kind = 'delegate'
        """
        times: dict[int, list[int]] = {}
        for event, ticks in warehouse.rows(query)[1]:
            times.setdefault(event, []).append(ticks)
    below = sum(sum(each) < 1000 * len(each) for each in times.values())
    arguments = ["delegate-ops", dump, "--pte", str(CAPTURES / "convnet_xnn/convnet_xnn.pte")]
    note = f"Note: below the clock's resolution: {below} events of delegates take less time on average than its step of"
    assert below == 6
    for unit, step in ((), "1 us"), (("--unit", "ns"), "1000 ns"):
        assert f"{note} {step}\n" in CliRunner().invoke(main, [*arguments, *unit]).stderr
    # What the delegates' events don't explain is unaccounted time elsewhere, for the same reason.
    for command in ("delegates", "breakdown"):
        assert f"{note} 1 us\n" in CliRunner().invoke(main, [command, dump]).stderr
    without = str(CAPTURES / "convnet/convnet_100runs.etdp")
    assert "clock's resolution" not in CliRunner().invoke(main, ["breakdown", without]).stderr
