"""ETRecords on the command line: `--etrecord`, `--pte`, `link`, `modules`, `sources`, `coverage`, `graph`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import etq
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.warehouses import empty_warehouse

MLP = str(CAPTURES / "mlp/mlp.etdp")
RECORD = str(CAPTURES / "mlp/mlp.etrecord")
PROGRAM = str(CAPTURES / "mlp/mlp.pte")
XNN = str(CAPTURES / "mlp_xnn/mlp_xnn.etdp")
XNN_RECORD = str(CAPTURES / "mlp_xnn/mlp_xnn.etrecord")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("lab") / "lab.duckdb")
    with etq.open(path) as warehouse:
        warehouse.ingest(MLP, name="run")
    return path


@pytest.fixture
def lab(stored: str, tmp_path: Path) -> str:
    """A warehouse file of a capture that has no record yet, to be written to."""
    return str(shutil.copy(stored, tmp_path))


def test_inspect_with_a_record() -> None:
    result = run_etq("inspect", MLP, "--etrecord", RECORD, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    rows = {row["event_name"]: row for row in json.loads(result.stdout)}
    # By eye, from the model's source: the head is Sequential(LayerNorm, Linear), in line 32.
    norm = rows["native_call_native_layer_norm.out"]
    assert norm["op_types"] == ["aten.native_layer_norm.default"]
    assert (norm["module_path"], norm["source_file"], norm["source_line"]) == ("head.0", "models/export_models.py", 32)
    assert rows["Method::execute"]["module_path"] is None


def test_inspect_shortens_the_ops_of_a_call_on_the_screen_only() -> None:
    shown = run_etq("inspect", XNN, "--etrecord", XNN_RECORD).stdout
    assert "aten.linear.default, aten.relu.default, aten.linear.default, 12 more" in shown
    written = run_etq("inspect", XNN, "--etrecord", XNN_RECORD, "--format", "json").stdout
    calls = [row["op_types"] for row in json.loads(written) if row["event_name"] == "DELEGATE_CALL"]
    assert [len(ops) for ops in calls] == [15, 1]


def test_a_record_of_another_program_is_warned_of() -> None:
    result = run_etq("inspect", MLP, "--etrecord", str(CAPTURES / "convnet/convnet.etrecord"))
    assert result.exit_code == 0
    assert result.stderr.startswith("Warning: foreign record: the record convnet is of another program: it fits ")


def test_ingest_with_a_record_serves_all_files(tmp_path: Path) -> None:
    db = str(tmp_path / "lab.duckdb")
    other = str(CAPTURES / "mlp/mlp_method_only.etdp")
    result = run_etq("ingest", MLP, other, "--etrecord", RECORD, "--pte", PROGRAM, "--db", db)
    assert (result.exit_code, result.stderr) == (0, "mlp: ingested\nmlp_method_only: ingested\n")
    query = """SELECT c.name AS capture, r.name AS record, p.name AS program FROM captures AS c
        JOIN records AS r USING (record_id) JOIN programs AS p USING (program_id) ORDER BY c.name"""
    assert json.loads(run_etq("sql", query, "--db", db, "--format", "json").stdout) == [
        {"capture": "mlp", "record": "mlp", "program": "mlp"},
        {"capture": "mlp_method_only", "record": "mlp", "program": "mlp"},
    ]


def test_ingest_in_python_takes_the_record_and_the_program(tmp_path: Path) -> None:
    with empty_warehouse() as warehouse:
        capture = warehouse.ingest(MLP, etrecord=RECORD, pte=Path(PROGRAM).read_bytes())
        linked = "SELECT record_id, program_id FROM captures"
        assert warehouse.rows(linked)[1] == [(1, 1)] and capture.is_new
        methods = warehouse.rows("SELECT DISTINCT method FROM runs WHERE method NOT NULL")[1]
        assert methods == [("forward",)]
        assert not warehouse.ingest(MLP, etrecord=RECORD).is_new
        bad = tmp_path / "bad.etrecord"
        bad.write_bytes(Path(RECORD).read_bytes()[:5000])
        with pytest.raises(etq.FormatError, match="the zip is damaged"):
            warehouse.ingest(CAPTURES / "mlp/mlp_method_only.etdp", etrecord=bad)
        assert [name for (name,) in warehouse.rows("SELECT name FROM captures")[1]] == ["mlp"]


def test_a_record_that_is_damaged_stops_before_anything_is_stored(tmp_path: Path) -> None:
    db, bad = str(tmp_path / "lab.duckdb"), tmp_path / "bad.etrecord"
    bad.write_bytes(Path(RECORD).read_bytes()[:5000])
    result = run_etq("ingest", MLP, "--etrecord", str(bad), "--db", db)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {bad}: the zip is damaged: ") and result.stderr.count("\n") == 1
    assert json.loads(run_etq("captures", "--db", db, "--format", "json").stdout) == []


def linkable(lab: str) -> list[str]:
    """The names of the records and programs of a warehouse."""
    with etq.open(lab, read_only=True) as warehouse:
        return [name for (name,) in warehouse.rows("SELECT name FROM records UNION ALL SELECT name FROM programs")[1]]


def test_link_and_ask(lab: str) -> None:
    unlinked = run_etq("modules", "run", "--db", lab)
    assert (unlinked.exit_code, unlinked.stdout) == (1, "")
    assert "run has no record" in unlinked.stderr and "etq link run RECORD" in unlinked.stderr
    assert run_etq("link", "run", RECORD, "--db", lab).stderr == "run: linked to mlp\n"
    assert run_etq("link", "run", "mlp", "--db", lab).stderr == "run: linked to mlp\n"
    assert run_etq("link", "run", PROGRAM, "--db", lab).stderr == "run: linked to mlp\n"
    modules = json.loads(run_etq("modules", "run", "--db", lab, "--format", "json").stdout)
    # By eye, from the model's source.
    classes = {row["module"]: row["module_class"] for row in modules}
    assert classes["(model)"] == "__main__.MLP"
    assert classes["block1.up.linear"] == "torch.nn.modules.linear.Linear"
    # Self times and the rows in parentheses add up to the executes' total, 100 %.
    shares = [row["share_percent"] for row in modules if row["module"] in ("(model)", "(framework)", "(unattributed)")]
    assert sum(shares) == pytest.approx(100, abs=1e-9)
    sources = json.loads(run_etq("sources", "run", "--db", lab, "--format", "json").stdout)
    assert sum(row["share_percent"] for row in sources) == pytest.approx(100, abs=1e-9)
    assert {"models/export_models.py:21", "models/export_models.py:25", "models/export_models.py:32"} <= {
        row["source"] for row in sources
    }


def test_a_record_of_another_program_does_not_replace_a_link(lab: str) -> None:
    foreign = str(CAPTURES / "convnet/convnet.etrecord")
    run_etq("link", "run", RECORD, "--db", lab)
    modules = run_etq("modules", "run", "--db", lab, "--format", "csv").stdout
    refused = run_etq("link", "run", foreign, "--db", lab)
    assert refused.exit_code == 1
    assert refused.stderr.startswith(
        "Error: run: not linked, and stays linked to mlp: the record convnet is of another program: it fits "
    )
    assert "--force links it" in refused.stderr
    assert linkable(lab) == ["mlp"]  # what is refused isn't kept
    assert run_etq("modules", "run", "--db", lab, "--format", "csv").stdout == modules
    forced = run_etq("link", "run", foreign, "--force", "--db", lab)
    assert forced.exit_code == 0 and forced.stderr.endswith("\nrun: linked to convnet instead of mlp\n")
    assert forced.stderr.startswith("Warning: foreign record: ")
    assert run_etq("link", "run", RECORD, "--db", lab).stderr == "run: linked to mlp instead of convnet\n"


def test_a_program_of_another_model_is_not_linked(lab: str) -> None:
    refused = run_etq("link", "run", str(CAPTURES / "convnet/convnet.pte"), "--db", lab)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("Error: run: not linked: the program convnet is of another program: it fits ")
    assert "run has no record" in run_etq("modules", "run", "--db", lab).stderr
    assert linkable(lab) == []


def test_link_reports_missing_captures_and_records(lab: str) -> None:
    for arguments, message in (
        (("run", "nonesuch"), "no record matches nonesuch"),
        (("nonesuch", RECORD), "no capture matches nonesuch"),
        (("run", MLP), "this is an ETDump, not an ETRecord; give the .etrecord of the program"),
    ):
        result = run_etq("link", *arguments, "--db", lab)
        assert (result.exit_code, result.stdout) == (1, "")
        assert message in result.stderr and result.stderr.count("\n") == 1


def test_coverage_of_a_record_and_of_a_run() -> None:
    before = run_etq("coverage", XNN_RECORD, "--format", "json")
    assert before.stderr == "2 calls of XnnpackBackend\n"
    # As executorch's get_delegation_info counts them.
    assert {row["op_type"]: (row["delegated"], row["not_delegated"]) for row in json.loads(before.stdout)} == {
        "aten.native_layer_norm.default": (0, 1),
        "aten.add.Tensor": (3, 0),
        "aten.linear.default": (7, 0),
        "aten.relu.default": (6, 0),
    }
    [worst, *_] = json.loads(run_etq("coverage", XNN, "--etrecord", XNN_RECORD, "--format", "json").stdout)
    assert (worst["op_type"], worst["worst_source"]) == ("aten.native_layer_norm.default", "models/export_models.py:32")
    assert worst["total"] > 0


@pytest.mark.long
def test_coverage_of_a_record_whose_ops_delegates_took_in_part() -> None:
    """expand_copy, view_copy and bmm are made of one matmul, and share a debug handle; the backend took bmm alone."""
    path = str(CAPTURES / "delegation/attention_bmm/attention_bmm.")
    alone = run_etq("coverage", path + "etrecord", "--format", "json")
    assert alone.stderr.splitlines()[1:] == [
        "Which nodes delegates took of ops that became several is a guess where basis is handles: give the --pte"
    ]
    from_files = run_etq("coverage", path + "etrecord", "--pte", path + "pte", "--format", "json")
    assert from_files.stderr == "2 calls of OtherBackend\n"
    expected = {"aten.bmm.default": (2, 0), "aten.expand_copy.default": (0, 4), "aten.view_copy.default": (0, 14)}
    run = run_etq("coverage", path + "etdp", "--etrecord", path + "etrecord", "--pte", path + "pte", "--format", "json")
    for result in (from_files, run):
        rows = {row["op_type"]: (row["delegated"], row["not_delegated"]) for row in json.loads(result.stdout)}
        assert {op: rows[op] for op in expected} == expected


def test_coverage_of_one_method_of_a_record() -> None:
    path = str(CAPTURES / "delegation/two_methods/two_methods.")
    both, one = (
        run_etq("coverage", path + "etrecord", "--pte", path + "pte", "--format", "json", *method)
        for method in ((), ("--method", "decode"))
    )
    of_decode = [row for row in json.loads(both.stdout) if row["method"] == "decode"]
    assert json.loads(one.stdout) == of_decode != json.loads(both.stdout)
    unknown = run_etq("coverage", path + "etrecord", "--method", "nonesuch")
    assert unknown.exit_code == 1 and "its methods are decode, forward" in unknown.stderr


def test_coverage_refuses_the_program_of_another_record() -> None:
    path = str(CAPTURES / "delegation/two_methods/two_methods.etrecord")
    result = run_etq("coverage", path, "--pte", str(CAPTURES / "mlp/mlp.pte"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Error: the program mlp was not exported with the record two_methods" in result.stderr


@pytest.mark.long
def test_graph_is_of_typical_runs_or_all_and_of_one_method() -> None:
    folder = CAPTURES / "multimethod"
    given = [str(folder / "multimethod_100runs.etdp"), "--etrecord", str(folder / "multimethod.etrecord")]
    typical, all_runs, decode = (
        run_etq("graph", "--dot", *given, *more) for more in ((), ("--runs", "all"), ("--method", "decode"))
    )
    assert "typical runs of" in typical.stderr
    assert all_runs.stderr == "" and all_runs.stdout != typical.stdout
    assert "m.enc" in typical.stdout and "m.enc" not in decode.stdout and "m.dec" in decode.stdout


def test_graph_is_one_of_graphviz(lab: str) -> None:
    run_etq("link", "run", RECORD, "--db", lab)
    result = run_etq("graph", "run", "--dot", "--runs", "all", "--db", lab)
    assert (result.exit_code, result.stderr) == (0, "")
    first, _, *lines, last = result.stdout.splitlines()
    assert (first, last) == ("digraph ops {", "}")
    nodes = [line for line in lines if "[label=" in line]
    assert len(nodes) == 24  # 7 linears of a permute and an addmm each, 6 relus, 3 adds and a LayerNorm
    assert all(re.fullmatch(r'  n\d+_\d+ \[label="(?:[^"\\]|\\.)+", fillcolor="[\d. ]+"\];', line) for line in nodes)
    edges = [line for line in lines if "->" in line]
    # By hand: 6 within each block, 2 from one block to the next, 3 of the head.
    assert len(edges) == 3 * 6 + 2 * 2 + 3
