"""Relations and captures in a notebook: the bytes that a cell of IPython displays."""

from __future__ import annotations

import copy
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.database.handles import Capture
from etq.render.notebook import ROWS, bundle_of, described
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump, execute, kernel, run
from tests.conftest import CAPTURES

MLP = CAPTURES / "mlp/mlp_100runs.etdp"
EVIL = "<script>alert(1)</script>\x1b[2J&amp;"


class Table(HTMLParser):
    """Rows of cells of the table in a piece of HTML, and all tags that are in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert {name for name, _ in attributes} <= {"style", "class"}
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1] and data != "\n":
            self.rows[-1][-1] += data


class Notebook:
    """A real IPython whose cells are run and whose displayed results are kept."""

    def __init__(self, folder: Path) -> None:
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        config.HistoryManager.enabled = False
        InteractiveShell.clear_instance()
        self.shell = InteractiveShell.instance(config=config, ipython_dir=str(folder))
        self.shell.user_ns["CAPTURES"] = CAPTURES

    def shows(self, cell: str) -> dict[str, Any]:
        """The display data of the result of the cell's last line, by MIME type."""
        done = self.shell.run_cell(cell, store_history=False, silent=False)
        done.raise_error()
        shown, _ = self.shell.display_formatter.format(done.result)
        return dict(shown)


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    from IPython.core.interactiveshell import InteractiveShell

    yield Notebook(tmp_path)
    InteractiveShell.clear_instance()


def test_a_cell_shows_a_view_as_a_table(notebook: Notebook, all_captures: Warehouse) -> None:
    shown = notebook.shows(
        """
import etq
warehouse = etq.open()
capture = warehouse.ingest(CAPTURES / "mlp/mlp_100runs.etdp", labels={"device": "pixel8"})
warehouse.op_totals(capture, runs="all")
"""
    )
    table = Table(shown["text/html"])
    head, *rows = table.rows
    assert head == [column.strip() for column in all_captures.op_totals("mlp_100runs").columns]
    # By hand from `etq ops --format csv`: 24072.056 us in 700 calls; no instruction, as it is by family.
    assert rows[0] == [
        "permute_copy",
        "kernel",
        "Execute",
        "",
        "700",
        "24072.1",
        "34.3887",
        "2.614",
        "104.556",
        "67.0399",
        "us",
        "24072056",
        "100",
        "240.721",
    ]
    assert len(rows) == 7 and "NULL" not in shown["text/html"]
    assert shown["text/plain"].splitlines()[0].split() == head
    # A relation made from another one is displayed in the same way.
    assert len(Table(notebook.shows("warehouse.op_totals(capture).limit(2)")["text/html"]).rows) == 3
    captured = Table(notebook.shows("capture")["text/html"]).rows
    assert captured == [
        ["capture", "mlp_100runs"],
        ["sha256", captured[1][1]],
        ["format", "etdump"],
        ["labels", "device=pixel8"],
        ["size", f"{MLP.stat().st_size:,} bytes"],
    ]
    assert re.fullmatch("[0-9a-f]{64}", captured[1][1])


def test_long_results_are_cut_with_a_note(notebook: Notebook) -> None:
    notebook.shows("import etq; warehouse = etq.open()")
    for count in (ROWS - 1, ROWS, ROWS + 1, 100_000):
        html = notebook.shows(f"warehouse.sql('SELECT unnest(range({count})) AS x')")["text/html"]
        assert len(Table(html).rows) == 1 + min(count, ROWS)
        assert (f"the first {ROWS} rows" in html) is (count > ROWS)
    assert Table(notebook.shows("warehouse.sql('SELECT 1 AS x WHERE false')")["text/html"]).rows == [["x"]]


