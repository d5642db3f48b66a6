"""ETRecords and programs on the command line: `link`, `modules`, `coverage`; graphs and pages of them; logged values."""

from __future__ import annotations

import json
import shutil
import webbrowser
from pathlib import Path
from typing import Any

import pytest

import etq
from tests.cli.asked import rows
from tests.command_line import run_etq
from tests.conftest import CAPTURES

MLP, RECORD, PROGRAM, OTHER = (
    str(CAPTURES / "mlp" / name) for name in ("mlp.etdp", "mlp.etrecord", "mlp.pte", "mlp_static.etdp")
)
XNN, XNN_RECORD, XNN_PROGRAM = (str(CAPTURES / f"mlp_xnn/mlp_xnn.{end}") for end in ("etdp", "etrecord", "pte"))
FOREIGN = str(CAPTURES / "convnet/convnet.etrecord")


def test_inspect_with_a_record() -> None:
    # By eye, from the model's source: the head is Sequential(LayerNorm, Linear), in line 32.
    found = {row["event_name"]: row for row in rows("inspect", MLP, "--etrecord", RECORD)}
    norm = found["native_call_native_layer_norm.out"]
    assert norm["op_types"] == ["aten.native_layer_norm.default"]
    assert (norm["module_path"], norm["source_file"], norm["source_line"]) == ("head.0", "models/export_models.py", 32)
    assert found["Method::execute"]["module_path"] is None
    foreign = run_etq("inspect", MLP, "--etrecord", FOREIGN)
    assert foreign.exit_code == 0
    assert foreign.stderr.startswith("Warning: foreign record: the record convnet is of another program: it fits ")


@pytest.mark.long
def test_ingest_with_a_record_serves_all_files(tmp_path: Path) -> None:
    db, bad = str(tmp_path / "lab.duckdb"), tmp_path / "bad.etrecord"
    bad.write_bytes(Path(RECORD).read_bytes()[:5000])
    refused = run_etq("ingest", MLP, "--etrecord", str(bad), "--db", db)
    assert refused.exit_code == 1, "a damaged record stops it before anything is stored"
    assert refused.stderr.startswith(f"Error: {bad}: the zip is damaged: ") and refused.stderr.count("\n") == 1
    assert rows("captures", "--db", db) == []
    other = str(CAPTURES / "mlp/mlp_method_only.etdp")
    result = run_etq("ingest", MLP, other, "--etrecord", RECORD, "--pte", PROGRAM, "--db", db)
    assert (result.exit_code, result.stderr) == (0, "mlp: ingested\nmlp_method_only: ingested\n")
    with etq.open(db, read_only=True) as warehouse:
        linked = "SELECT c.name, c.record_id, c.program_id FROM captures AS c ORDER BY c.name"
        assert warehouse.rows(linked)[1] == [("mlp", 1, 1), ("mlp_method_only", 1, 1)]


@pytest.mark.long
def test_link_and_ask(copied: str) -> None:
    """A record or program of another program does not replace a link, and isn't kept, unless it is forced."""

    def link(*arguments: str, status: int = 0) -> str:
        result = run_etq("link", "run", *arguments, "--db", copied)
        assert (result.exit_code, result.stdout) == (status, ""), result.stderr
        return result.stderr

    def linkable() -> list[str]:
        with etq.open(copied, read_only=True) as warehouse:
            query = "SELECT name FROM records UNION ALL SELECT name FROM programs"
            return [name for (name,) in warehouse.rows(query)[1]]

    alien = link(str(CAPTURES / "convnet/convnet.pte"), status=1)
    assert alien.startswith("Error: run: not linked: the program convnet is of another program: it fits ")
    assert linkable() == ["convnet"]
    unlinked = run_etq("ops", "--by", "module", "run", "--db", copied)
    assert "run has no record" in unlinked.stderr and "etq link run RECORD" in unlinked.stderr
    for given in (RECORD, "mlp", PROGRAM):
        assert link(given) == "run: linked to mlp\n"
    modules = rows("ops", "--by", "module", "run", "--db", copied)
    # By eye, from the model's source.
    classes = {row["module_path"]: row["module_class"] for row in modules}
    assert classes["block1.up.linear"] == "torch.nn.modules.linear.Linear"
    sources = rows("ops", "--by", "source", "run", "--db", copied)
    assert {f"models/export_models.py:{line}" for line in (21, 25, 32)} <= {row["source"] for row in sources}
    refused = link(FOREIGN, status=1)
    assert refused.startswith(
        "Error: run: not linked, and stays linked to mlp: the record convnet is of another program: it fits "
    )
    assert "--force links it" in refused
    assert sorted(linkable()) == ["convnet", "mlp", "mlp"]
    forced = link(FOREIGN, "--force")
    assert forced.startswith("Warning: foreign record: ")
    assert forced.endswith("\nrun: linked to convnet instead of mlp\n")
    assert link(RECORD) == "run: linked to mlp instead of convnet\n"


