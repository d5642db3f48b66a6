"""Results and captures in a notebook: what a cell of IPython displays, also of the page about notebooks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.docs.pages import ROOT, folder_of_examples

MLP = CAPTURES / "mlp/mlp_100runs.etdp"
EVIL = "<script>alert(1)</script>\x1b[2J&amp;"
# A cell of the page, and what it displays as text if the page shows it.
CELL = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)


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


@pytest.mark.long
def test_the_page(notebook: Notebook, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    with folder_of_examples(tmp_path):
        cells = CELL.findall((ROOT / "docs/how-to/notebooks.md").read_text())
        for cell, text in cells:
            shown = notebook.shows(cell)
            assert not text or shown["text/plain"] == text.rstrip("\n"), cell
    assert sum(bool(text) for _, text in cells) == 6


WRONG = "import etq\netq.read(str(CAPTURES / 'mlp/mlp_100runs.etdp')).op_totals(by='sorce')"


@pytest.mark.long
def test_an_error_is_no_result(notebook: Notebook) -> None:
    with pytest.raises(QueryError, match="by must be .* not sorce"):
        notebook.shows(WRONG)


@pytest.mark.long
def test_an_error_ends_a_notebook_that_runs_as_a_script(tmp_path: Path) -> None:
    for package in ("nbconvert", "ipykernel"):
        pytest.importorskip(package, reason="pip install --group notebook-test")
    touching = "from pathlib import Path\nPath('{}').touch()"
    cells = [touching.format("begun"), f"CAPTURES = Path({str(CAPTURES)!r})\n{WRONG}", touching.format("reached")]
    written: list[dict[str, object]] = [
        {"cell_type": "code", "metadata": {}, "source": cell, "outputs": [], "execution_count": None} for cell in cells
    ]
    book = {"cells": written, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (tmp_path / "book.ipynb").write_text(json.dumps(book))
    command = [sys.executable, "-m", "nbconvert", "--execute", "--to", "notebook", "--stdout", "book.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "not sorce" in done.stderr, done.stderr
    assert [path.name for path in tmp_path.iterdir() if not path.suffix] == ["begun"]


@pytest.mark.long
def test_a_cell_shows_a_view_as_a_table(notebook: Notebook) -> None:
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
    # Of the view's columns those of its line Shown.
    assert [head[at] for at in (0, 7, 10)] == ["op", "calls", "total"] and "total_ticks" not in head
    assert "Further columns: total_ticks; " in shown["text/html"] and "total_ticks; " in shown["text/plain"]
    # By hand: 24072.056 us in 700 calls of all 100 runs.
    assert [rows[0][at] for at in (0, 7, 10)] == ["permute_copy", "700", "24072"]
    assert len(rows) == 7 and "NULL" not in shown["text/html"]
    assert shown["text/plain"].startswith("In all rows: ") and "unit = us" in shown["text/plain"].splitlines()[0]
    # A result made from another one is displayed in the same way; of many rows the first.
    assert len(Table(notebook.shows("warehouse.op_totals(capture).limit(2)")["text/html"]).rows) == 3
    many = notebook.shows("warehouse.event_times(capture)")["text/html"]
    assert len(Table(many).rows) == 61 and "The first 60 rows; " in many
    captured = Table(notebook.shows("capture")["text/html"]).rows
    assert captured == [
        ["capture", "mlp_100runs"], ["sha256", captured[1][1]], ["format", "etdump"], ["labels", "device=pixel8"],
        ["size", f"{MLP.stat().st_size:,} bytes"],
    ]  # fmt: skip
    assert re.fullmatch("[0-9a-f]{64}", captured[1][1])


@pytest.mark.long
def test_names_are_shown_as_text(warehouse: Warehouse) -> None:
    capture = warehouse.ingest(
        dump(run("Execute", kernel(EVIL, 10, 30), execute(0, 60))), name=EVIL.replace("\x1b", "")
    )
    warehouse.label(capture, device="<img src=x onerror=alert(1)>")
    assert [*warehouse.op_totals(capture)] == warehouse.op_totals(capture).fetchall()
    shown = warehouse.op_totals(capture)._repr_mimebundle_()
    table = Table(shown["text/html"])
    assert table.rows[1][0] == "(unattributed)" and table.rows[2][0] == EVIL.replace("\x1b", "\\x1b")
    assert "\x1b" not in shown["text/html"] + shown["text/plain"]
    shown_capture = Table(capture._repr_html_())
    assert table.tags | shown_capture.tags <= {"table", "thead", "tbody", "tr", "th", "td", "p", "small"}
    assert ["labels", "device=<img src=x onerror=alert(1)>"] in shown_capture.rows
    named = Table(warehouse.sql('SELECT NULL AS "<b>"')._repr_html_())
    assert named.rows == [["<b>"], [""]] and "b" not in named.tags
    with pytest.raises(QueryError, match="<b>"):
        warehouse.sql("SELECT error('<b>')")._repr_html_()


def test_an_empty_result_names_the_view_of_the_capture(warehouse: Warehouse) -> None:
    warehouse.ingest(CAPTURES / "torch/steps_7.pt.trace.json.gz", name="trace")
    note = "op_totals is for ETDumps; for PyTorch traces there is key_averages()"
    empty = warehouse.op_totals("trace")
    assert str(empty) == note and note in empty._repr_html_()
    assert "for PyTorch traces there is trace_sources()" in str(warehouse.source_totals("trace"))


@pytest.mark.parametrize("name", ["fetchone", "fetchmany"])
def test_an_error_names_what_reads_some_rows(warehouse: Warehouse, name: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; .*limit\(1\)\.fetchall\(\)"):
        getattr(warehouse.sql("SELECT 1"), name)()