def test_names_are_shown_as_text(warehouse: Warehouse) -> None:
    capture = warehouse.ingest(
        dump(run("Execute", kernel(EVIL, 10, 30), execute(0, 60))), name=EVIL.replace("\x1b", "")
    )
    warehouse.label(capture, device="<img src=x onerror=alert(1)>")
    shown = bundle_of(warehouse.op_totals(capture).relation)
    table = Table(shown["text/html"])
    assert table.rows[1][0] == "(unattributed)" and table.rows[2][0] == EVIL.replace("\x1b", "\\x1b")
    assert "\x1b" not in shown["text/html"] + shown["text/plain"]
    shown_capture = Table(described(capture))
    assert table.tags | shown_capture.tags <= {"table", "thead", "tbody", "tr", "th", "td", "p", "small"}
    assert ["labels", "device=<img src=x onerror=alert(1)>"] in shown_capture.rows
    named = Table(bundle_of(warehouse.relation('SELECT NULL AS "<b>"'))["text/html"])
    assert named.rows == [["<b>"], [""]] and "b" not in named.tags


def test_captures_are_shown_as_they_are_now(warehouse: Warehouse, tmp_path: Path) -> None:
    capture = warehouse.ingest(MLP)
    assert ["labels", ""] in Table(described(capture)).rows
    warehouse.label(capture, build="41")
    assert ["labels", "build=41"] in Table(described(capture)).rows
    assert ["labels", "build=41"] in Table(described(warehouse.capture("mlp_100runs"))).rows
    [many] = warehouse.ingest_many([MLP])
    assert isinstance(many, Capture) and ["labels", "build=41"] in Table(described(many)).rows
    # A copy, and a capture whose warehouse is closed or that was removed, show the data that they have.
    short = [["capture", "mlp_100runs"], ["sha256", capture.sha256], ["format", "etdump"]]
    copied = pickle.loads(pickle.dumps(capture))
    assert copied == capture and hash(copied) == hash(capture)
    assert Table(described(copied)).rows == Table(described(copy.copy(capture))).rows == short
    warehouse.remove(capture)
    assert Table(described(capture)).rows == short
    warehouse.close()
    assert Table(described(many)).rows == short
    with etq.open() as other:
        record = other.ingest_record(CAPTURES / "mlp/mlp.etrecord")
        program = other.ingest_program(CAPTURES / "mlp/mlp.pte")
        lost = other.ingest(MLP)
    del other
    assert Table(described(lost)).rows == short
    assert Table(described(record)).rows == [["record", "mlp"], ["sha256", record.sha256]]
    assert Table(described(program)).rows == [["program", "mlp"], ["sha256", program.sha256]]


def test_errors_in_data_are_one_line(notebook: Notebook) -> None:
    notebook.shows("import etq; warehouse = etq.open()")
    shown = notebook.shows("""warehouse.sql("SELECT error('a<b')")""")
    assert "a&lt;b" in shown["text/html"] and shown["text/plain"].endswith("a<b")
    assert shown["text/plain"].startswith("Error: ") and "\n" not in shown["text/plain"]


def test_what_a_user_registered_stays(notebook: Notebook) -> None:
    notebook.shows(
        """
import duckdb, etq
get_ipython().display_formatter.mimebundle_formatter.for_type(duckdb.DuckDBPyRelation, lambda r: {"text/html": "mine"})
warehouse = etq.open()
"""
    )
    assert notebook.shows("warehouse.sql('SELECT 1')")["text/html"] == "mine"


@pytest.mark.long
def test_elsewhere_nothing_is_imported_or_registered(tmp_path: Path) -> None:
    script = "import sys, etq; etq.open(); assert not {'IPython', 'etq.render.notebook'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
    # In a terminal, IPython displays text: DuckDB's own table.
    cell = "import etq, duckdb; etq.open(); f = get_ipython().display_formatter.mimebundle_formatter"
    cell += "; print('registered', duckdb.DuckDBPyRelation in f.type_printers)"
    command = [sys.executable, "-m", "IPython", "--no-banner", "--HistoryManager.enabled=False", "-c", cell]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
    )
    assert "registered False" in done.stdout