@pytest.mark.long
def test_coverage_of_a_record_and_of_a_run() -> None:
    before = run_etq("coverage", XNN_RECORD, "--format", "json")
    assert before.stderr == "2 calls of XnnpackBackend\n"
    # As executorch's get_delegation_info counts them.
    assert {row["op_type"]: (row["delegated"], row["not_delegated"]) for row in json.loads(before.stdout)} == {
        "aten.native_layer_norm.default": (0, 1), "aten.add.Tensor": (3, 0), "aten.linear.default": (7, 0),
        "aten.relu.default": (6, 0),
    }  # fmt: skip
    assert rows("delegates", XNN_RECORD)[1]["instruction_id"] == 2
    assert [(row["instruction_id"], row["ops"]) for row in rows("delegates", XNN_PROGRAM)] == [(0, 9), (2, 1)]
    # Of a delegate whose blob isn't read, the number of ops is not known.
    for file in (XNN_RECORD, XNN_PROGRAM):
        assert rows("show", "delegates", file) == rows("delegates", file)
    assert rows("show", "program_delegates", XNN_PROGRAM)[1]["blob_bytes"] == 720
    two_backends = rows("delegates", str(CAPTURES / "delegation/conv_two_backends/conv_two_backends.pte"))
    assert [row["ops"] for row in two_backends] == [11, None, 7]
    program = {row["op_type"]: (row["delegated"], row["not_delegated"]) for row in rows("coverage", XNN_PROGRAM)}
    assert program == {"native_layer_norm": (0, 1), "Add": (3, 0), "FullyConnected": (7, 0)}
    assert run_etq("delegates", PROGRAM).stderr.startswith(f"Note: {PROGRAM} calls no delegate; ")
    worst = rows("coverage", XNN, "--etrecord", XNN_RECORD)[0]
    assert (worst["op_type"], worst["worst_source"]) == ("aten.native_layer_norm.default", "models/export_models.py:32")


# Graphs and pages


def graph(*arguments: str) -> dict[str, Any]:
    result = run_etq("graph", *arguments, "--format", "json")
    assert result.exit_code == 0, result.stderr
    return dict(json.loads(result.stdout))


@pytest.mark.long
def test_graphs_of_a_record_and_of_a_program_are_that_of_the_run() -> None:
    """As with a run, but for times; modules have the costs of their ops."""
    alone, of_run, program = graph(RECORD), graph(MLP, "--etrecord", RECORD), graph(PROGRAM)
    assert [node["name"] for node in alone["nodes"]] == [node["name"] for node in of_run["nodes"]] != []
    assert alone["edges"] == of_run["edges"] and "no times" in alone["note"]
    assert all(node["self_time"] is None and node["calls"] is None for node in alone["nodes"])
    assert any(node["self_time"] for node in of_run["nodes"])
    # A program without delegates has an instruction for each node of the edge program, in the same order.
    assert [node["op"] for node in program["nodes"]] == [node["op"] for node in alone["nodes"]]
    edges = [{(edge["from"], edge["to"]) for edge in each["edges"]} for each in (program, alone)]
    assert edges[0] == edges[1] != set()


