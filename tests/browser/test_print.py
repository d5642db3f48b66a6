"""What a reader of a printed page sees: the text of its PDF, and how it was drawn for paper."""

from __future__ import annotations

import base64
import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.batches import ingest_all, linked
from tests.browser.driver import WebDriver
from tests.browser.pages import cells, opened, written
from tests.browser.served import visit
from tests.conftest import CAPTURES
from tests.serve.server import serving, small_capture

pytestmark = pytest.mark.long


def printed(browser: WebDriver, folder: Path) -> list[str]:
    """The text of each page of the PDF, with its words placed as on paper."""
    program = shutil.which("pdftotext")
    if program is None:
        pytest.skip("no pdftotext here: install poppler-utils")
    path = folder / "page.pdf"
    path.write_bytes(base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"]))
    done = subprocess.run([program, "-layout", path, "-"], check=True, capture_output=True, text=True)
    return done.stdout.split("\f")


def words(text: str) -> str:
    """The text with single spaces."""
    return " ".join(text.split())


def test_a_trace_on_paper(browser: WebDriver, warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse.ingest(CAPTURES / "torch_gpu" / "rank0.pt.trace.json.gz", name="rank0")
    opened(browser, written(warehouse, "rank0", tmp_path))
    pages = printed(browser, tmp_path)
    first = words(pages[0])
    assert "average step" in first and "1,320 µs" in first
    with gzip.open(CAPTURES / "torch_gpu" / "rank0.pt.trace.json.gz", "rt") as trace:
        steps = len(set(re.findall(r"ProfilerStep#\d+", trace.read())))
    for op, time, calls in warehouse.sql(
        "SELECT name, self_device_time, calls FROM key_averages('rank0', unit := 'us') "
        "WHERE NOT is_device AND self_device_time > 0"
    ).fetchall():
        assert re.search(rf"{op} {time / steps + 1e-9:.4g} [\d,.]+ {calls}\b", first)
    text = words("\n".join(pages))
    # Why the device waits is among the key figures: 1,405 us of 5,100, of which 1,068 for input data.
    assert "27.55 %" in first and "20.94 % data loading" in first
    # No word of a cause or a heading is broken, no control is on paper, and tables that are cut say so.
    [(gaps,)] = warehouse.sql("SELECT count(*) FROM device_idle('rank0')").fetchall()
    assert f"The first 15 of {gaps} rows." in text
    assert "synchronization 290" in text and "gaps" in text
    assert not re.search(r"Show all|Search|Theme|Reset", text)
    # A long table has its headings on each page.
    rows = len(cells(browser, "critical_path"))
    pages = [words(page) for page in printed(browser, tmp_path)]
    [start] = [at for at, page in enumerate(pages) if "The longest parts" in page]
    [end] = [at for at, page in enumerate(pages) if "Where the time goes" in page]
    assert rows == 140 and end > start
    assert all("kind name op" in page for page in pages[start:end])


def test_a_dump_on_paper(browser: WebDriver, tmp_path: Path) -> None:
    """Its ops are there; its graph fits, and comes back as large as before."""
    with linked("transformer") as warehouse:
        opened(browser, written(warehouse, "run", tmp_path))
        ops = warehouse.rows("SELECT op, calls FROM op_totals('run')")[1]
    size = "const each = document.querySelector('.graph canvas'); return [each.style.height, each.width]"
    before = browser.execute_script(size)
    browser.execute_script(
        "addEventListener('beforeprint', () => {"
        "const each = document.querySelector('.graph canvas');"
        "window.onPaper = [parseInt(each.style.height), each.width / Math.min(devicePixelRatio, 2)]; })"
    )
    text = words("\n".join(printed(browser, tmp_path)))
    assert "execute load" in text
    for op, calls in ops:
        # An execute, a call, the share.
        assert re.search(rf"{re.escape(op)} \w+ [\d.,]+ [\d.,]+ [\d.]+ % {calls:,}\b", text), op
    height, width = browser.execute_script("return window.onPaper")
    assert width == 680 and height < 300
    assert browser.execute_script(size) == before == ["560px", before[1]]


def test_all_captures_are_on_paper(browser: WebDriver, tmp_path: Path) -> None:
    """Not only those in view."""
    names = [f"capture{number}" for number in range(60)]
    with etq.open(tmp_path / "lab.duckdb") as warehouse:
        ingest_all(warehouse, ((name, small_capture(number)) for number, name in enumerate(names)))
    with serving(tmp_path / "lab.duckdb") as server:
        visit(browser, server, "/captures", series=True)
        text = words("\n".join(printed(browser, tmp_path)))
    assert {*re.findall(r"capture\d+", text)} == {*names} and "rows." not in text
