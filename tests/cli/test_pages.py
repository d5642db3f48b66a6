"""Pages that commands write: which files they overwrite, what is opened, and graphs without a run."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import pytest

import etq
from tests.command_line import run_etq
from tests.conftest import CAPTURES

MLP = CAPTURES / "mlp"
RUN, OTHER, RECORD, PROGRAM = (str(MLP / name) for name in ("mlp.etdp", "mlp_static.etdp", "mlp.etrecord", "mlp.pte"))


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


def test_a_report_overwrites_its_own_earlier_page_alone(tmp_path: Path, opened: list[str]) -> None:
    page = tmp_path / "mlp.html"
    assert run_etq("report", RUN).exit_code == 0
    page.write_text(page.read_text() + "<!-- earlier -->")
    assert run_etq("report", RUN).stderr == "mlp.html: the report of mlp\n"
    assert "<!-- earlier -->" not in page.read_text()
    before = page.read_text()
    for arguments in (("report", OTHER), ("report", RUN, OTHER), ("graph", RUN, "--etrecord", RECORD)):
        result = run_etq(*arguments, "--html" if arguments[0] == "graph" else "-o", "mlp.html")
        assert (result.exit_code, result.stderr) == (1, "Error: mlp.html: exists; overwrite it with --force\n")
    assert page.read_text() == before and opened == []


@pytest.mark.parametrize(
    ("arguments", "page"),
    [
        (("report", RUN, "--open"), "mlp.html"),
        (("open", RUN), "mlp.html"),
        (("open", RUN, OTHER), None),
        (("graph", PROGRAM, "--open"), "mlp_graph.html"),
        (("open", RECORD), "mlp_graph.html"),
    ],
)
def test_a_page_is_opened(arguments: tuple[str, ...], page: str | None, tmp_path: Path, opened: list[str]) -> None:
    assert run_etq(*arguments).exit_code == 0
    [written] = tmp_path.iterdir()
    assert opened == [written.as_uri()] and page in (None, written.name)


def test_without_a_browser_a_note_says_so(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    assert "Note: found no browser" in run_etq("report", RUN, "--open").stderr


@pytest.mark.parametrize("name", ["", "lab.duckdb"])
def test_a_warehouse_is_served(name: str, opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    etq.open("lab.duckdb").close()
    served = []
    monkeypatch.setattr("etq.serve.running.run", lambda path, *_, opens, **__: served.append((path, opens)))
    assert run_etq("open", *([name] if name else ["--db", "lab.duckdb"])).exit_code == 0
    assert served == [("lab.duckdb", True)]


def test_the_graph_of_a_record_alone_has_the_nodes_of_its_edge_program() -> None:
    """As with a run, but for times."""
    alone = json.loads(run_etq("graph", RECORD, "--format", "json").stdout)
    of_run = json.loads(run_etq("graph", RUN, "--etrecord", RECORD, "--format", "json").stdout)
    assert [node["name"] for node in alone["nodes"]] == [node["name"] for node in of_run["nodes"]] != []
    assert alone["edges"] == of_run["edges"]
    assert all(node["self_time"] is None and node["calls"] is None for node in alone["nodes"])
    assert any(node["self_time"] for node in of_run["nodes"])
    assert "no times" in alone["note"]


def test_the_graph_of_a_delegated_record_has_backends() -> None:
    record = str(CAPTURES / "mlp_xnn/mlp_xnn.etrecord")
    nodes = json.loads(run_etq("graph", record, "--format", "json").stdout)["nodes"]
    assert {node["backend"] for node in nodes} == {"XnnpackBackend", None}


def test_the_graph_of_a_program_alone_is_that_of_the_edge_program() -> None:
    """A program without delegates has an instruction for each node of the record's edge program, in the same order."""
    program = json.loads(run_etq("graph", PROGRAM, "--format", "json").stdout)
    record = json.loads(run_etq("graph", RECORD, "--format", "json").stdout)
    assert [node["op"] for node in program["nodes"]] == [node["op"] for node in record["nodes"]]

    def edges(graph: dict[str, object]) -> set[tuple[int, int]]:
        return {(edge["from"], edge["to"]) for edge in graph["edges"]}  # type: ignore[attr-defined]

    assert edges(program) == edges(record) != set()


def test_a_program_with_delegates_shows_their_calls() -> None:
    program = str(CAPTURES / "mlp_xnn/mlp_xnn.pte")
    graph = json.loads(run_etq("graph", program, "--format", "json").stdout)
    assert [node["op"] for node in graph["nodes"]] == ["XnnpackBackend", "native_layer_norm", "XnnpackBackend"]
    assert [(edge["from"], edge["to"]) for edge in graph["edges"]] == [(0, 1), (1, 2)]


def test_other_forms_need_a_capture() -> None:
    assert "--format dot is of a capture" in run_etq("graph", RECORD, "--dot").stderr