def test_an_output_is_refused_before_it_is_computed(lab: str, tmp_path: Path) -> None:
    """No capture has this name. The error about the output comes first."""
    path = tmp_path / "there"
    path.write_text("kept")
    empty = "the name of the output is empty; name a file, or - for stdout"
    for output, message in ((str(path), f"{path}: exists; overwrite it with --force"), ("", empty)):
        for command in (("graph", "nix", "-o"), ("graph", "nix", "nix", "-o"), ("report", "nix", "-o")):
            result = run_etq(*command, output, "--db", lab)
            assert (result.exit_code, result.output) == (1, f"Error: {message}\n")
    assert run_etq("report", "nix", "-o", str(path), "--force", "--db", lab).exit_code == 1
    assert path.read_text() == "kept" and [*tmp_path.iterdir()] == [path]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser gets; commands run in an empty folder."""
    addresses: list[str] = []
    monkeypatch.chdir(tmp_path)

    def open_address(address: str) -> bool:
        addresses.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", open_address)
    return addresses


@pytest.mark.parametrize(
    ("command", "page"),
    [
        pytest.param(("report", MLP, OTHER, "--open"), None, marks=pytest.mark.long),
        (("graph", PROGRAM, "--open"), "mlp_graph.html"),
        (("graph", RECORD, "--open"), "mlp_graph.html"),
    ],
)
def test_a_page_is_opened(command: tuple[str, ...], page: str | None, tmp_path: Path, opened: list[str]) -> None:
    assert run_etq(*command).exit_code == 0
    [written] = tmp_path.iterdir()
    assert opened == [written.as_uri()] and page in (None, written.name)


@pytest.mark.long
def test_a_page_overwrites_its_own_earlier_one_alone(
    tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "mlp.html"
    assert run_etq("report", MLP).exit_code == 0
    page.write_text(page.read_text() + "<!-- earlier -->")
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    again = run_etq("report", MLP, "--open").stderr
    assert "mlp.html: the report of mlp\n" in again and "Note: found no browser" in again
    assert "<!-- earlier -->" not in page.read_text()
    before = page.read_text()
    for arguments in (("report", OTHER, "-o"), ("graph", MLP, "--etrecord", RECORD, "-o")):
        result = run_etq(*arguments, "mlp.html")
        assert (result.exit_code, result.stderr) == (1, "Error: mlp.html: exists; overwrite it with --force\n")
    assert page.read_text() == before and opened == []


def test_a_warehouse_is_served(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    etq.open("lab.duckdb").close()
    served = []
    monkeypatch.setattr("etq.serve.running.run", lambda path, *_, opens, **__: served.append((path, opens)))
    for name in (("lab.duckdb",), ("--db", "lab.duckdb")):
        assert run_etq("serve", *name, "--open").exit_code == 0
    assert served == [("lab.duckdb", True)] * 2


# Logged values


DUMP, BUFFER = (str(CAPTURES / f"mlp/mlp_debug.{end}") for end in ("etdp", "bin"))


def test_values_of_a_file_need_no_warehouse() -> None:
    found = rows("values", DUMP, "--debug-buffer", BUFFER, "--etrecord", RECORD)
    [head] = [row for row in found if row["module_path"] == "head.1" and row["op_name"] == "native_call_addmm.out"]
    [output] = [row for row in found if row["role"] == "program output"]
    assert (head["min"], head["max"], head["mean"]) == (output["min"], output["max"], output["mean"])
    assert output["sizes"] == [4, 10]


@pytest.mark.long
def test_gap_of_two_runtimes_and_of_a_reference(tmp_path: Path) -> None:
    """The same model run by portable kernels and by a delegate, and by torch."""
    db = str(tmp_path / "lab.duckdb")
    for name, record in (("mlp/mlp_debug", RECORD), ("mlp_xnn/mlp_xnn_debug", XNN_RECORD)):
        dump, buffer = (str(CAPTURES / name) + end for end in (".etdp", ".bin"))
        given = ("--etrecord", record, "--debug-buffer", buffer, "--values")
        assert run_etq("ingest", dump, *given, "--db", db).exit_code == 0
    asked = ("--metric", "SNR", "--worst", "3", "--format", "json")
    result = run_etq("gap", "mlp_debug", "mlp_xnn_debug", *asked, "--db", db)
    assert (result.exit_code, result.stderr) == (0, "Note: 14 values can't be compared: not logged in new\n")
    assert len(json.loads(result.stdout)) == 3
    pytest.importorskip("torch", reason="running a program needs torch")
    model = shutil.copy(RECORD, tmp_path / "model.etrecord")
    result = run_etq("ingest", str(model), "--reference", "--name", "truth", "--db", db)
    assert (result.exit_code, result.stderr) == (0, "truth: ingested, 17 ops\n")
    gaps = [row["gap"] for row in rows("gap", "truth", "mlp_debug", "--db", db) if row["gap"] is not None]
    assert len(gaps) == 17 and max(gaps) < 1e-12


def test_a_reference_needs_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("etq.torch.reference")
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    result = run_etq("ingest", RECORD, "--reference", "--db", str(tmp_path / "lab.duckdb"))
    assert result.exit_code == 1
    assert result.stderr == "Error: running a reference needs torch; install it with: pip install 'etq[torch]'\n"
    assert not (tmp_path / "lab.duckdb").exists()
